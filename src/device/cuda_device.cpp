#include "strata/device/cuda_device.hpp"

#include "kernels/cpu/panel.hpp"
#include "src/device/cuda_state.hpp"
#include "strata/base/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace strata::device {
namespace {

class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(CudaBlock&& block) : block_(std::move(block)) {
    data_ = block_.data();
    size_ = block_.size();
  }

 private:
  CudaBlock block_;
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const CudaDeviceOptions& options) {
  const CudaStatus status = cuda_status(options.gpu);
  if (!status.usable) fail(ErrorKind::kUnsupported, "no CUDA device: {}", status.reason);
  cuda::select_gpu(options.gpu);
  return std::make_unique<CudaDevice>(cuda::gpu_info(options.gpu));
}

std::size_t cuda_free_bytes(int gpu) {
  cuda::select_gpu(gpu);
  return cuda::free_device_bytes();
}

CudaDevice::CudaDevice(const cuda::Gpu& gpu) : state_(std::make_unique<State>(gpu)) {}

CudaDevice::~CudaDevice() = default;

std::optional<std::size_t> CudaDevice::free_bytes() const {
  return cuda_free_bytes(state_->gpu.index);
}

std::string CudaDevice::description() const {
  const cuda::Gpu& g = state_->gpu;
  return fmt::format("GPU {}, {}, compute capability {}.{}, {:.1f} GiB", g.index, g.name, g.major,
                     g.minor, static_cast<double>(g.memory) / (1024.0 * 1024.0 * 1024.0));
}

std::unique_ptr<Memory> CudaDevice::allocate(std::size_t bytes) {
  const cuda::Stream stream = state_->use();
  auto memory = std::make_unique<CudaMemory>(CudaBlock(bytes, false));
  cuda::fill_zero(stream, memory->data(), bytes);
  return memory;
}

std::unique_ptr<Memory> CudaDevice::upload(Buffer&& host) {
  const cuda::Stream stream = state_->use();
  const Buffer source = std::move(host);
  auto memory = std::make_unique<CudaMemory>(CudaBlock(source.size(), false));
  cuda::copy(stream, memory->data(), source.data(), source.size());
  synchronize();
  return memory;
}

void CudaDevice::copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes) {
  const cuda::Stream stream = state_->use();
  cuda::copy(stream, to, from, bytes);
  synchronize();
}

void CudaDevice::copy_from_host(std::byte* to, const std::byte* from, std::size_t bytes) {
  const cuda::Stream stream = state_->use();
  state_->normed = {};
  cuda::copy(stream, to, from, bytes);
  synchronize();
}

void CudaDevice::copy_from_host_later(std::byte* to, const std::byte* from, std::size_t bytes) {
  cuda::copy(state_->use(), to, from, bytes);
}

void CudaDevice::copy_to_host_later(std::byte* to, const std::byte* from, std::size_t bytes) {
  cuda::copy(state_->use(), to, from, bytes);
}

std::unique_ptr<Memory> CudaDevice::allocate_host(std::size_t bytes) {
  (void)state_->use();
  auto memory = std::make_unique<CudaMemory>(CudaBlock(bytes, true));
  std::memset(memory->data(), 0, bytes);
  return memory;
}

void CudaDevice::synchronize() { cuda::synchronize(state_->use()); }

int CudaDevice::mark() {
  const cuda::Stream stream = state_->use();
  if (state_->recording) {
    std::vector<CudaEvent>& events = state_->recorded_events;
    cuda::record(events.emplace_back(), stream);
    return static_cast<int>(events.size()) - 1;
  }
  if (state_->marks == state_->events.size()) state_->events.emplace_back();
  cuda::record(state_->events[state_->marks], stream);
  return static_cast<int>(state_->marks++);
}

double CudaDevice::seconds(int from, int to) const {
  const auto event = [this](int mark) -> cuda::Event {
    return state_->events[static_cast<std::size_t>(mark)];
  };
  return cuda::elapsed_ms(event(from), event(to)) * 1e-3;
}

void CudaDevice::clear_marks() { state_->marks = 0; }

void CudaDevice::embed(const Linear& table, Rows out) {
  const cuda::Stream stream = state_->use();
  state_->writes(out.data);
  const quant::PackedMatrix& m = table.matrix;
  cuda::embed(
      stream, m.type,
      {m.data, m.group_bytes, m.cols, state_->window.tokens, out.count, out.data, out.width});
}

