// The instruction sets our CPU kernels exist for, and which of them this machine really runs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// In order of preference: a later one is faster where it runs. All give the same bits (docs/exactness.md).
enum class Isa { kGeneric, kAvx2, kAvxVnni, kAvx512, kAmx };

[[nodiscard]] std::string_view isa_name(Isa isa) noexcept;  // "generic" "avx2" "avxvnni" "avx512" "amx"
[[nodiscard]] std::optional<Isa> parse_isa(std::string_view name) noexcept;

struct IsaSupport {
  Isa isa;
  bool usable;
  std::string reason;  // when not usable: the missing CPU feature, or what the OS or a trial run refused
};

// Asks CPUID and XCR0, asks the OS for AMX tile permission, then executes an instruction of each set under a guard
// for SIGILL: what is listed as usable has run here. Call once, early, from one thread.
[[nodiscard]] std::vector<IsaSupport> detect_isas();
// The fastest usable one.
[[nodiscard]] Isa best_isa(std::span<const IsaSupport> support) noexcept;

}  // namespace strata
