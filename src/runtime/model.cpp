#include "strata/runtime/model.hpp"

#include "strata/model/tensors.hpp"

#include <array>
#include <cmath>
#include <cstring>

namespace strata::runtime {
namespace {

class Loader {
 public:
  Loader(const gguf::File& file, device::Device& device, ThreadPool& pool)
      : file_(file), device_(device), pool_(pool) {}

  // Side by side in one piece of memory: matrices below 2 MiB then lie in huge pages too.
  template <std::size_t kCount>
  [[nodiscard]] std::array<device::Linear, kCount> linears(
      const std::array<const gguf::TensorInfo*, kCount>& tensors) const {
    constexpr std::size_t kAlign = 64;
    std::array<std::size_t, kCount + 1> offsets{};
    for (std::size_t i = 0; i < kCount; ++i) {
      const gguf::TensorInfo& t = *tensors[i];
      const std::size_t bytes = quant::packed_bytes(t.type, t.rows(), t.ne[0]);
      offsets[i + 1] = offsets[i] + (bytes + kAlign - 1) / kAlign * kAlign;
    }
    Buffer host(offsets[kCount]);
    for (std::size_t i = 0; i < kCount; ++i) {
      core::pack_matrix(file_, *tensors[i], pool_, host.data() + offsets[i]);
    }
    const std::shared_ptr<device::Memory> memory = device_.upload(std::move(host));
    std::array<device::Linear, kCount> out;
    for (std::size_t i = 0; i < kCount; ++i) {
      const gguf::TensorInfo& t = *tensors[i];
      out[i] = {{t.type, t.rows(), t.ne[0], memory->data() + offsets[i],
                 quant::packed_group_bytes(t.type, t.ne[0])},
                memory};
    }
    return out;
  }
  [[nodiscard]] device::Linear linear(const gguf::TensorInfo& tensor) const {
    return linears<1>({&tensor})[0];
  }
  [[nodiscard]] Vector vector(const gguf::TensorInfo* tensor) const {
    if (tensor == nullptr) return {};
    Buffer host(tensor->data.size());
    std::memcpy(host.data(), tensor->data.data(), tensor->data.size());
    return {device_.upload(std::move(host))};
  }

 private:
  const gguf::File& file_;
  device::Device& device_;
  ThreadPool& pool_;
};

// theta_j(p) = p / scale * base^(-2j / n_rot), in double so that far positions keep their phase.
Buffer make_rope_table(const model::HParams& h, int context) {
  const int half = h.n_rot / 2;
  Buffer table(sizeof(float) * static_cast<std::size_t>(context) *
               static_cast<std::size_t>(h.n_rot));
  std::vector<double> frequency(static_cast<std::size_t>(half));
  for (int j = 0; j < half; ++j)
    frequency[static_cast<std::size_t>(j)] = std::pow(h.rope_base, -2.0 * j / h.n_rot);
  auto* out = table.as<float>();
  for (int p = 0; p < context; ++p, out += h.n_rot) {
    for (int j = 0; j < half; ++j) {
      const double theta =
          p / static_cast<double>(h.rope_scale) * frequency[static_cast<std::size_t>(j)];
      out[j] = static_cast<float>(std::cos(theta));
      out[half + j] = static_cast<float>(std::sin(theta));
    }
  }
  return table;
}

}  // namespace

std::size_t Model::dense_bytes() const noexcept {
  std::size_t bytes = token_embd.matrix.bytes() + output_norm.memory->size();
  if (head.memory != token_embd.memory) bytes += head.matrix.bytes();
  for (const Layer& l : layers) {
    for (const device::Linear* w : {&l.q, &l.k, &l.v, &l.output, &l.router})
      bytes += w->matrix.bytes();
    for (const Vector* v : {&l.attn_norm, &l.ffn_norm, &l.q_norm, &l.k_norm}) {
      if (v->memory) bytes += v->memory->size();
    }
  }
  return bytes;
}

Model load_model(const gguf::File& file, int context, device::Device& device, ThreadPool& pool,
                 const core::Progress& progress, const std::filesystem::path& expert_folder) {
  Model m;
  m.h = model::read_hparams(file);
  const model::ModelTensors t = model::bind_tensors(file, m.h);
  m.context = context;
  m.rope_table = device.upload(make_rope_table(m.h, context));
  const Loader load(file, device, pool);
  m.token_embd = load.linear(*t.token_embd);
  m.head = t.output == t.token_embd ? m.token_embd : load.linear(*t.output);
  m.output_norm = load.vector(t.output_norm);
  for (const model::LayerTensors& l : t.layers) {
    const auto [q, k, v, output, router] =
        load.linears<5>({l.attn_q, l.attn_k, l.attn_v, l.attn_output, l.router});
    m.layers.push_back({load.vector(l.attn_norm), load.vector(l.ffn_norm),
                        load.vector(l.attn_q_norm), load.vector(l.attn_k_norm), q, k, v, output,
                        router});
    if (progress) progress("dense", static_cast<double>(m.layers.size()) / m.h.layers);
  }
  m.experts = core::ExpertStore::load(file, t, m.h, pool, progress, expert_folder);
  return m;
}

}  // namespace strata::runtime