void CudaDevice::rms_norm(Rows x, const float* weight, float eps, Rows out) {
  State& s = *state_;
  const cuda::Stream stream = s.use();
  cuda::NormArgs args;
  args.x = x.data;
  args.width = x.width;
  args.rows = x.count;
  args.weight = weight;
  args.eps = eps;
  args.y = out.data;
  s.writes(out.data);
  // A few rows are soon multiplied; launches are what they cost.
  if (x.count <= kProgramRows && x.width % 32 == 0) {
    args.panels = s.panels.get(kernels::panel_bytes(x.width, x.count));
    s.normed = out;
  }
  cuda::rms_norm(stream, args);
}

// Outputs of one type go in one launch.
void CudaDevice::linear(Rows x, std::span<const LinearOutput> outputs) {
  const cuda::Stream stream = state_->use();
  const std::byte* panels = nullptr;
  std::vector<bool>& done = state_->done;
  done.assign(outputs.size(), false);
  for (std::size_t first = 0; first < outputs.size(); ++first) {
    if (done[first]) continue;
    const quant::PackedMatrix& m = outputs[first].weight->matrix;
    cuda::DotArgs args;
    args.group_bytes = m.group_bytes;
    args.cols = m.cols;
    args.columns = x.count;
    if (quant::is_float(m.type)) {
      args.x = reinterpret_cast<const std::byte*>(x.data);
      args.x_row_bytes = sizeof(float) * static_cast<std::size_t>(x.width);
    } else {
      if (panels == nullptr) panels = state_->quantize(x);
      args.x = panels;
      args.x_row_bytes = kernels::panel_bytes(x.width, 1);
    }
    for (const LinearOutput& o : outputs) state_->writes(o.out.data);
    for (std::size_t i = first; i < outputs.size() && args.target_count < cuda::kMaxTargets; ++i) {
      const LinearOutput& o = outputs[i];
      if (done[i] || o.weight->matrix.type != m.type) continue;
      done[i] = true;
      args.targets[args.target_count++] = {.weights = o.weight->matrix.data,
                                           .groups = o.weight->matrix.groups(),
                                           .out = o.out.data,
                                           .out_width = o.out.width,
                                           .accumulate = o.accumulate};
    }
    if (x.count > cuda::kMaxDotTokens && state_->in_tiles(m.type)) {
      cuda::dot_tiles(stream, m.type, args);
    } else {
      cuda::dot(stream, m.type, args);
    }
  }
}

void CudaDevice::keep_rows(Rows x, std::span<const std::int32_t> kept) {
  const cuda::Stream stream = state_->use();
  state_->writes(x.data);
  cuda::keep_rows(stream, x.data, x.width, state_->staging.bring(kept),
                  static_cast<int>(kept.size()));
}

void CudaDevice::rope(Rows x, int head_dim, const Rope& rope) {
  const cuda::Stream stream = state_->use();
  state_->writes(x.data);
  cuda::rope(stream, {x.data, state_->window.places, x.count, static_cast<int>(x.width / head_dim),
                      head_dim, rope.table, rope.n_rot, rope.neox});
}

void CudaDevice::kv_append(Rows k, Rows v, int layer, const AttentionShape& shape) {
  const cuda::Stream stream = state_->use();
  cuda::kv_append(stream, k.data, v.data, state_->window.places, layer, k.count, shape.kv_heads,
                  shape.head_dim);
}

// In one launch for a few rows; many are as soon done one after the other.
void CudaDevice::prepare_heads(Rows q, Rows k, Rows v, const HeadNorms& norms, const Rope& rope,
                               int layer, const AttentionShape& shape) {
  if (q.count > kProgramRows) {
    Device::prepare_heads(q, k, v, norms, rope, layer, shape);
    return;
  }
  const cuda::Stream stream = state_->use();
  state_->writes(q.data);
  cuda::HeadsArgs args;
  args.q = q.data;
  args.k = k.data;
  args.v = v.data;
  args.q_norm = norms.q;
  args.k_norm = norms.k;
  args.eps = norms.eps;
  args.places = state_->window.places;
  args.layer = layer;
  args.rows = q.count;
  args.heads = shape.heads;
  args.kv_heads = shape.kv_heads;
  args.head_dim = shape.head_dim;
  args.table = rope.table;
  args.n_rot = rope.n_rot;
  args.neox = rope.neox;
  cuda::heads(stream, args);
}

void CudaDevice::route(Rows logits, const RouterShape& shape, std::int32_t* ids, float* weights) {
  const cuda::Stream stream = state_->use();
  cuda::route(stream, {logits.data, logits.width, logits.count, shape.experts, shape.used,
                       shape.renormalize, ids, weights});
}

void CudaDevice::combine(Rows parts, const float* weights, int ranks, Rows x) {
  const cuda::Stream stream = state_->use();
  state_->writes(x.data);
  cuda::combine(stream, parts.data, weights, ranks, x.width, x.count, x.data);
}

}  // namespace strata::device
