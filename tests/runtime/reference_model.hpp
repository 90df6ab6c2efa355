// qwen3moe by the book: one token after another, in double precision, over dequantised weights.
// What the engine computes with f32 activations must be near it.
#pragma once

#include "strata/gguf/file.hpp"
#include "strata/model/hparams.hpp"
#include "tests/support/random_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

namespace strata::testing {

class ReferenceModel {
 public:
  using Vec = std::vector<double>;

  explicit ReferenceModel(const gguf::File& file)
      : file_(file), h_(model::read_hparams(file)), past_(static_cast<std::size_t>(h_.layers)) {}

  // Logits after the token, which stands behind those given before.
  Vec next(std::int32_t token) {
    Vec x = row(tensor("token_embd.weight"), token);
    for (int layer = 0; layer < h_.layers; ++layer) {
      attention(layer, x);
      experts(layer, x);
    }
    ++position_;
    const bool tied = file_.find_tensor("output.weight") == nullptr;
    const gguf::TensorInfo& head = tensor(tied ? "token_embd.weight" : "output.weight");
    return product(head, 0, head.ne[1], norm(x, "output_norm.weight"));
  }

 private:
  struct Past {
    std::vector<Vec> keys, values;  // by position
  };

  [[nodiscard]] const gguf::TensorInfo& tensor(const std::string& name) const {
    return *file_.find_tensor(name);
  }
  [[nodiscard]] static std::string name(int layer, const char* stem) {
    return "blk." + std::to_string(layer) + "." + stem + ".weight";
  }
  [[nodiscard]] static Vec row(const gguf::TensorInfo& t, std::int64_t index) {
    const std::vector<float> values = dequantize(
        t.type, t.data.subspan(t.row_bytes * static_cast<std::size_t>(index), t.row_bytes),
        t.ne[0]);
    return {values.begin(), values.end()};
  }
  // Rows [first, first + rows) times x.
  [[nodiscard]] static Vec product(const gguf::TensorInfo& t, std::int64_t first, std::int64_t rows,
                                   std::span<const double> x) {
    Vec y;
    for (std::int64_t r = first; r < first + rows; ++r) {
      const Vec w = row(t, r);
      y.push_back(std::inner_product(w.begin(), w.end(), x.begin(), 0.0));
    }
    return y;
  }
  void normalize(std::span<double> x, const std::string& weights) const {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale =
        1 / std::sqrt(squares / static_cast<double>(x.size()) + static_cast<double>(h_.norm_eps));
    const Vec w = row(tensor(weights), 0);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= scale * w[i];
  }
  [[nodiscard]] Vec norm(Vec x, const std::string& weights) const {
    normalize(x, weights);
    return x;
  }

  // RMSNorm of each head, then RoPE over the halves of its first n_rot dimensions.
  void place_heads(Vec& heads, const std::string& weights) const {
    const auto dim = static_cast<std::size_t>(h_.head_dim);
    const auto half = static_cast<std::size_t>(h_.n_rot) / 2;
    for (std::size_t at = 0; at < heads.size(); at += dim) {
      const std::span<double> head = std::span(heads).subspan(at, dim);
      normalize(head, weights);
      for (std::size_t j = 0; j < half; ++j) {
        const double power = -2.0 * static_cast<double>(j) / h_.n_rot;
        const double theta = position_ / static_cast<double>(h_.rope_scale) *
                             std::pow(static_cast<double>(h_.rope_base), power);
        const double a = head[j], b = head[half + j];
        head[j] = a * std::cos(theta) - b * std::sin(theta);
        head[half + j] = a * std::sin(theta) + b * std::cos(theta);
      }
    }
  }

  void attention(int layer, Vec& x) {
    const Vec n = norm(x, name(layer, "attn_norm"));
    const auto all_rows = [&](const char* stem) {
      const gguf::TensorInfo& t = tensor(name(layer, stem));
      return product(t, 0, t.ne[1], n);
    };
    Vec q = all_rows("attn_q");
    Vec k = all_rows("attn_k");
    place_heads(q, name(layer, "attn_q_norm"));
    place_heads(k, name(layer, "attn_k_norm"));
    Past& past = past_[static_cast<std::size_t>(layer)];
    past.keys.push_back(std::move(k));
    past.values.push_back(all_rows("attn_v"));

    const auto dim = static_cast<std::size_t>(h_.head_dim);
    const auto heads_per_kv = static_cast<std::size_t>(h_.heads / h_.kv_heads);
    Vec mixed(q.size());
    for (std::size_t head = 0; head < static_cast<std::size_t>(h_.heads); ++head) {
      const std::size_t kv = head / heads_per_kv * dim;
      Vec weight;
      for (const Vec& key : past.keys) {
        const auto at = static_cast<std::ptrdiff_t>(head * dim);
        weight.push_back(std::inner_product(q.begin() + at, q.begin() + at + h_.head_dim,
                                            key.begin() + static_cast<std::ptrdiff_t>(kv), 0.0) /
                         std::sqrt(static_cast<double>(h_.head_dim)));
      }
      softmax(weight);
      for (std::size_t p = 0; p < weight.size(); ++p) {
        for (std::size_t d = 0; d < dim; ++d)
          mixed[head * dim + d] += weight[p] * past.values[p][kv + d];
      }
    }
    add(x, product(tensor(name(layer, "attn_output")), 0, h_.embd, mixed), 1);
  }

  void experts(int layer, Vec& x) const {
    const Vec n = norm(x, name(layer, "ffn_norm"));
    Vec p = product(tensor(name(layer, "ffn_gate_inp")), 0, h_.experts, n);
    softmax(p);
    std::vector<int> order(p.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int a, int b) {
      return p[static_cast<std::size_t>(a)] > p[static_cast<std::size_t>(b)];
    });
    order.resize(static_cast<std::size_t>(h_.experts_used));
    double sum = 0;
    for (const int e : order) sum += p[static_cast<std::size_t>(e)];
    for (const int e : order) add(x, expert(layer, e, n), p[static_cast<std::size_t>(e)] / sum);
  }

  [[nodiscard]] Vec expert(int layer, std::int64_t e, const Vec& n) const {
    const std::int64_t hidden = h_.expert_hidden;
    const gguf::TensorInfo* fused = file_.find_tensor(name(layer, "ffn_gate_up_exps"));
    Vec gate, up;
    if (fused != nullptr) {
      gate = product(*fused, 2 * hidden * e, hidden, n);
      up = product(*fused, 2 * hidden * e + hidden, hidden, n);
    } else {
      gate = product(tensor(name(layer, "ffn_gate_exps")), hidden * e, hidden, n);
      up = product(tensor(name(layer, "ffn_up_exps")), hidden * e, hidden, n);
    }
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    return product(tensor(name(layer, "ffn_down_exps")), h_.embd * e, h_.embd, gate);
  }

  static void softmax(Vec& x) {
    const double top = *std::ranges::max_element(x);
    double sum = 0;
    for (double& v : x) sum += v = std::exp(v - top);
    for (double& v : x) v /= sum;
  }
  static void add(Vec& x, const Vec& y, double weight) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += weight * y[i];
  }

  const gguf::File& file_;
  model::HParams h_;
  std::vector<Past> past_;
  int position_ = 0;
};

}  // namespace strata::testing
