// The first positions of a sequence: to copy them to another sequence, or to save them and read
// them back. What a prefix holds depends on the model and the type of the cells alone, not on the
// capacities of the sequences; it is the same bits as computed there.
//
// On the thread that uses the engine, between windows. `device`: the one that the sequences are on.
#pragma once

#include "strata/device/device.hpp"
#include "strata/model/hparams.hpp"
#include "strata/runtime/forward.hpp"

#include <cstddef>
#include <span>

namespace strata::runtime {

// Keys come in groups of 16 positions: so many bytes more than bytes_per_position() times
// positions.
[[nodiscard]] std::size_t prefix_bytes(const SequenceState& state, const model::HParams& h,
                                       int positions);

// `bytes` has prefix_bytes() bytes.
void read_prefix(const SequenceState& state, const model::HParams& h, int positions,
                 device::Device& device, std::span<std::byte> bytes);
void write_prefix(const SequenceState& state, const model::HParams& h, int positions,
                  device::Device& device, std::span<const std::byte> bytes);

void copy_prefix(const SequenceState& from, const SequenceState& to, const model::HParams& h,
                 int positions, device::Device& device);

}  // namespace strata::runtime
