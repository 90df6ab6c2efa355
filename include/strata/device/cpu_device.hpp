// The CPU as a Device: kernels of one instruction set, work spread over a pool of pinned threads.
#pragma once

#include "strata/base/isa.hpp"
#include "strata/base/thread_pool.hpp"
#include "strata/device/device.hpp"

#include <utility>
#include <vector>

namespace strata::kernels {
struct DotArgs;
struct Kernels;
}  // namespace strata::kernels

namespace strata::device {

enum class Activations {
  kInt8,  // quantised per 32 values: the fast, default arithmetic
  kF32,   // weights dequantised on the fly: a reference to measure the other against
};

struct CpuDeviceOptions {
  Isa isa = Isa::kGeneric;
  Activations activations = Activations::kInt8;
};

class CpuDevice final : public Device {
 public:
  // The pool must outlive the device and be used by nobody else during a call.
  CpuDevice(ThreadPool& pool, const CpuDeviceOptions& options);

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::unique_ptr<Memory> allocate(std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Memory> upload(Buffer&& host) override;
  void embed(const Linear& table, Rows out) override;
  void rms_norm(Rows x, const float* weight, float eps, Rows out) override;
  void linear(Rows x, std::span<const LinearOutput> outputs) override;
  void rope(Rows x, int head_dim, const Rope& rope) override;
  void kv_append(Rows k, Rows v, int layer, const AttentionShape& shape) override;
  void attention(Rows q, int layer, const AttentionShape& shape, Rows out) override;
  void route(Rows logits, const RouterShape& shape, std::int32_t* ids, float* weights) override;
  void experts(Rows x, const quant::ExpertLayout& layout, std::span<const ExpertWork> work,
               Rows parts) override;
  void combine(Rows parts, const float* weights, int ranks, Rows x) override;

 private:
  // Memory that grows to the largest use and is then reused: no allocation on the token path.
  class Scratch {
   public:
    [[nodiscard]] std::byte* get(std::size_t bytes);

   private:
    Buffer buffer_;
  };

  struct Panels {  // the rows of x in the forms the kernels read, tile by tile
    const std::byte* int8 = nullptr;
    const std::byte* f32 = nullptr;
  };

  using DotFunction = void (*)(const kernels::DotArgs&);
  // How many of `items` equal pieces of weights, `item_bytes` each, make one task of the pool; at
  // most `most`.
  [[nodiscard]] std::int64_t task_size(std::size_t item_bytes, std::int64_t items,
                                       std::int64_t most) const noexcept;
  // Do matrices of this type read f32 panels?
  [[nodiscard]] bool float_panels(gguf::Type type) const noexcept;
  // The kernels of a type, by tile width.
  [[nodiscard]] const DotFunction* dot_table(gguf::Type type) const noexcept;
  [[nodiscard]] Panels make_panels(Rows x, bool int8, bool f32);
  void attention_by_tile(Rows q, int layer, const AttentionShape& shape, Rows out);
  void attention_by_chunk(Rows q, int layer, const AttentionShape& shape, Rows out, int longest);
  struct ExpertPlan;
  void whole(const ExpertPlan& plan, Rows parts);
  void by_rows(const ExpertPlan& plan, Rows parts);
  struct Span {
    std::int64_t first, last;
  };
  // Pieces of item i: blocks of 32 hidden units, groups of 16 output rows. `next_blob`: the expert
  // that the thread computes next, or null.
  void gate_up(const ExpertPlan& plan, std::size_t i, Span blocks, const std::byte* next_blob);
  void down(const ExpertPlan& plan, std::size_t i, Span groups, const std::byte* next_blob,
            Rows parts);

  ThreadPool& pool_;
  const kernels::Kernels& kernels_;
  Activations activations_;
  Scratch panels_int8_, panels_f32_, expert_panels_, hidden_panels_, worker_scratch_, partials_;
  std::vector<std::pair<int, int>> tiles_;  // (first row, rows) of attention
  std::vector<std::int32_t> expert_starts_;
};

}  // namespace strata::device
