#include "strata/core/window_routing.hpp"

#include <algorithm>
#include <cassert>

namespace strata::core {

WindowRouting::WindowRouting(ExpertGeometry geometry, int used, int max_tokens)
    : geometry_(geometry),
      used_(used),
      max_tokens_(max_tokens),
      rows_(static_cast<std::size_t>(geometry.layers)),
      ids_(begin(geometry.layers)),
      weights_(ids_.size()) {}

void WindowRouting::clear() noexcept {
  tokens_ = 0;
  std::ranges::fill(rows_, 0);
}

void WindowRouting::add(int layer, std::span<const std::int32_t> ids,
                        std::span<const float> weights) noexcept {
  const int rows = static_cast<int>(ids.size()) / used_;
  assert(rows <= max_tokens_ && ids.size() == weights.size());
  rows_[static_cast<std::size_t>(layer)] = rows;
  tokens_ = std::max(tokens_, rows);
  std::ranges::copy(ids, ids_.begin() + static_cast<std::ptrdiff_t>(begin(layer)));
  std::ranges::copy(weights, weights_.begin() + static_cast<std::ptrdiff_t>(begin(layer)));
}

std::size_t WindowRouting::begin(int layer) const noexcept {
  return static_cast<std::size_t>(layer) * static_cast<std::size_t>(max_tokens_) *
         static_cast<std::size_t>(used_);
}

std::size_t WindowRouting::picks(int layer) const noexcept {
  return static_cast<std::size_t>(rows_[static_cast<std::size_t>(layer)]) *
         static_cast<std::size_t>(used_);
}

bool WindowRouting::find(int layer, int token, std::size_t& at) const noexcept {
  const int row = token - (tokens_ - rows_[static_cast<std::size_t>(layer)]);
  at = begin(layer) + static_cast<std::size_t>(std::max(row, 0)) * static_cast<std::size_t>(used_);
  return row >= 0;
}

std::span<const std::int32_t> WindowRouting::ids(int layer, int token) const noexcept {
  std::size_t at = 0;
  if (!find(layer, token, at)) return {};
  return std::span(ids_).subspan(at, static_cast<std::size_t>(used_));
}

std::span<const float> WindowRouting::weights(int layer, int token) const noexcept {
  std::size_t at = 0;
  if (!find(layer, token, at)) return {};
  return std::span(weights_).subspan(at, static_cast<std::size_t>(used_));
}

std::span<const std::int32_t> WindowRouting::ids(int layer) const noexcept {
  return std::span(ids_).subspan(begin(layer), picks(layer));
}

std::span<const float> WindowRouting::weights(int layer) const noexcept {
  return std::span(weights_).subspan(begin(layer), picks(layer));
}

}  // namespace strata::core
