// What the forward pass asks of the hardware it runs on. The forward pass is written once against
// this interface and reads like the model's equations; each device decides how an operation is cut
// into work.
//
// Pointers in these structs are the device's: on a CPU plain memory, on a GPU its own. Calls are
// ordered: each sees the results of those before it. One thread at a time may call a Device.
//
// Exactness: what an operation computes for a token depends on that token's inputs alone, never on
// the other rows of the call, the number of threads or the instruction set (docs/exactness.md).
#pragma once

#include "strata/base/memory.hpp"
#include "strata/device/expert_work.hpp"
#include "strata/device/program.hpp"
#include "strata/quant/packed_matrix.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace strata::device {

// Memory of a device; freed when destroyed.
class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 protected:
  Memory() = default;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Host memory that a device copies from and to; the device's own kind where that is faster.
class HostMemory final : public Memory {
 public:
  explicit HostMemory(std::size_t bytes) : buffer_(bytes) {
    data_ = buffer_.data();
    size_ = buffer_.size();
  }

 private:
  Buffer buffer_;
};

// Copies host memory to a device's, beside the device's calls. Nothing that a running call reads
// may be written. One thread at a time.
class Copier {
 public:
  virtual ~Copier() = default;
  // Returns when the bytes are there.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  }
  // Only begins it, where that can be; `from` stays as it is until it is done.
  virtual void begin(std::byte* to, const std::byte* from, std::size_t bytes) {
    copy(to, from, bytes);
  }
  // In order with the device's calls, by the thread that makes them. Copies from
  // wait_for_calls(i) on wait for the calls before note_calls(i); calls from wait_for_copies(i) on
  // wait for the copies before note_copies(i). `i`: one of kNotes notes of each kind.
  static constexpr int kNotes = 2;
  virtual void note_calls(int /*i*/) {}
  virtual void wait_for_calls(int /*i*/) {}
  virtual void note_copies(int /*i*/) {}
  virtual void wait_for_copies(int /*i*/) {}
};

// Host memory that a device copies from at the link's full speed; it outlives this.
class Pinned {
 public:
  virtual ~Pinned() = default;
};

// [count][width] f32, rows contiguous.
struct Rows {
  float* data = nullptr;
  int count = 0;
  std::int64_t width = 0;
  [[nodiscard]] float* row(int i) const noexcept { return data + i * width; }
};

// y = W x for each row; W is [out, in].
struct Linear {
  quant::PackedMatrix matrix;
  std::shared_ptr<Memory> memory;
};

// One output of linear(): `out` has rows of the matrix's row count rounded up to 16.
struct LinearOutput {
  const Linear* weight;
  Rows out;
  bool accumulate = false;  // out += instead of out =
};

// kQ8_0: a code in [-127, 127] a cell, and an f16 scale for every kKvBlock dimensions of a head's
// row (the last block may be shorter); a cell's value is code * scale, exactly (docs/exactness.md).
enum class KvType { kF16, kF32, kQ8_0 };
inline constexpr int kKvBlock = 32;
[[nodiscard]] constexpr std::size_t cell_bytes(KvType type) noexcept {
  return type == KvType::kQ8_0 ? 1 : type == KvType::kF16 ? 2 : 4;
}
// Of a head's keys, or values, at one position.
[[nodiscard]] constexpr std::size_t kv_row_bytes(KvType type, int head_dim) noexcept {
  const int blocks = (head_dim + kKvBlock - 1) / kKvBlock;
  const std::size_t scales = type == KvType::kQ8_0 ? 2 * static_cast<std::size_t>(blocks) : 0;
  return static_cast<std::size_t>(head_dim) * cell_bytes(type) + scales;
}

// The keys and values of one sequence at one layer, in the layout the attention kernels read:
// keys [kv_heads][capacity/16][head_dim][16] cells, values [kv_heads][capacity][head_dim] cells.
// With kQ8_0 the scales stand before the codes: of each group of 16 keys [blocks][16] scales, of
// each row of values [blocks].
struct KvLayer {
  std::byte* keys = nullptr;
  std::byte* values = nullptr;
  KvType type = KvType::kF16;
  int capacity = 0;  // positions, a multiple of 16
};

