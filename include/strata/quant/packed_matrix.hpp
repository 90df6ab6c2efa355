// The one weight layout of the engine, for RAM and VRAM alike: rows interleaved by 16.
//
// Sixteen rows form a group. A group stores, for each unit of its rows in turn, first the scales of
// all 16 rows, then their codes, so that one 64-byte load feeds all 16 rows of a vector register or
// of a GPU half-warp. A unit is one GGUF block (32 or 256 elements; one element for float types) of
// every row, and takes exactly the bytes those blocks take in the file: nothing is widened, since
// bytes read are time.
//
// Codes: the 32 elements of a block are 8 chunks of 4; chunk c of row r holds elements 4c..4c+3.
// Four-bit formats keep chunk c in the low and chunk c+4 in the high nibbles of one 64-byte vector
// (row r at bytes 4r..4r+3): that is the file's own order, so packing moves bytes and never
// re-quantises.
//
//   type  unit  bytes of 16 rows, in order
//   F32      1  16 x f32
//   F16 BF16 1  16 x u16
//   Q4_0    32  d[16] f16 | 4 vectors of nibbles
//   Q4_1    32  d[16], m[16] f16 | 4 vectors of nibbles
//   Q5_0    32  d[16] f16 | 1 vector of high bits (bit c of byte 4r+i: element 4c+i of row r) | 4
//   vectors of nibbles Q5_1    32  d[16], m[16] f16 | 1 vector of high bits | 4 vectors of nibbles
//   Q8_0    32  d[16] f16 | 8 vectors of bytes, each code + 128
//   Q4_K   256  d[16], dmin[16] f16 | 8 x { 16 x (scale&15 | min&15 << 4) | 8 bytes of high bits |
//   4 vectors of nibbles } Q5_K   256  as Q4_K, with 1 vector of high bits before the nibbles Q6_K
//   256  d[16] f16 | 8 x { 2 x 16 i8 scales | 2 vectors of bit pairs | 4 vectors of nibbles }
// High bits of Q4_K/Q5_K scales: row r's four bits (scale>>4 | min>>4 << 2) are nibble r/8 of byte
// r%8. Bit pairs of Q6_K: bits 2j..2j+1 of byte 4r+i in vector v are the high bits of element
// 4(4v+j)+i.
#pragma once

#include "strata/gguf/types.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::quant {

inline constexpr int kGroupRows = 16;  // rows interleaved in a group
inline constexpr int kBlock = 32;      // elements that share one activation scale
inline constexpr int kSegments = 8;    // parts of K summed apart (docs/exactness.md)

// Does this build have kernels for the type? The list a message can show is supported_types().
[[nodiscard]] bool is_supported(gguf::Type type) noexcept;
[[nodiscard]] std::span<const gguf::Type> supported_types() noexcept;
// F32, F16, BF16: multiplied with f32 activations; all others with int8 ones.
[[nodiscard]] bool is_float(gguf::Type type) noexcept;

// A view of packed rows. `rows` need not be a multiple of 16: the last group is padded with zero
// blocks.
struct PackedMatrix {
  gguf::Type type = gguf::Type::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;  // elements of a row; a multiple of the type's block
  const std::byte* data = nullptr;
  std::size_t group_bytes = 0;  // 16 rows

  [[nodiscard]] std::int64_t groups() const noexcept {
    return (rows + kGroupRows - 1) / kGroupRows;
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return group_bytes * static_cast<std::size_t>(groups());
  }
  [[nodiscard]] const std::byte* group(std::int64_t g) const noexcept {
    return data + group_bytes * static_cast<std::size_t>(g);
  }
};

[[nodiscard]] std::size_t packed_group_bytes(gguf::Type type, std::int64_t cols) noexcept;
[[nodiscard]] std::size_t packed_bytes(gguf::Type type, std::int64_t rows,
                                       std::int64_t cols) noexcept;

// Packs up to 16 consecutive rows of a GGUF tensor (`rows` may be fewer: the rest is padding) into
// one group at `dst`, which has packed_group_bytes(type, cols) bytes. Thread-safe. The type must be
// supported.
void pack_group(gguf::Type type, std::span<const std::byte> src, int rows, std::int64_t cols,
                std::byte* dst) noexcept;

// Row `row` of a packed matrix as f32 values, exactly what the blocks say: the embedding look-up.
void dequantize_packed_row(const PackedMatrix& matrix, std::int64_t row, float* out) noexcept;

}  // namespace strata::quant
