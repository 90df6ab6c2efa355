// The instruction sets our CPU kernels exist for, and which of them this machine really runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// In order of preference: a later one is faster where it runs. All give the same bits
// (docs/exactness.md).
enum class Isa { kGeneric, kAvx2, kAvxVnni, kAvx512, kAmx };

// "generic" "avx2" "avxvnni" "avx512" "amx"
[[nodiscard]] std::string_view isa_name(Isa isa) noexcept;
[[nodiscard]] std::optional<Isa> parse_isa(std::string_view name) noexcept;

struct IsaSupport {
  Isa isa;
  bool usable;
  // When not usable: the missing processor feature, or what the system or a trial run refused.
  std::string reason;
};

// One entry an instruction set, in order; kGeneric is always usable. Asks CPUID and XCR0, asks the
// operating system for the AMX tile state, then executes instructions of each set in a child
// process and checks their results: what is listed as usable has run here. The AMX permission holds
// for all threads of the process, those already running included. Call once, early: the child is a
// copy of the process, cheap while that is small. Needs (in brackets the set it extends):
//   avx2: AVX2, FMA, F16C, BMI2    avxvnni (avx2): AVX_VNNI
//   avx512 (avx2): AVX512F, BW, VL, DQ, VNNI    amx (avx512): AMX_TILE, AMX_INT8 and the permission
[[nodiscard]] std::vector<IsaSupport> detect_isas();
// The fastest usable one.
[[nodiscard]] Isa best_isa(std::span<const IsaSupport> support) noexcept;

}  // namespace strata