// The keys and values of one sequence, layer after layer.
struct KvCache {
  std::byte* data = nullptr;
  std::size_t layer_bytes = 0;  // of a layer's keys; its values follow and take as many
  KvType type = KvType::kF16;
  int capacity = 0;  // positions, a multiple of 16
  [[nodiscard]] KvLayer layer(int index) const noexcept {
    std::byte* keys = data + static_cast<std::size_t>(index) * 2 * layer_bytes;
    return {keys, keys + layer_bytes, type, capacity};
  }
};

// A row of a window: a token, and where it stands.
struct WindowRow {
  std::int32_t token = 0;
  std::int32_t position = 0;
  KvCache cache;
};

inline constexpr int kMaxHeadDim = 512;

struct AttentionShape {
  int heads;
  int kv_heads;
  int head_dim;  // a multiple of 16, at most kMaxHeadDim
  float scale;
};

struct Rope {
  const float* table;  // [position][n_rot]: n_rot/2 cosines, then n_rot/2 sines
  int n_rot;
  bool neox;  // pairs (j, j + n_rot/2) instead of (2j, 2j + 1)
};

// Of [head_dim] each; null: none.
struct HeadNorms {
  const float* q = nullptr;
  const float* k = nullptr;
  float eps = 0;
};

struct RouterShape {
  int experts;
  int used;
  bool renormalize;  // weights of the chosen sum to 1
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual std::string description() const = 0;

