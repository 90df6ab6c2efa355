// Where the time and the bytes of the forward passes went.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata::runtime {

enum class Part {
  kDense,      // attention projections and the router: bytes are their weights
  kAttention,  // scores and values: bytes are keys and values read
  kExperts,    // bytes are the blobs of the distinct experts used
  kHead,       // output norm and logits
  kOther,      // embedding, norms, RoPE, routing decisions, combine
};
inline constexpr std::size_t kParts = 5;
[[nodiscard]] std::string_view part_name(Part part) noexcept;

struct PartStats {
  double seconds = 0;
  std::uint64_t bytes = 0;  // read from memory at least once
};

// Sums since the last reset. Differences of two snapshots describe what lay between them.
struct Stats {
  std::array<PartStats, kParts> parts;
  std::uint64_t windows = 0;  // forward passes
  std::uint64_t tokens = 0;   // rows of all windows
  double seconds = 0;         // in forward passes, parts and what lies between them

  [[nodiscard]] const PartStats& of(Part part) const noexcept {
    return parts[static_cast<std::size_t>(part)];
  }
  [[nodiscard]] PartStats& of(Part part) noexcept { return parts[static_cast<std::size_t>(part)]; }
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] Stats operator-(const Stats& earlier) const noexcept;
};

}  // namespace strata::runtime
