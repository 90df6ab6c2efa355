// Experts on the GPU, grouped by expert: gate and up, SwiGLU, down.
#include "kernels/cpu/panel.hpp"
#include "src/device/cuda_state.hpp"

namespace strata::device {

// Token columns of all work items stand in one line, item after item.
struct CudaDevice::State::Experts {
  State& s;
  const quant::ExpertLayout& layout;
  std::int32_t columns = 0;
  const std::int32_t* x_rows = nullptr;    // on the device
  const std::int32_t* out_rows = nullptr;  // on the device
  struct Jobs {
    const cuda::DotJob* job = nullptr;  // on the device
    std::int32_t count = 0;
    const std::int32_t* count_there = nullptr;  // on the device, where `count` is only a bound
  };
  Jobs jobs[kJobWidths] = {};

  // Cuts the work into jobs and brings them to the device.
  void plan(std::span<const ExpertWork> work) {
    s.x_rows.clear();
    s.out_rows.clear();
    std::size_t bytes = 0;
    const bool tiles =
        s.in_tiles(layout.gate_type) && s.in_tiles(layout.up_type) && s.in_tiles(layout.down_type);
    const std::int32_t most = tiles ? cuda::kTileTokens : cuda::kMaxDotTokens;
    for (auto& list : s.jobs) list.clear();
    for (const ExpertWork& w : work) {
      s.x_rows.insert(s.x_rows.end(), w.tokens.begin(), w.tokens.end());
      s.out_rows.insert(s.out_rows.end(), w.rows.begin(), w.rows.end());
      for (auto left = static_cast<std::int32_t>(w.tokens.size()); left > 0;) {
        const std::int32_t count = std::min(left, most);
        const int width = count > 8 ? 4 : count > 4 ? 3 : count > 2 ? 2 : count - 1;
        s.jobs[width].push_back({w.blob, columns, count});
        bytes += sizeof(cuda::DotJob);
        columns += count;
        left -= count;
      }
    }
    bytes += 2 * sizeof(std::int32_t) * static_cast<std::size_t>(columns);
    s.staging.begin(bytes, 2 + kJobWidths);
    x_rows = s.staging.put(std::span<const std::int32_t>(s.x_rows));
    out_rows = s.staging.put(std::span<const std::int32_t>(s.out_rows));
    for (int i = 0; i < kJobWidths; ++i) {
      jobs[i] = {.job = s.staging.put(std::span<const cuda::DotJob>(s.jobs[i])),
                 .count = static_cast<std::int32_t>(s.jobs[i].size())};
    }
    s.staging.send();
  }

  // The device cuts the choice itself; so many columns and jobs as there could be.
  void dispatch(Rows x, const std::int32_t* ids, const float* weights, const Exchange& e,
                int layer) {
    static_assert(kProgramChoices <= cuda::kMaxChoices);
    columns = x.count * e.used;
    cuda::DispatchArgs args = dispatched(s, columns);
    args.ids = ids;
    args.weights = weights;
    args.rows = x.count;
    args.used = e.used;
    args.blobs = e.blobs_of(layer);
    args.x = x.data;
    args.width = x.width;
    args.step = {s.window.number, layer, e.layers};
    args.post = {e.posted, e.ids_of(layer), e.weights_of(layer), e.x};
    cuda::dispatch(s.stream, args);
    x_rows = args.x_rows;
    out_rows = args.out_rows;
    // An expert has as many columns as there are rows, at most.
    const int width = x.count > 4 ? 3 : x.count > 2 ? 2 : x.count - 1;
    jobs[width] = {args.jobs, columns, args.job_count};
  }

  // Where dispatch writes for `choices` choices.
  [[nodiscard]] static cuda::DispatchArgs dispatched(State& s, int choices) {
    const auto n = static_cast<std::size_t>(choices);
    auto* jobs = reinterpret_cast<cuda::DotJob*>(
        s.dispatched.get(n * (sizeof(cuda::DotJob) + 3 * sizeof(std::int32_t)) + 16));
    auto* count = reinterpret_cast<std::int32_t*>(jobs + n);
    cuda::DispatchArgs args;
    args.jobs = jobs;
    args.job_count = count;
    args.x_rows = count + 4;
    args.out_rows = args.x_rows + n;
    args.held = args.out_rows + n;
    return args;
  }

  // One launch a width.
  void dot(gguf::Type type, cuda::DotArgs args) const {
    for (int i = 0; i < kJobWidths; ++i) {
      args.job = jobs[i].job;
      args.jobs = jobs[i].count;
      args.job_count = jobs[i].count_there;
      args.tile = 1 << i;
      if (args.jobs == 0) continue;
      if (i == kJobWidths - 1) {
        cuda::dot_tiles(s.stream, type, args);
      } else {
        cuda::dot(s.stream, type, args);
      }
    }
  }