  // Whether the CPU can use this device's memory through the pointers it gives. Where it cannot,
  // what the host needs to see goes through the two copies below.
  [[nodiscard]] virtual bool is_host_memory() const noexcept { return true; }
  // In order with the calls: `to` holds the bytes on return; `from` may be reused on return.
  virtual void copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  }
  virtual void copy_from_host(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  }

  // The same, and `from` must stay as it is until a later copy_to_host() or synchronize() returns.
  virtual void copy_from_host_later(std::byte* to, const std::byte* from, std::size_t bytes) {
    copy_from_host(to, from, bytes);
  }
  // `to` holds the bytes once synchronize() has returned.
  virtual void copy_to_host_later(std::byte* to, const std::byte* from, std::size_t bytes) {
    copy_to_host(to, from, bytes);
  }
  [[nodiscard]] virtual std::unique_ptr<Memory> allocate_host(std::size_t bytes) {
    return std::make_unique<HostMemory>(bytes);
  }
  // Null where it makes no difference. Error(kResource) when the system refuses.
  [[nodiscard]] virtual std::unique_ptr<Pinned> pin(std::span<const std::byte>) { return nullptr; }
  [[nodiscard]] virtual std::unique_ptr<Copier> make_copier() { return std::make_unique<Copier>(); }
  // Returns when all calls so far are done.
  virtual void synchronize() {}
  // Times of what calls do: mark() notes when all calls before it are done and numbers itself,
  // seconds() tells what lies between two marks. All marks must be done: synchronize() first.
  virtual int mark() {
    marks_.push_back(Clock::now());
    return static_cast<int>(marks_.size()) - 1;
  }
  [[nodiscard]] virtual double seconds(int from, int to) const {
    const auto at = [this](int mark) { return marks_[static_cast<std::size_t>(mark)]; };
    return std::chrono::duration<double>(at(to) - at(from)).count();
  }
  virtual void clear_marks() { marks_.clear(); }

  // Bytes that could still be allocated, but for what other processes take meanwhile; nullopt where
  // only trying tells.
  [[nodiscard]] virtual std::optional<std::size_t> free_bytes() const { return std::nullopt; }
  // Zeroed.
  [[nodiscard]] virtual std::unique_ptr<Memory> allocate(std::size_t bytes) = 0;
  // Takes packed weights from host memory to where the device computes with them.
  [[nodiscard]] virtual std::unique_ptr<Memory> upload(Buffer&& host) = 0;

  // What the rows of the calls that follow stand for: embed, rope, kv_append and attention take
  // their tokens and places from here, row i of x from rows[i]. `rows` must stay as they are until
  // the next begin_window(). Rows of one sequence stand together, in rising order.
  virtual void begin_window(std::span<const WindowRow> rows) { window_ = rows; }
  // out[i] = row `token` of the table.
  virtual void embed(const Linear& table, Rows out) = 0;
  // out = x * weight / sqrt(mean(x^2) + eps), row by row; out may be x.
  virtual void rms_norm(Rows x, const float* weight, float eps, Rows out) = 0;
  virtual void linear(Rows x, std::span<const LinearOutput> outputs) = 0;
  // Row i of x becomes what row kept[i] was; kept rises.
  virtual void keep_rows(Rows x, std::span<const std::int32_t> kept) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i] == static_cast<std::int32_t>(i)) continue;
      std::memcpy(x.row(static_cast<int>(i)), x.row(kept[i]),
                  sizeof(float) * static_cast<std::size_t>(x.width));
    }
  }
  // x: [rows][heads * head_dim], rotated in place by each row's position.
  virtual void rope(Rows x, int head_dim, const Rope& rope) = 0;
  // Writes k and v ([rows][kv_heads * head_dim]) to the rows' caches at `layer`.
  virtual void kv_append(Rows k, Rows v, int layer, const AttentionShape& shape) = 0;
  // rms_norm of the heads where a norm is given, rope of q and k, kv_append.
  virtual void prepare_heads(Rows q, Rows k, Rows v, const HeadNorms& norms, const Rope& rope,
                             int layer, const AttentionShape& shape);
  // Causal attention of every row over positions 0 to its own of its cache at `layer`.
  virtual void attention(Rows q, int layer, const AttentionShape& shape, Rows out) = 0;
  // The `used` most probable experts of each row, ties to the lower id, in falling order. ids,
  // weights: [tokens][used], in this device's memory.
  virtual void route(Rows logits, const RouterShape& shape, std::int32_t* ids, float* weights) = 0;
  // Unweighted expert outputs: parts row work.rows[i] = expert(x row work.tokens[i]). The lists of
  // `work` are in host memory; they have been read when the call returns.
  virtual void experts(Rows x, const quant::ExpertLayout& layout, std::span<const ExpertWork> work,
                       Rows parts) = 0;
  // x[t] += sum over ranks r, in order, of weights[t][r] * parts[t * ranks + r].
  virtual void combine(Rows parts, const float* weights, int ranks, Rows x) = 0;

  // ---- windows as programs (program.hpp); only where can_record()
  [[nodiscard]] virtual bool can_record() const noexcept { return false; }
  // Calls from here to end_recording() are noted, not done. The rows are those of begin_window(),
  // which had kProgramRows at most; a program serves every window that has as many, of the same
  // window_kind().
  virtual void begin_recording() {}
  [[nodiscard]] virtual std::unique_ptr<Program> end_recording() { return nullptr; }
  virtual void abandon_recording() noexcept {}
  [[nodiscard]] virtual int window_kind() const noexcept { return 0; }
  // The number of the window that began last, by which hand-overs are numbered.
  [[nodiscard]] virtual std::uint64_t window_number() const noexcept { return 0; }
  // Begins to run the noted calls, in order with the others. is_done(): whether all calls are.
  virtual void start(Program&) {}
  [[nodiscard]] virtual bool is_done() { return true; }
  // While noting. The experts that `exchange` says are held, into parts as experts() does; the host
  // is told the choice, and asked for the others. ids, weights: as route() writes them.
  virtual void experts_held(Rows, const quant::ExpertLayout&, const std::int32_t* /*ids*/,
                            const float* /*weights*/, const Exchange&, int /*layer*/,
                            Rows /*parts*/) {}
  // While noting. combine(), with the host's parts once it has replied.
  virtual void combine_held(Rows /*parts*/, const float* /*weights*/, const Exchange&,
                            int /*layer*/, Rows /*x*/) {}

 protected:
  [[nodiscard]] std::span<const WindowRow> window(int rows) const noexcept {
    return window_.first(static_cast<std::size_t>(rows));
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> marks_;
  std::span<const WindowRow> window_;
};

inline void Device::prepare_heads(Rows q, Rows k, Rows v, const HeadNorms& norms, const Rope& turn,
                                  int layer, const AttentionShape& shape) {
  const Rows q_heads{q.data, q.count * shape.heads, shape.head_dim};
  const Rows k_heads{k.data, k.count * shape.kv_heads, shape.head_dim};
  if (norms.q != nullptr) rms_norm(q_heads, norms.q, norms.eps, q_heads);
  if (norms.k != nullptr) rms_norm(k_heads, norms.k, norms.eps, k_heads);
  rope(q, shape.head_dim, turn);
  rope(k, shape.head_dim, turn);
  kv_append(k, v, layer, shape);
}

}  // namespace strata::device
