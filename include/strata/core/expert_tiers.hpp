// Where a window's experts are computed: all on the pool's device, or hits on an accelerator from
// its arena and misses on the pool, side by side. Which of the two never shows in a bit of the
// result.
#pragma once

#include "strata/base/memory.hpp"
#include "strata/core/dispatch.hpp"
#include "strata/core/expert_cache.hpp"
#include "strata/core/expert_stream.hpp"
#include "strata/core/fetch.hpp"
#include "strata/core/handover.hpp"
#include "strata/core/window_exchange.hpp"
#include "strata/device/device.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

namespace strata::core {

// Sums since the start. A row is a token's choice of one expert; an expert counts once a window,
// however many of its tokens chose it.
struct TierCounts {
  std::uint64_t hit_rows = 0;
  std::uint64_t miss_rows = 0;   // of experts that the pool computed
  std::uint64_t fetch_rows = 0;  // of experts that missed too, but were fetched
  std::uint64_t hit_experts = 0;
  std::uint64_t miss_experts = 0;
  std::uint64_t fetch_experts = 0;
  std::uint64_t hit_bytes = 0;    // blobs read from the arena
  std::uint64_t miss_bytes = 0;   // blobs read from RAM
  std::uint64_t fetch_bytes = 0;  // blobs copied to the accelerator for a layer of one window
  double hit_seconds = 0;         // the accelerator took for the hits
  double miss_seconds = 0;        // the pool took for the misses, beside it
  double fetch_seconds = 0;       // the copies of what was fetched took
  [[nodiscard]] std::uint64_t rows() const noexcept { return hit_rows + miss_rows + fetch_rows; }
  TierCounts& operator+=(const TierCounts& other) noexcept;
  [[nodiscard]] TierCounts operator-(const TierCounts& earlier) const noexcept;
};

class ExpertTiers {
 public:
  // No cache: every expert on `pool`. The store must outlive this, as must all that is given below.
  ExpertTiers(const ExpertStore& store, device::Device& pool, int layers, int experts);
  // x and parts are in the memory of `home`, which the pool cannot touch: rows for it, of up to
  // `tokens` x `width` floats and as many experts a token as `used`, go through host memory.
  void set_home(device::Device& home, int tokens, int used, std::int64_t width);
  // With a cache in `accelerator`'s memory, which is the home's where there is one. `rows`: parts
  // rows of the largest window. Starts the pool's service thread; from then on the pool's device is
  // used by that thread while a layer's misses are out, and by the caller otherwise.
  void attach(ExpertCache& cache, device::Device& accelerator, int rows);
  // After attach(): from now on some misses are fetched into the cache's staging slots and computed
  // by the accelerator. link_bytes_per_second: as CopyEngine's.
  void fetch(FetchRequest request, double link_bytes_per_second);
  ~ExpertTiers();
  ExpertTiers(const ExpertTiers&) = delete;
  ExpertTiers& operator=(const ExpertTiers&) = delete;

  // parts[token * used + rank] = expert ids[token][rank] of x[token], unweighted. Error(kInternal)
  // when the pool's side fails or falls silent. Returns the bytes of the blobs read.
  std::uint64_t compute(int layer, device::Rows x, std::span<const std::int32_t> ids, int used,
                        device::Rows parts);

  // ---- windows that the home runs as programs (device/program.hpp)
  // Whether it can: hits are computed by the home, and nothing is fetched.
  [[nodiscard]] bool can_record() const noexcept;
  // While the home notes: a layer's experts, and sum[t] += their weighted outputs. ids, weights,
  // parts: the home's.
  void record(int layer, device::Rows x, const std::int32_t* ids, const float* weights,
              device::Rows parts, device::Rows sum);
  // Between the home's begin_window() and start().
  void publish() { exchange_->publish(cache_); }
  struct Served {
    WindowExchange::Choice choice;  // in host memory until the next window
    std::uint64_t bytes;            // of the blobs read
  };
  // While it runs, layer after layer: waits for the choice, computes what the home lacks. Error as
  // compute(); the program has ended then, with worthless results.
  Served serve(int layer, int rows);
  // After the program has ended: Error(kInternal) when the home waited in vain.
  void check() { exchange_->check(); }
  // After another error: a running program waits for nothing any more.
  void release() noexcept { exchange_->release(); }

  [[nodiscard]] const TierCounts& counts(int layer) const noexcept {
    return counts_[static_cast<std::size_t>(layer)];
  }
  // [experts] how many rows of the layer chose each expert since the start.
  [[nodiscard]] std::span<const std::uint64_t> uses(int layer) const noexcept {
    const std::size_t experts = uses_.size() / counts_.size();
    return std::span(uses_).subspan(static_cast<std::size_t>(layer) * experts, experts);
  }
  [[nodiscard]] int layers() const noexcept { return static_cast<int>(counts_.size()); }
  [[nodiscard]] TierCounts total() const noexcept;

 private:
  void count(int layer, std::span<const std::int32_t> ids, std::span<const device::ExpertWork> hits,
             std::span<const device::ExpertWork> misses,
             std::span<const device::ExpertWork> fetched);
  // Fetched misses; null without fetch().
  struct Fetcher;
  void serve();
  void compute_beside(int layer, device::Rows x, std::span<const device::ExpertWork> hits,
                      std::span<const device::ExpertWork> misses,
                      std::span<const device::ExpertWork> fetched, device::Rows parts);
  void measure_link();
  void look_ahead(int layer, std::size_t choices);
  void compute_fetched(int layer, device::Rows x, std::span<const device::ExpertWork> fetched,
                       device::Rows parts);
  // Rows as the pool sees them.
  [[nodiscard]] device::Rows to_pool(device::Rows x);
  [[nodiscard]] device::Rows pool_parts(device::Rows parts) noexcept;
  // Brings the pool's rows home.
  void from_pool(std::span<const device::ExpertWork> misses, device::Rows parts);

  const ExpertStore& store_;
  device::Device& pool_;
  ExpertDispatch dispatch_;
  std::vector<TierCounts> counts_;   // by layer
  std::vector<std::uint64_t> uses_;  // [layers][experts]
  device::Device* home_ = nullptr;
  std::unique_ptr<WindowExchange> exchange_;             // where the home can note windows
  std::unique_ptr<device::Memory> host_x_, host_parts_;  // where there is a home
  std::vector<std::int32_t> rows_;                       // scratch
  ExpertCache* cache_ = nullptr;
  device::Device* accelerator_ = nullptr;
  std::unique_ptr<Handover> handover_;
  std::unique_ptr<Fetcher> fetcher_;
  double served_seconds_ = 0;  // of the last request; written by the service before its reply
  std::thread service_;
};

}  // namespace strata::core
