// The parts of detect_isas, separate so that tests can put any processor and system in front of it.
#pragma once

#include "strata/base/isa.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace strata {

// The CPUID registers that hold our feature bits, as leaf, subleaf and register.
enum class CpuidWord { k1Ecx, k7Ebx, k7Ecx, k7Edx, k7Sub1Eax, kCount };

struct CpuFeatures {
  std::array<std::uint32_t, static_cast<std::size_t>(CpuidWord::kCount)> words{};
  std::uint64_t xcr0 = 0;  // register states the operating system saves; 0 without OSXSAVE
};

[[nodiscard]] CpuFeatures read_cpu_features();

// What CPUID and XCR0 lack for an instruction set, those below it included; empty when nothing.
[[nodiscard]] std::string missing_features(Isa isa, const CpuFeatures& features);

// Both return the reason why not, or an empty string.
struct IsaProbes {
  std::function<std::string()> request_amx;
  std::function<std::string(Isa)> trial;
};

// Every instruction set in order. A probe is asked only about what the features allow, and a set
// whose base failed its trial is not tried.
[[nodiscard]] std::vector<IsaSupport> judge_isas(const CpuFeatures& features,
                                                 const IsaProbes& probes);

// Asks Linux for the AMX tile state: once for the whole process, its later threads included.
[[nodiscard]] std::string request_amx_permission();

// Runs `trial` in a child process; empty when it returned true there, else what became of it.
// A crash, a wrong result or a hang stays in the child: no signal handler of this process is
// touched, no other thread notices, and no SIGCHLD is sent.
[[nodiscard]] std::string run_in_child(bool (*trial)());

// Executes instructions of the set in a child and checks their results.
[[nodiscard]] std::string try_isa(Isa isa);

}  // namespace strata
