// Expert profiles: the (layer, expert) pairs of a model, hottest first, to start a cache warm.
//
// File format STRP (that of the reference engine), little-endian:
//   0   4 bytes  magic "STRP"
//   4   u32      version, 1
//   8   u32      n_layers
//   12  u32      n_expert
//   16  u32      slots the profile was made for; informational
//   20  u32      n_ranked
//   24  n_ranked x (u16 layer, u16 expert), hottest first
//   ... n_layers x n_expert x i32: each pair's place in that list, -1 for a pair not in it
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::core {

// Layers are counted over the whole model, dense ones too; experts over one layer.
struct ExpertGeometry {
  std::int32_t layers = 0;
  std::int32_t experts = 0;

  [[nodiscard]] std::size_t pairs() const noexcept {
    return static_cast<std::size_t>(layers) * static_cast<std::size_t>(experts);
  }
  [[nodiscard]] std::size_t index(std::int32_t layer, std::int32_t expert) const noexcept {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(experts) +
           static_cast<std::size_t>(expert);
  }
  friend bool operator==(const ExpertGeometry&, const ExpertGeometry&) = default;
};

struct RankedExpert {
  std::uint16_t layer;
  std::uint16_t expert;
  friend bool operator==(const RankedExpert&, const RankedExpert&) = default;
};

struct Profile {
  ExpertGeometry geometry;
  std::uint32_t slots = 0;           // informational: the cache it was made for, 0 for any
  std::vector<RankedExpert> ranked;  // hottest first, no pair twice
  std::string sha256 = {};           // of the file it was read from; empty for one that was made
};

// `name` is what errors call the bytes. Error(kInput) with the reason for anything but a whole,
// consistent profile; also when `model` is given and the profile was made for another geometry.
[[nodiscard]] Profile parse_profile(std::span<const std::byte> bytes, std::string_view name,
                                    std::optional<ExpertGeometry> model = std::nullopt);
[[nodiscard]] Profile read_profile(const std::filesystem::path& path,
                                   std::optional<ExpertGeometry> model = std::nullopt);

[[nodiscard]] std::vector<std::byte> serialise_profile(const Profile& profile);
// Whole or not at all (write_atomically).
void write_profile(const std::filesystem::path& path, const Profile& profile);

// Ranks by count, [layers][experts]; of equal counts the lower expert first, then the lower layer,
// so that pairs never seen come last and spread over all layers. A layer without a single count
// has no experts to cache and stays unranked. tools/make_profile.py gives the same bytes.
[[nodiscard]] Profile profile_from_counts(std::span<const double> counts, ExpertGeometry geometry,
                                          std::uint32_t slots = 0);

}  // namespace strata::core