  // What matrices of a type read of x.
  void set_input(cuda::DotArgs& args, gguf::Type type, Rows x, const std::byte* panels) const {
    const bool floats = quant::is_float(type);
    args.x = floats ? reinterpret_cast<const std::byte*>(x.data) : panels;
    args.x_row_bytes = floats ? sizeof(float) * static_cast<std::size_t>(x.width)
                              : kernels::panel_bytes(x.width, 1);
  }

  // gate and up, [columns][hidden] each, one after the other.
  [[nodiscard]] float* gate_up(Rows x) const {
    float* out = s.gate_up.floats(2 * columns * layout.hidden);
    const bool floats = quant::is_float(layout.gate_type) && quant::is_float(layout.up_type);
    const std::byte* panels = floats ? nullptr : s.quantize(x);
    const std::int64_t groups = (layout.hidden + quant::kGroupRows - 1) / quant::kGroupRows;
    const cuda::DotTarget gate{
        .offset = 0, .groups = groups, .out = out, .out_width = layout.hidden};
    const cuda::DotTarget up{.offset = layout.gate_bytes(),
                             .groups = groups,
                             .out = out + columns * layout.hidden,
                             .out_width = layout.hidden};
    cuda::DotArgs args{.targets = {gate, up},
                       .target_count = 2,
                       .group_bytes = quant::packed_group_bytes(layout.gate_type, layout.embd),
                       .cols = layout.embd,
                       .x_rows = x_rows};
    set_input(args, layout.gate_type, x, panels);
    if (layout.gate_type == layout.up_type) {
      dot(layout.gate_type, args);
      return out;
    }
    args.target_count = 1;
    dot(layout.gate_type, args);
    args.targets[0] = up;
    args.group_bytes = quant::packed_group_bytes(layout.up_type, layout.embd);
    set_input(args, layout.up_type, x, panels);
    dot(layout.up_type, args);
    return out;
  }

  void down(const float* gate, Rows parts) const {
    const float* up = gate + columns * layout.hidden;
    const std::int64_t blocks = columns * (layout.hidden / 32);
    const cuda::DotTarget target{
        .offset = layout.gate_bytes() + layout.up_bytes(),
        .groups = (layout.embd + quant::kGroupRows - 1) / quant::kGroupRows,
        .out = parts.data,
        .out_width = parts.width};
    cuda::DotArgs args{.targets = {target},
                       .target_count = 1,
                       .group_bytes = quant::packed_group_bytes(layout.down_type, layout.hidden),
                       .cols = layout.hidden,
                       .out_rows = out_rows};
    if (quant::is_float(layout.down_type)) {
      float* hidden = s.hidden.floats(columns * layout.hidden);
      cuda::swiglu(s.stream, gate, up, blocks, hidden);
      args.x = reinterpret_cast<const std::byte*>(hidden);
      args.x_row_bytes = sizeof(float) * static_cast<std::size_t>(layout.hidden);
    } else {
      std::byte* hidden = s.hidden.get(kernels::panel_bytes(layout.hidden, columns));
      cuda::swiglu_quantize(s.stream, gate, up, blocks, hidden);
      args.x = hidden;
      args.x_row_bytes = kernels::panel_bytes(layout.hidden, 1);
    }
    dot(layout.down_type, args);
  }
};

void CudaDevice::experts(Rows x, const quant::ExpertLayout& layout,
                         std::span<const ExpertWork> work, Rows parts) {
  if (work.empty()) return;
  cuda::select_gpu(state_->gpu.index);
  state_->writes(parts.data);
  State::Experts call{*state_, layout};
  call.plan(work);
  call.down(call.gate_up(x), parts);
}

void CudaDevice::experts_held(Rows x, const quant::ExpertLayout& layout, const std::int32_t* ids,
                              const float* weights, const Exchange& exchange, int layer,
                              Rows parts) {
  cuda::select_gpu(state_->gpu.index);
  state_->writes(parts.data);
  State::Experts call{*state_, layout};
  call.dispatch(x, ids, weights, exchange, layer);
  call.down(call.gate_up(x), parts);
}

void CudaDevice::combine_held(Rows parts, const float* weights, const Exchange& exchange, int layer,
                              Rows x) {
  const cuda::Stream stream = state_->use();
  state_->writes(x.data);
  cuda::CombineHeldArgs args;
  args.parts = parts.data;
  args.host_parts = exchange.parts;
  args.held = State::Experts::dispatched(*state_, x.count * exchange.used).held;
  args.weights = weights;
  args.ranks = exchange.used;
  args.width = x.width;
  args.rows = x.count;
  args.x = x.data;
  args.step = {state_->window.number, layer, exchange.layers};
  args.replied = exchange.replied;
  args.gave_up = exchange.gave_up;
  cuda::combine_held(stream, args);
}

}  // namespace strata::device
