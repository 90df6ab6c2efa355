// Finds a model's weights in its file and checks every shape and type before anything is loaded.
#pragma once

#include "strata/gguf/file.hpp"
#include "strata/model/hparams.hpp"

#include <vector>

namespace strata::model {

// Shapes are GGUF's: [in, out] or [in, out, experts].
struct LayerTensors {
  const gguf::TensorInfo* attn_norm;    // [embd]
  const gguf::TensorInfo* attn_q;       // [embd, heads * head_dim]
  const gguf::TensorInfo* attn_k;       // [embd, kv_heads * head_dim]
  const gguf::TensorInfo* attn_v;       // [embd, kv_heads * head_dim]
  const gguf::TensorInfo* attn_output;  // [heads * head_dim, embd]
  const gguf::TensorInfo* attn_q_norm;  // [head_dim], null without qk-norm
  const gguf::TensorInfo* attn_k_norm;  // [head_dim], null without qk-norm
  const gguf::TensorInfo* ffn_norm;     // [embd]
  const gguf::TensorInfo* router;       // [embd, experts]
  // Gate and up apart, or fused in one tensor: then an expert has its gate rows first.
  const gguf::TensorInfo* gate;  // [embd, hidden, experts], or fused [embd, 2 * hidden, experts]
  const gguf::TensorInfo* up;    // the same tensor as gate when fused
  const gguf::TensorInfo* down;  // [hidden, embd, experts]
  [[nodiscard]] bool fused() const noexcept { return gate == up; }
};

struct ModelTensors {
  const gguf::TensorInfo* token_embd;   // [embd, vocab]
  const gguf::TensorInfo* output_norm;  // [embd]
  const gguf::TensorInfo* output;  // [embd, vocab]; token_embd when the file has no head of its own
  std::vector<LayerTensors> layers;
};

// Also fills h.vocab. Error(kInput) names a missing tensor, a wrong shape, or a type we have no
// kernels for.
[[nodiscard]] ModelTensors bind_tensors(const gguf::File& file, HParams& h);

}  // namespace strata::model
