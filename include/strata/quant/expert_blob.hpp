// The bytes of one expert, the unit that is cached, swapped and computed: [gate | up | down], each
// a packed matrix.
#pragma once

#include "strata/quant/packed_matrix.hpp"

namespace strata::quant {

// One layout for all experts of a layer: the three types and shapes are the layer's.
struct ExpertLayout {
  gguf::Type gate_type = gguf::Type::kF32;
  gguf::Type up_type = gguf::Type::kF32;
  gguf::Type down_type = gguf::Type::kF32;
  std::int64_t embd = 0;    // width of the residual stream: cols of gate and up, rows of down
  std::int64_t hidden = 0;  // the expert's own width: rows of gate and up, cols of down

  [[nodiscard]] std::size_t gate_bytes() const noexcept {
    return packed_bytes(gate_type, hidden, embd);
  }
  [[nodiscard]] std::size_t up_bytes() const noexcept {
    return packed_bytes(up_type, hidden, embd);
  }
  [[nodiscard]] std::size_t down_bytes() const noexcept {
    return packed_bytes(down_type, embd, hidden);
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return gate_bytes() + up_bytes() + down_bytes();
  }

  [[nodiscard]] PackedMatrix gate(const std::byte* blob) const noexcept {
    return {gate_type, hidden, embd, blob, packed_group_bytes(gate_type, embd)};
  }
  [[nodiscard]] PackedMatrix up(const std::byte* blob) const noexcept {
    return {up_type, hidden, embd, blob + gate_bytes(), packed_group_bytes(up_type, embd)};
  }
  [[nodiscard]] PackedMatrix down(const std::byte* blob) const noexcept {
    return {down_type, embd, hidden, blob + gate_bytes() + up_bytes(),
            packed_group_bytes(down_type, hidden)};
  }
};

}  // namespace strata::quant
