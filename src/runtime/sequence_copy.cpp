#include "strata/runtime/sequence_copy.hpp"

#include "strata/quant/packed_matrix.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

namespace strata::runtime {
namespace {

// The device's memory of the prefix, a head's keys or values at a layer each, in a fixed order.
std::vector<std::span<std::byte>> pieces_of(const SequenceState& state, const model::HParams& h,
                                            int positions) {
  assert(positions >= 0 && positions <= state.capacity());
  std::vector<std::span<std::byte>> pieces;
  if (positions == 0) return pieces;
  constexpr int kGroup = quant::kGroupRows;
  const auto groups = static_cast<std::size_t>((positions + kGroup - 1) / kGroup);
  for (int layer = 0; layer < h.layers; ++layer) {
    const device::KvLayer kv = state.cache().layer(layer);
    const std::size_t row = device::kv_row_bytes(kv.type, h.head_dim);
    const std::size_t stride = row * static_cast<std::size_t>(kv.capacity);  // from head to head
    for (std::size_t head = 0; head < static_cast<std::size_t>(h.kv_heads); ++head) {
      pieces.emplace_back(kv.keys + head * stride, groups * kGroup * row);
      pieces.emplace_back(kv.values + head * stride, static_cast<std::size_t>(positions) * row);
    }
  }
  return pieces;
}

}  // namespace

std::size_t prefix_bytes(const SequenceState& state, const model::HParams& h, int positions) {
  std::size_t bytes = 0;
  for (const std::span<std::byte> piece : pieces_of(state, h, positions)) bytes += piece.size();
  return bytes;
}

void read_prefix(const SequenceState& state, const model::HParams& h, int positions,
                 device::Device& device, std::span<std::byte> bytes) {
  assert(bytes.size() == prefix_bytes(state, h, positions));
  for (const std::span<std::byte> piece : pieces_of(state, h, positions)) {
    device.copy_to_host(bytes.data(), piece.data(), piece.size());
    bytes = bytes.subspan(piece.size());
  }
}

void write_prefix(const SequenceState& state, const model::HParams& h, int positions,
                  device::Device& device, std::span<const std::byte> bytes) {
  assert(bytes.size() == prefix_bytes(state, h, positions));
  for (const std::span<std::byte> piece : pieces_of(state, h, positions)) {
    device.copy_from_host(piece.data(), bytes.data(), piece.size());
    bytes = bytes.subspan(piece.size());
  }
}

void copy_prefix(const SequenceState& from, const SequenceState& to, const model::HParams& h,
                 int positions, device::Device& device) {
  const auto source = pieces_of(from, h, positions);
  const auto target = pieces_of(to, h, positions);
  std::vector<std::byte> between;  // where the host cannot reach the device's memory
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (device.is_host_memory()) {
      std::memcpy(target[i].data(), source[i].data(), source[i].size());
    } else {
      between.resize(source[i].size());
      device.copy_to_host(between.data(), source[i].data(), between.size());
      device.copy_from_host(target[i].data(), between.data(), between.size());
    }
  }
}

}  // namespace strata::runtime
