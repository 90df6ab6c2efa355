#include "strata/model/architecture.hpp"

#include <algorithm>
#include <array>

namespace strata::model {
namespace {

constexpr std::array kArchitectures{
    Architecture{.name = "qwen3moe",
                 .rope = RopeKind::kHalves,
                 .qk_norm = QkNorm::kPerHead,
                 .renormalize = true,
                 .ffn_norm = "ffn_norm"},
};

}  // namespace

const Architecture* find_architecture(std::string_view name) noexcept {
  const auto* row = std::ranges::find(kArchitectures, name, &Architecture::name);
  return row == kArchitectures.end() ? nullptr : row;
}

std::span<const Architecture> architectures() noexcept { return kArchitectures; }

}  // namespace strata::model
