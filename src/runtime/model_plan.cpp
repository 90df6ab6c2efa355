#include "strata/runtime/model_plan.hpp"

#include "strata/base/error.hpp"
#include "strata/core/expert_cache.hpp"
#include "strata/core/successors.hpp"
#include "strata/quant/expert_blob.hpp"
#include "strata/runtime/forward.hpp"

#include <algorithm>

namespace strata::runtime {
namespace {

// Packed matrices have the bytes of the file's, rows rounded up to 16.
std::uint64_t packed(const gguf::TensorInfo* tensor) {
  return tensor == nullptr ? 0 : quant::packed_bytes(tensor->type, tensor->rows(), tensor->ne[0]);
}

std::uint64_t plain(const gguf::TensorInfo* tensor) {
  return tensor == nullptr ? 0 : tensor->data.size();
}

std::uint64_t dense_bytes(const model::ModelTensors& t) {
  std::uint64_t bytes = packed(t.token_embd) + plain(t.output_norm);
  if (t.output != t.token_embd) bytes += packed(t.output);
  for (const model::LayerTensors& l : t.layers) {
    for (const gguf::TensorInfo* w : {l.attn_q, l.attn_k, l.attn_v, l.attn_output, l.router})
      bytes += packed(w);
    for (const gguf::TensorInfo* v : {l.attn_norm, l.attn_q_norm, l.attn_k_norm, l.ffn_norm})
      bytes += plain(v);
  }
  return bytes;
}

}  // namespace

core::PlanInput plan_input(const model::HParams& h, const model::ModelTensors& tensors,
                           const ModelSizing& sizing, const CacheOptions& cache) {
  core::PlanInput in;
  in.reserve_bytes = cache.reserve_bytes;
  in.dense_bytes = dense_bytes(tensors);
  in.kv_bytes_per_position = std::uint64_t{2} * device::kv_row_bytes(sizing.kv, h.head_dim) *
                             static_cast<std::uint64_t>(h.kv_heads) *
                             static_cast<std::uint64_t>(h.layers);
  in.context = sizing.context;
  in.activation_bytes = Forward::activation_bytes(h, std::min(sizing.window, sizing.context));
  for (const model::LayerTensors& l : tensors.layers) {
    const quant::ExpertLayout layout{l.gate->type, l.up->type, l.down->type, h.embd,
                                     h.expert_hidden};
    in.slot_bytes.push_back(core::ExpertCache::slot_bytes(layout));
  }
  // Two experts on their way, and the hand-over's rows of a window of 8 tokens.
  const std::uint64_t largest = std::ranges::max(in.slot_bytes);
  in.staging_bytes = 2 * largest + sizeof(float) * 8 * static_cast<std::uint64_t>(h.embd) *
                                       static_cast<std::uint64_t>(h.experts_used + 1);
  if (cache.fetch && !cache.fetch->off()) {  // staging slots of each size
    std::vector<std::uint64_t> sizes = in.slot_bytes;
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (const std::uint64_t bytes : sizes) in.staging_bytes += core::fetch_slots(bytes) * bytes;
  }
  in.experts = h.experts;
  if (cache.policy.kind == core::PolicyKind::kPairs) {
    in.policy_bytes = core::Successors::table_bytes({h.layers, h.experts});
  }
  in.cache = cache.size;
  return in;
}

CacheOptions resolve(CacheOptions cache, bool gpu) {
  using Kind = core::CacheRequest::Kind;
  if (cache.size.kind == Kind::kDefault) cache.size.kind = gpu ? Kind::kAuto : Kind::kNone;
  if (!cache.fetch) cache.fetch = core::FetchRequest{.automatic = gpu};
  if (cache.size.kind == Kind::kNone && !cache.needs_cache.empty()) {
    fail(ErrorKind::kUsage, "{} does nothing without an expert cache: add --expert-cache auto",
         cache.needs_cache);
  }
  return cache;
}

core::AcceleratorKind accelerator_of(const CacheOptions& cache, bool gpu) noexcept {
  if (gpu) return core::AcceleratorKind::kGpu;
  return cache.size.kind == core::CacheRequest::Kind::kNone ? core::AcceleratorKind::kNone
                                                            : core::AcceleratorKind::kStandIn;
}

}  // namespace strata::runtime
