// A share of a layer's misses is fetched over the link and computed by the accelerator, rather than
// by the CPU from RAM. How many is asked anew for every layer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata::core {

// What the user asked for: a share of the misses, or the number that is done soonest.
struct FetchRequest {
  bool automatic = false;
  double share = 0;  // 0 to 1, when not automatic
  [[nodiscard]] bool off() const noexcept { return !automatic && share == 0; }
};
// "auto" or a number from 0 to 1. Error(kUsage) says what is accepted.
[[nodiscard]] FetchRequest parse_fetch_request(const std::string& text);

// Slots that fetched experts of a size are computed from: as many as a link fills while a prompt's
// layer is computed, a fixed number of bytes, but some of any size.
[[nodiscard]] constexpr int fetch_slots(std::size_t expert_bytes) noexcept {
  constexpr std::size_t kBytes = std::size_t{192} << 20;
  constexpr std::size_t kLeast = 4;
  constexpr std::size_t kMost = 96;
  const std::size_t slots = expert_bytes == 0 ? kLeast : kBytes / expert_bytes;
  return static_cast<int>(slots < kLeast ? kLeast : slots > kMost ? kMost : slots);
}

// Bytes a second, of what was lately done.
class MeasuredRate {
 public:
  void add(double bytes, double seconds) noexcept;
  // 0 while nothing was measured.
  [[nodiscard]] double bytes_per_second() const noexcept {
    return seconds_ > 0 ? bytes_ / seconds_ : 0;
  }

 private:
  double bytes_ = 0, seconds_ = 0;  // each measurement counts 0.95 of the next one
};

// Not thread-safe; no allocation after construction.
class FetchChooser {
 public:
  FetchChooser(FetchRequest request, int layers);

  struct Layer {
    int layer;
    int hits;           // experts that the accelerator computes anyway
    int misses;         // experts
    int miss_rows;      // tokens that chose one of them
    std::size_t bytes;  // of an expert
  };
  // How many of the misses to fetch. With a share: that of all misses of the layer so far, as
  // nearly as whole experts allow. Automatic: so many that pool and accelerator are done soonest,
  //     max((misses - n) * bytes / pool, hits * bytes / accelerator + n * bytes * (1 / link + 1 /
  //     accelerator))
  // being least. What has not been measured is tried: the pool first, then the link with a single
  // expert; and now and then again, since a link that is not used is not measured. Where many rows
  // share an expert, which is slow work for a pool and the same for the link, the link goes first,
  // and takes all unless the pool is several times as fast.
  [[nodiscard]] int choose(const Layer& layer) noexcept;

  // What was measured: the pool's misses, the accelerator's experts, and copies to it. The pool's
  // bytes a second depend on how many rows share an expert, so that rate is kept by their number.
  void pool_took(int experts, int rows, double bytes, double seconds) noexcept {
    pool_[kind(experts, rows)].add(bytes, seconds);
  }
  void accelerator_took(double bytes, double seconds) noexcept { accelerator_.add(bytes, seconds); }
  void link_took(double bytes, double seconds) noexcept { link_.add(bytes, seconds); }
  [[nodiscard]] double link_speed() const noexcept { return link_.bytes_per_second(); }

 private:
  static constexpr std::size_t kKinds = 5;
  static constexpr std::size_t kMany = 3;  // a kind
  static constexpr double kMuchSlower = 4;
  static constexpr int kTryAgain = 512;  // layers with misses and nothing fetched
  // By rows an expert: 1, 2 and 3, 4 to 7, 8 to 15, more.
  [[nodiscard]] static std::size_t kind(int experts, int rows) noexcept;
  [[nodiscard]] int soonest(const Layer& layer) noexcept;

  FetchRequest request_;
  std::vector<double> owed_;  // [layers] experts that a share has not yet made up to a whole one
  std::array<MeasuredRate, kKinds> pool_;
  MeasuredRate accelerator_, link_;
  int unused_ = 0;  // layers since the link was last used
};

}  // namespace strata::core
