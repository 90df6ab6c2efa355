// How tokens are cut into panels, and how small work is kept off the pool.
#pragma once

#include "kernels/cpu/kernels.hpp"
#include "strata/base/thread_pool.hpp"

#include <cstddef>

namespace strata::device {

struct Tile {
  int first;   // token
  int tokens;  // a width of kernels::kTiles
};

// `count` tokens as tiles of 16, then 8, 4, 2, 1. A tile's panel starts where its first token's row
// would.
class TileCut {
 public:
  explicit TileCut(int count) noexcept : count_(count), full_(count / kernels::kMaxTile) {
    const int rest = count % kernels::kMaxTile;
    for (int width = kernels::kMaxTile / 2; width > 0; width /= 2) tail_ += (rest & width) != 0;
  }
  [[nodiscard]] int tiles() const noexcept { return full_ + tail_; }
  [[nodiscard]] Tile tile(int index) const noexcept {
    if (index < full_) return {index * kernels::kMaxTile, kernels::kMaxTile};
    Tile tile{full_ * kernels::kMaxTile, 0};
    for (int i = full_; i <= index; ++i) {
      tile.first += tile.tokens;
      tile.tokens = kernels::tile_width(count_ - tile.first);
    }
    return tile;
  }
  [[nodiscard]] Tile of_token(int token) const noexcept {
    if (token < full_ * kernels::kMaxTile) {
      return {token / kernels::kMaxTile * kernels::kMaxTile, kernels::kMaxTile};
    }
    Tile t = tile(full_);
    while (token >= t.first + t.tokens)
      t = {t.first + t.tokens, kernels::tile_width(count_ - t.first - t.tokens)};
    return t;
  }

 private:
  int count_;
  int full_;
  int tail_ = 0;
};

// Calls job(i, worker) for i in [0, count). `elements` is about how many floats an item touches:
// what takes less than waking the pool is done here.
template <class Job>
void spread(ThreadPool& pool, std::size_t count, std::size_t elements, const Job& job) {
  constexpr std::size_t kWorthWaking = 16384;
  if (count * elements < kWorthWaking) {
    for (std::size_t i = 0; i < count; ++i) job(i, 0);
    return;
  }
  // A few items a task: the counter that hands them out is shared.
  const std::size_t step = count / (static_cast<std::size_t>(pool.size()) * 8) + 1;
  pool.parallel_for((count + step - 1) / step, [&](std::size_t task, int worker) {
    for (std::size_t i = task * step; i < count && i < (task + 1) * step; ++i) job(i, worker);
  });
}

}  // namespace strata::device
