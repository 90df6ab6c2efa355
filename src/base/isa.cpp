#include "strata/base/isa.hpp"

#include "src/base/isa_checks.hpp"

#include <fmt/core.h>
#include <fmt/format.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>

namespace strata {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"generic", "avx2", "avxvnni", "avx512", "amx"};
constexpr std::array<Isa, 5> kAll = {Isa::kGeneric, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512,
                                     Isa::kAmx};

// The set that an instruction set extends: it has all of that one's needs, too.
constexpr Isa base_of(Isa isa) {
  switch (isa) {
    case Isa::kAmx:
      return Isa::kAvx512;
    case Isa::kAvx512:
    case Isa::kAvxVnni:
      return Isa::kAvx2;
    default:
      return Isa::kGeneric;
  }
}

// Intel SDM volume 2A, CPUID; names as /proc/cpuinfo and the SDM have them.
struct Feature {
  Isa isa;
  std::string_view name;
  CpuidWord word;
  int bit;
};
constexpr Feature kFeatures[] = {
    {Isa::kAvx2, "AVX", CpuidWord::k1Ecx, 28},
    {Isa::kAvx2, "FMA", CpuidWord::k1Ecx, 12},
    {Isa::kAvx2, "F16C", CpuidWord::k1Ecx, 29},
    {Isa::kAvx2, "AVX2", CpuidWord::k7Ebx, 5},
    {Isa::kAvx2, "BMI2", CpuidWord::k7Ebx, 8},
    {Isa::kAvxVnni, "AVX_VNNI", CpuidWord::k7Sub1Eax, 4},
    {Isa::kAvx512, "AVX512F", CpuidWord::k7Ebx, 16},
    {Isa::kAvx512, "AVX512DQ", CpuidWord::k7Ebx, 17},
    {Isa::kAvx512, "AVX512BW", CpuidWord::k7Ebx, 30},
    {Isa::kAvx512, "AVX512VL", CpuidWord::k7Ebx, 31},
    {Isa::kAvx512, "AVX512_VNNI", CpuidWord::k7Ecx, 11},
    {Isa::kAmx, "AMX_TILE", CpuidWord::k7Edx, 24},
    {Isa::kAmx, "AMX_INT8", CpuidWord::k7Edx, 25},
};

// Intel SDM volume 1, 13.3: the state components of XCR0.
struct State {
  Isa isa;
  std::string_view name;
  std::uint64_t mask;
};
constexpr State kStates[] = {
    {Isa::kAvx2, "AVX", 0x6},          // XMM, upper YMM
    {Isa::kAvx512, "AVX-512", 0xE0},   // opmask, upper ZMM, ZMM16..31
    {Isa::kAmx, "AMX tile", 0x60000},  // TILECFG, TILEDATA
};

bool is_or_extends(Isa isa, Isa base) {
  while (isa != base && isa != Isa::kGeneric) isa = base_of(isa);
  return isa == base;
}

bool has(const CpuFeatures& features, const Feature& feature) {
  return ((features.words[static_cast<std::size_t>(feature.word)] >> feature.bit) & 1U) != 0;
}

}  // namespace

std::string_view isa_name(Isa isa) noexcept { return kNames[static_cast<std::size_t>(isa)]; }

std::optional<Isa> parse_isa(std::string_view name) noexcept {
  for (const Isa isa : kAll) {
    if (isa_name(isa) == name) return isa;
  }
  return std::nullopt;
}

#if defined(__x86_64__)
CpuFeatures read_cpu_features() {
  CpuFeatures features;
  const auto word = [&features](CpuidWord name) -> std::uint32_t& {
    return features.words[static_cast<std::size_t>(name)];
  };
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) word(CpuidWord::k1Ecx) = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    const unsigned last_subleaf = eax;
    word(CpuidWord::k7Ebx) = ebx;
    word(CpuidWord::k7Ecx) = ecx;
    word(CpuidWord::k7Edx) = edx;
    if (last_subleaf >= 1) {
      __cpuid_count(7, 1, eax, ebx, ecx, edx);
      word(CpuidWord::k7Sub1Eax) = eax;
    }
  }
  constexpr std::uint32_t kOsXsave = 1U << 27;
  if ((word(CpuidWord::k1Ecx) & kOsXsave) != 0) {
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    features.xcr0 = (static_cast<std::uint64_t>(high) << 32) | low;
  }
  return features;
}
#else
CpuFeatures read_cpu_features() { return {}; }
#endif

std::string missing_features(Isa isa, const CpuFeatures& features) {
  std::vector<std::string_view> missing;
  for (const Feature& feature : kFeatures) {
    if (is_or_extends(isa, feature.isa) && !has(features, feature)) missing.push_back(feature.name);
  }
  if (!missing.empty()) return fmt::format("the processor lacks {}", fmt::join(missing, ", "));
  for (const State& state : kStates) {
    if (is_or_extends(isa, state.isa) && (features.xcr0 & state.mask) != state.mask) {
      missing.push_back(state.name);
    }
  }
  if (missing.empty()) return "";
  return fmt::format("the operating system does not save the {} registers",
                     fmt::join(missing, " and "));
}

std::vector<IsaSupport> judge_isas(const CpuFeatures& features, const IsaProbes& probes) {
  std::vector<IsaSupport> support;
  for (const Isa isa : kAll) {
    std::string reason;
    if (isa != Isa::kGeneric) {
      const IsaSupport& base = support[static_cast<std::size_t>(base_of(isa))];
      reason = missing_features(isa, features);
      if (reason.empty() && !base.usable) {
        reason = fmt::format("it needs {}, of which: {}", isa_name(base.isa), base.reason);
      }
      if (reason.empty() && isa == Isa::kAmx) reason = probes.request_amx();
      if (reason.empty()) reason = probes.trial(isa);
    }
    const bool usable = reason.empty();
    support.push_back({isa, usable, std::move(reason)});
  }
  return support;
}

std::vector<IsaSupport> detect_isas() {
  return judge_isas(read_cpu_features(), {request_amx_permission, try_isa});
}

Isa best_isa(std::span<const IsaSupport> support) noexcept {
  Isa best = Isa::kGeneric;
  for (const IsaSupport& entry : support) {
    if (entry.usable) best = std::max(best, entry.isa);
  }
  return best;
}

}  // namespace strata
