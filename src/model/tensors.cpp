#include "strata/model/tensors.hpp"

#include "strata/base/error.hpp"
#include "strata/quant/packed_matrix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <initializer_list>
#include <string>

namespace strata::model {
namespace {

using gguf::TensorInfo;

class Binder {
 public:
  explicit Binder(const gguf::File& file) : file_(file) {}

  // A matrix or an expert stack of the shape, in a type that has kernels.
  const TensorInfo* matrix(const std::string& name,
                           std::initializer_list<std::int64_t> shape) const {
    const TensorInfo* tensor = require(name, shape);
    if (!quant::is_supported(tensor->type)) {
      std::string known;
      for (const gguf::Type type : quant::supported_types()) {
        known += fmt::format("{}{}", known.empty() ? "" : ", ", gguf::traits(type).name);
      }
      fail(ErrorKind::kInput,
           "{}: tensor '{}' has type {}, which has no kernels yet; supported: {}",
           file_.path().string(), name, gguf::traits(tensor->type).name, known);
    }
    return tensor;
  }
  // A vector that is used as it is: F32.
  const TensorInfo* vector(const std::string& name, std::int64_t size) const {
    const TensorInfo* tensor = require(name, {size});
    if (tensor->type != gguf::Type::kF32) {
      fail(ErrorKind::kInput, "{}: tensor '{}' has type {}; expected F32", file_.path().string(),
           name, gguf::traits(tensor->type).name);
    }
    return tensor;
  }
  [[nodiscard]] bool has(const std::string& name) const {
    return file_.find_tensor(name) != nullptr;
  }

 private:
  const TensorInfo* require(const std::string& name,
                            std::initializer_list<std::int64_t> shape) const {
    const TensorInfo* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      fail(ErrorKind::kInput,
           "{}: tensor '{}' is missing; is the file complete, with all its shards?",
           file_.path().string(), name);
    }
    std::array<std::int64_t, 4> expected{1, 1, 1, 1};
    std::copy(shape.begin(), shape.end(), expected.begin());
    if (tensor->ne != expected) {
      fail(ErrorKind::kInput, "{}: tensor '{}' has shape [{}]; expected [{}]",
           file_.path().string(), name, fmt::join(tensor->ne, ", "), fmt::join(expected, ", "));
    }
    return tensor;
  }

  const gguf::File& file_;
};

LayerTensors bind_layer(const Binder& bind, const HParams& h, int layer) {
  const auto name = [layer](std::string_view stem) {
    return fmt::format("blk.{}.{}.weight", layer, stem);
  };
  const std::int64_t q = static_cast<std::int64_t>(h.heads) * h.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(h.kv_heads) * h.head_dim;
  LayerTensors t{};
  t.attn_norm = bind.vector(name("attn_norm"), h.embd);
  t.attn_q = bind.matrix(name("attn_q"), {h.embd, q});
  t.attn_k = bind.matrix(name("attn_k"), {h.embd, kv});
  t.attn_v = bind.matrix(name("attn_v"), {h.embd, kv});
  t.attn_output = bind.matrix(name("attn_output"), {q, h.embd});
  if (h.arch->qk_norm == QkNorm::kPerHead) {
    t.attn_q_norm = bind.vector(name("attn_q_norm"), h.head_dim);
    t.attn_k_norm = bind.vector(name("attn_k_norm"), h.head_dim);
  }
  t.ffn_norm = bind.vector(name(h.arch->ffn_norm), h.embd);
  t.router = bind.matrix(name("ffn_gate_inp"), {h.embd, h.experts});
  if (bind.has(name("ffn_gate_up_exps"))) {
    t.gate = t.up = bind.matrix(name("ffn_gate_up_exps"), {h.embd, 2 * h.expert_hidden, h.experts});
  } else {
    t.gate = bind.matrix(name("ffn_gate_exps"), {h.embd, h.expert_hidden, h.experts});
    t.up = bind.matrix(name("ffn_up_exps"), {h.embd, h.expert_hidden, h.experts});
  }
  t.down = bind.matrix(name("ffn_down_exps"), {h.expert_hidden, h.embd, h.experts});
  return t;
}

}  // namespace

ModelTensors bind_tensors(const gguf::File& file, HParams& h) {
  const Binder bind(file);
  const TensorInfo* embd = file.find_tensor("token_embd.weight");
  h.vocab = embd == nullptr ? 0 : embd->ne[1];
  ModelTensors t{};
  t.token_embd = bind.matrix("token_embd.weight", {h.embd, h.vocab});
  t.output_norm = bind.vector("output_norm.weight", h.embd);
  t.output =
      bind.has("output.weight") ? bind.matrix("output.weight", {h.embd, h.vocab}) : t.token_embd;
  for (int layer = 0; layer < h.layers; ++layer) t.layers.push_back(bind_layer(bind, h, layer));
  return t;
}

}  // namespace strata::model
