// The architectures we run, as rows of one table: what differs between models is data, the forward
// pass is one.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace strata::model {

enum class RopeKind { kAdjacentPairs, kHalves };  // (x[2j], x[2j+1]) or (x[j], x[j + n_rot/2])
enum class QkNorm { kNone, kPerHead };            // RMSNorm of each query and key head before RoPE

struct Architecture {
  std::string_view name;  // general.architecture, and the prefix of the model's keys
  RopeKind rope;
  QkNorm qk_norm;
  bool renormalize;           // the chosen experts' weights are divided by their sum
  std::string_view ffn_norm;  // name of the norm before the experts
};

// nullptr for a name that has no row.
[[nodiscard]] const Architecture* find_architecture(std::string_view name) noexcept;
[[nodiscard]] std::span<const Architecture> architectures() noexcept;

}  // namespace strata::model
