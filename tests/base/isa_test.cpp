#include "strata/base/isa.hpp"

#include "src/base/isa_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace strata {
namespace {

using testing::HasSubstr;

constexpr Isa kAll[] = {Isa::kGeneric, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAmx};
constexpr std::uint64_t kAllStates = 0x600E7;

std::uint32_t& word(CpuFeatures& features, CpuidWord name) {
  return features.words[static_cast<std::size_t>(name)];
}

// A processor and system that have everything, as Sapphire Rapids under Linux 5.16.
CpuFeatures everything() {
  CpuFeatures features;
  word(features, CpuidWord::k1Ecx) = 1U << 12 | 1U << 27 | 1U << 28 | 1U << 29;
  word(features, CpuidWord::k7Ebx) = 1U << 5 | 1U << 8 | 1U << 16 | 1U << 17 | 1U << 30 | 1U << 31;
  word(features, CpuidWord::k7Ecx) = 1U << 11;
  word(features, CpuidWord::k7Edx) = 1U << 24 | 1U << 25;
  word(features, CpuidWord::k7Sub1Eax) = 1U << 4;
  features.xcr0 = kAllStates;
  return features;
}

IsaProbes willing() {
  return {[] { return std::string(); }, [](Isa) { return std::string(); }};
}

std::vector<std::string> usable_names(const std::vector<IsaSupport>& support) {
  std::vector<std::string> names;
  for (const IsaSupport& entry : support) {
    if (entry.usable) names.emplace_back(isa_name(entry.isa));
  }
  return names;
}

const std::string& reason(const std::vector<IsaSupport>& support, Isa isa) {
  return support.at(static_cast<std::size_t>(isa)).reason;
}

void expect_well_formed(const std::vector<IsaSupport>& support) {
  ASSERT_EQ(support.size(), std::size(kAll));
  for (std::size_t i = 0; i < support.size(); ++i) {
    EXPECT_EQ(support[i].isa, kAll[i]);
    EXPECT_EQ(support[i].usable, support[i].reason.empty()) << support[i].reason;
  }
  EXPECT_TRUE(support[0].usable);
}

TEST(Isa, NamesRoundTrip) {
  for (const Isa isa : kAll) EXPECT_EQ(parse_isa(isa_name(isa)), isa);
  for (const char* const other : {"", "AVX2", "avx", "avx5122", "sse"}) {
    EXPECT_EQ(parse_isa(other), std::nullopt) << other;
  }
}

TEST(Isa, OfThisMachineIsWellFormedAndRepeatable) {
  const std::vector<IsaSupport> first = detect_isas();
  expect_well_formed(first);
  EXPECT_EQ(usable_names(first), usable_names(detect_isas()));
  EXPECT_TRUE(first[static_cast<std::size_t>(best_isa(first))].usable);
}

// What the kernel found out: it leaves out of its list what it has not enabled.
std::set<std::string> kernel_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST(Isa, AgreesWithTheKernel) {
  const std::set<std::string> flags = kernel_flags();
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  const auto has_all = [&flags](std::initializer_list<const char*> names) {
    return std::all_of(names.begin(), names.end(),
                       [&flags](const char* name) { return flags.count(name) != 0; });
  };
  const CpuFeatures features = read_cpu_features();
  const bool avx2 = has_all({"avx", "avx2", "fma", "f16c", "bmi2"});
  const bool avx512 =
      avx2 && has_all({"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"});
  EXPECT_EQ(missing_features(Isa::kAvx2, features).empty(), avx2);
  EXPECT_EQ(missing_features(Isa::kAvxVnni, features).empty(), avx2 && has_all({"avx_vnni"}));
  EXPECT_EQ(missing_features(Isa::kAvx512, features).empty(), avx512);
  EXPECT_EQ(missing_features(Isa::kAmx, features).empty(),
            avx512 && has_all({"amx_tile", "amx_int8"}));
}

TEST(Isa, BestIsTheLastUsable) {
  EXPECT_EQ(best_isa({}), Isa::kGeneric);
  const std::vector<IsaSupport> gaps = {{Isa::kGeneric, true, ""},
                                        {Isa::kAvx2, true, ""},
                                        {Isa::kAvxVnni, false, "no"},
                                        {Isa::kAvx512, true, ""},
                                        {Isa::kAmx, false, "no"}};
  EXPECT_EQ(best_isa(gaps), Isa::kAvx512);
}

TEST(IsaFeatures, EverythingIsUsable) {
  const auto support = judge_isas(everything(), willing());
  expect_well_formed(support);
  EXPECT_THAT(usable_names(support),
              testing::ElementsAre("generic", "avx2", "avxvnni", "avx512", "amx"));
  EXPECT_EQ(best_isa(support), Isa::kAmx);
}

TEST(IsaFeatures, NothingLeavesGeneric) {
  IsaProbes probes;
  probes.request_amx = [] {
    ADD_FAILURE() << "asked for AMX";
    return std::string();
  };
  probes.trial = [](Isa isa) {
    ADD_FAILURE() << "tried " << isa_name(isa);
    return std::string();
  };
  const auto support = judge_isas(CpuFeatures{}, probes);
  expect_well_formed(support);
  EXPECT_EQ(best_isa(support), Isa::kGeneric);
  EXPECT_EQ(reason(support, Isa::kAvx2), "the processor lacks AVX, FMA, F16C, AVX2, BMI2");
}

// Every single bit taken away, and exactly the sets that need it become unusable and name it.
TEST(IsaFeatures, OneMissingBitIsNamed) {
  struct Case {
    CpuidWord word;
    int bit;
    const char* name;
    Isa first;  // the lowest set that needs it
  };
  const Case cases[] = {
      {CpuidWord::k1Ecx, 28, "AVX", Isa::kAvx2},
      {CpuidWord::k1Ecx, 12, "FMA", Isa::kAvx2},
      {CpuidWord::k1Ecx, 29, "F16C", Isa::kAvx2},
      {CpuidWord::k7Ebx, 5, "AVX2", Isa::kAvx2},
      {CpuidWord::k7Ebx, 8, "BMI2", Isa::kAvx2},
      {CpuidWord::k7Sub1Eax, 4, "AVX_VNNI", Isa::kAvxVnni},
      {CpuidWord::k7Ebx, 16, "AVX512F", Isa::kAvx512},
      {CpuidWord::k7Ebx, 17, "AVX512DQ", Isa::kAvx512},
      {CpuidWord::k7Ebx, 30, "AVX512BW", Isa::kAvx512},
      {CpuidWord::k7Ebx, 31, "AVX512VL", Isa::kAvx512},
      {CpuidWord::k7Ecx, 11, "AVX512_VNNI", Isa::kAvx512},
      {CpuidWord::k7Edx, 24, "AMX_TILE", Isa::kAmx},
      {CpuidWord::k7Edx, 25, "AMX_INT8", Isa::kAmx},
  };
  for (const Case& test : cases) {
    CpuFeatures features = everything();
    word(features, test.word) &= ~(1U << test.bit);
    const auto support = judge_isas(features, willing());
    expect_well_formed(support);
    for (const Isa isa : kAll) {
      const bool other_branch =
          isa == Isa::kAvxVnni ? test.first > Isa::kAvxVnni : test.first == Isa::kAvxVnni;
      const bool needs = isa >= test.first && !other_branch;
      EXPECT_EQ(reason(support, isa),
                needs ? std::string("the processor lacks ") + test.name : std::string())
          << isa_name(isa);
    }
  }
}

TEST(IsaFeatures, AmxNamesWhatIsMissingBelowItToo) {
  CpuFeatures features = everything();
  word(features, CpuidWord::k7Ecx) = 0;
  word(features, CpuidWord::k7Edx) = 0;
  const auto support = judge_isas(features, willing());
  EXPECT_EQ(reason(support, Isa::kAmx), "the processor lacks AVX512_VNNI, AMX_TILE, AMX_INT8");
  EXPECT_EQ(best_isa(support), Isa::kAvxVnni);
}

TEST(IsaFeatures, RegistersTheSystemDoesNotSave) {
  CpuFeatures features = everything();
  features.xcr0 = 0x3;
  auto support = judge_isas(features, willing());
  EXPECT_EQ(best_isa(support), Isa::kGeneric);
  EXPECT_EQ(reason(support, Isa::kAvx2), "the operating system does not save the AVX registers");
  features.xcr0 = 0x7;
  support = judge_isas(features, willing());
  EXPECT_EQ(best_isa(support), Isa::kAvxVnni);
  EXPECT_EQ(reason(support, Isa::kAvx512),
            "the operating system does not save the AVX-512 registers");
  for (const std::uint64_t one_missing : {0x20U, 0x40U, 0x80U}) {
    features.xcr0 = kAllStates & ~one_missing;
    EXPECT_EQ(best_isa(judge_isas(features, willing())), Isa::kAvxVnni) << one_missing;
  }
  features.xcr0 = kAllStates & ~std::uint64_t{0x40000};  // TILECFG without TILEDATA
  support = judge_isas(features, willing());
  EXPECT_EQ(best_isa(support), Isa::kAvx512);
  EXPECT_EQ(reason(support, Isa::kAmx),
            "the operating system does not save the AMX tile registers");
}

TEST(IsaProbes, AmxWithoutPermissionIsNotTried) {
  IsaProbes probes = willing();
  probes.request_amx = [] { return std::string("the operating system refused"); };
  probes.trial = [](Isa isa) {
    EXPECT_NE(isa, Isa::kAmx);
    return std::string();
  };
  const auto support = judge_isas(everything(), probes);
  expect_well_formed(support);
  EXPECT_EQ(best_isa(support), Isa::kAvx512);
  EXPECT_EQ(reason(support, Isa::kAmx), "the operating system refused");
}

TEST(IsaProbes, AFailedTrialTakesWhatBuildsOnItAlong) {
  IsaProbes probes = willing();
  probes.trial = [](Isa isa) {
    EXPECT_NE(isa, Isa::kAmx) << "tried on a set that failed";
    return std::string(isa == Isa::kAvx512 ? "it met an illegal instruction" : "");
  };
  const auto support = judge_isas(everything(), probes);
  expect_well_formed(support);
  EXPECT_EQ(best_isa(support), Isa::kAvxVnni);
  EXPECT_EQ(reason(support, Isa::kAmx), "it needs avx512, of which: it met an illegal instruction");
}

bool ends_well() { return true; }
bool wrong_result() { return false; }
bool illegal_instruction() {
  asm volatile("ud2");
  return true;
}
bool bad_access() {
  ::raise(SIGSEGV);
  return true;
}
bool killed() {
  ::raise(SIGKILL);
  return true;
}
bool hangs() {
  ::alarm(1);  // sooner than the trial's own limit
  for (;;) ::pause();
}

TEST(IsaTrial, TellsHowTheChildEnded) {
  EXPECT_EQ(run_in_child(ends_well), "");
  EXPECT_THAT(run_in_child(wrong_result), HasSubstr("wrong result"));
  EXPECT_THAT(run_in_child(illegal_instruction), HasSubstr("illegal instruction"));
  EXPECT_THAT(run_in_child(bad_access), HasSubstr("signal 11"));
  EXPECT_THAT(run_in_child(killed), HasSubstr("killed by signal 9"));
  EXPECT_THAT(run_in_child(hangs), HasSubstr("did not end"));
}

int child_signals = 0;
void count_child(int) { ++child_signals; }

// A program with its own children and its own handlers sees nothing of a trial.
TEST(IsaTrial, LeavesTheProgramsSignalsAndChildrenAlone) {
  struct sigaction counting {};
  counting.sa_handler = count_child;
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGCHLD, &counting, &before), 0);
  struct sigaction illegal_before {};
  ::sigaction(SIGILL, nullptr, &illegal_before);
  EXPECT_THAT(run_in_child(illegal_instruction), HasSubstr("illegal instruction"));
  struct sigaction illegal_after {};
  ::sigaction(SIGILL, nullptr, &illegal_after);
  EXPECT_EQ(illegal_after.sa_handler, illegal_before.sa_handler);
  EXPECT_EQ(child_signals, 0);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  // Children that are reaped by themselves are no hindrance either.
  struct sigaction ignoring {};
  ignoring.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignoring, nullptr);
  EXPECT_EQ(run_in_child(ends_well), "");
  ::sigaction(SIGCHLD, &before, nullptr);
}

// A set that CPUID announces runs, or the reason says what happened; one that it does not announce
// ends in the child.
TEST(IsaTrial, EveryTrialComesBack) {
  EXPECT_EQ(try_isa(Isa::kGeneric), "");
  const CpuFeatures features = read_cpu_features();
  for (const Isa isa : {Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512}) {
    const bool announced = missing_features(isa, features).empty();
    EXPECT_EQ(try_isa(isa).empty(), announced) << isa_name(isa) << ": " << try_isa(isa);
  }
  if (!missing_features(Isa::kAmx, features).empty()) {
    EXPECT_NE(try_isa(Isa::kAmx), "");
  }
}

}  // namespace
}  // namespace strata
