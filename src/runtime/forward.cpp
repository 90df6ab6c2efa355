#include "src/runtime/forward_parts.hpp"

#include "strata/base/clock.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace strata::runtime {
namespace {

using device::KvLayer;
using device::Rows;

std::int64_t round_up(std::int64_t n) {
  return (n + quant::kGroupRows - 1) / quant::kGroupRows * quant::kGroupRows;
}

}  // namespace

SequenceState::SequenceState(const Model& model, device::Device& device, int capacity,
                             device::KvType type)
    : capacity_(capacity), cells_(static_cast<int>(round_up(capacity))), type_(type) {
  const std::size_t row =
      static_cast<std::size_t>(model.h.kv_heads) * device::kv_row_bytes(type, model.h.head_dim);
  const auto layers = static_cast<std::size_t>(model.h.layers);
  layer_bytes_ = row * static_cast<std::size_t>(cells_);
  position_bytes_ = layers * 2 * row;
  memory_ = device.allocate(layers * 2 * layer_bytes_);
}

device::KvCache SequenceState::cache() const noexcept {
  return {memory_->data(), layer_bytes_, type_, cells_};
}

Forward::Forward(const Model& model, device::Device& device, device::Device& pool, int max_window)
    : model_(model),
      device_(device),
      tiers_(model.experts, pool, model.h.layers, model.h.experts),
      max_window_(max_window) {
  const model::HParams& h = model.h;
  const auto make = [&](std::int64_t width) {
    return device.allocate(sizeof(float) * static_cast<std::size_t>(width) *
                           static_cast<std::size_t>(max_window));
  };
  x_ = make(h.embd);
  norm_ = make(h.embd);
  q_ = make(static_cast<std::int64_t>(h.heads) * h.head_dim);
  k_ = make(static_cast<std::int64_t>(h.kv_heads) * h.head_dim);
  v_ = make(static_cast<std::int64_t>(h.kv_heads) * h.head_dim);
  attn_ = make(static_cast<std::int64_t>(h.heads) * h.head_dim);
  router_ = make(round_up(h.experts));
  parts_ = make(static_cast<std::int64_t>(h.experts_used) * round_up(h.embd));
  choice_ = make(std::int64_t{2} * h.experts_used);
  tiers_.set_home(device, max_window, h.experts_used, h.embd);
  if (device.is_host_memory()) return;
  host_choice_ = device.allocate_host(choice_->size());
}

std::size_t Forward::activation_bytes(const model::HParams& h, int tokens) noexcept {
  const std::int64_t q = static_cast<std::int64_t>(h.heads) * h.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(h.kv_heads) * h.head_dim;
  const std::int64_t width =
      2 * h.embd + 2 * q + 2 * kv + round_up(h.experts) + h.experts_used * (round_up(h.embd) + 2);
  return sizeof(float) * static_cast<std::size_t>(width) * static_cast<std::size_t>(tokens);
}

Rows Forward::rows(const std::unique_ptr<device::Memory>& memory, int count,
                   std::int64_t width) const noexcept {
  return {reinterpret_cast<float*>(memory->data()), count, width};
}

void Forward::count_bytes(Part part, std::span<const device::Linear* const> weights) {
  for (const device::Linear* w : weights) stats_.of(part).bytes += w->matrix.bytes();
}

Rows Forward::run(std::span<const WindowToken> window) {
  assert(!window.empty() && static_cast<int>(window.size()) <= max_window_);
  const Stopwatch watch;
  const model::HParams& h = model_.h;
  spans_.clear();  // of a window that failed
  device_.clear_marks();
  count_ = static_cast<int>(window.size());
  int wanted = 0;
  rows_.clear();
  replayed_.clear();
  for (const WindowToken& t : window) {
    rows_.push_back({t.token, t.position, t.sequence->cache()});
    replayed_.push_back(t.sequence->replay_start() + t.position);
    wanted += t.wants_logits ? 1 : 0;
  }
  device_.begin_window(rows_);
  ++stats_.windows;
  stats_.tokens += window.size();
  if (wanted == count_ && count_ <= device::kProgramRows &&
      count_ * h.experts_used <= device::kProgramChoices && tiers_.can_record()) {
    const Rows logits = run_program();
    stats_.seconds += watch.seconds();
    return logits;
  }
  timed_ = true;
  {
    const PartTimer timer(*this, Part::kOther);
    device_.embed(model_.token_embd, rows(x_, count_, h.embd));
  }
  for (int layer = 0; layer < h.layers; ++layer) {
    const bool last = layer + 1 == h.layers;
    attention_block(layer, window, last);
    if (count_ > 0) expert_block(layer);
  }
  if (every_row_) keep_only_wanted(window);

  if (wanted > logits_rows_) {
    logits_ = device_.allocate(sizeof(float) * static_cast<std::size_t>(round_up(h.vocab)) *
                               static_cast<std::size_t>(wanted));
    logits_rows_ = wanted;
  }
  Rows logits{};
  if (wanted > 0) {
    logits = rows(logits_, wanted, round_up(h.vocab));
    head(logits);
  }
  logits = logits_on_host(logits);
  add_times();
  stats_.seconds += watch.seconds();
  return logits;
}

void Forward::head(Rows logits) {
  const model::HParams& h = model_.h;
  const PartTimer timer(*this, Part::kHead);
  const Rows norm = rows(norm_, count_, h.embd);
  device_.rms_norm(rows(x_, count_, h.embd), model_.output_norm.data(), h.norm_eps, norm);
  const device::LinearOutput head[] = {{&model_.head, logits}};
  device_.linear(norm, head);
  const device::Linear* const weights[] = {&model_.head};
  count_bytes(Part::kHead, weights);
}

Rows Forward::logits_on_host(Rows logits) {
  if (logits.count == 0 || device_.is_host_memory()) return logits;
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(logits.count) *
                            static_cast<std::size_t>(logits.width);
  if (!host_logits_ || bytes > host_logits_->size()) host_logits_ = device_.allocate_host(bytes);
  device_.copy_to_host(host_logits_->data(), reinterpret_cast<const std::byte*>(logits.data),
                       bytes);
  return {reinterpret_cast<float*>(host_logits_->data()), logits.count, logits.width};
}

void Forward::add_times() {
  device_.synchronize();
  for (const Span& span : spans_) {
    stats_.of(span.part).seconds += device_.seconds(span.from, span.to);
  }
  spans_.clear();
  device_.clear_marks();
}

Forward::Choice Forward::read_choice(std::size_t choices) {
  const std::byte* host = choice_->data();
  if (!device_.is_host_memory()) {
    device_.copy_to_host(host_choice_->data(), choice_->data(), 2 * sizeof(float) * choices);
    host = host_choice_->data();
  }
  return {{reinterpret_cast<const std::int32_t*>(host), choices},
          {reinterpret_cast<const float*>(host) + choices, choices}};
}

void Forward::replay_routing(const core::RoutingReplay& replay) {
  replay_ = &replay;
  replay_choice_ = device_.allocate_host(choice_->size());
  if (!device_.can_record()) return;
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(choices_of_layer()) *
                            static_cast<std::size_t>(model_.h.layers);
  program_choices_ = device_.allocate(bytes);
  program_host_choices_ = device_.allocate_host(bytes);
}

// The trace's choice, also where combine reads it.
Forward::Choice Forward::replay_choice(int layer, std::size_t choices) {
  auto* ids = reinterpret_cast<std::int32_t*>(replay_choice_->data());
  auto* weights = reinterpret_cast<float*>(ids) + choices;
  std::int32_t* id = ids;
  float* weight = weights;
  for (int row = 0; row < count_; ++row) {
    const std::int64_t token = replayed_[static_cast<std::size_t>(row)];
    id = std::ranges::copy(replay_->experts(layer, token), id).out;
    weight = std::ranges::copy(replay_->weights(layer, token), weight).out;
  }
  device_.copy_from_host_later(choice_->data(), replay_choice_->data(),
                               2 * sizeof(float) * choices);
  return {{ids, choices}, {weights, choices}};
}

// x += output(attention(norm(x))). In the last layer only the rows whose logits are wanted go on
// past the cache.
void Forward::attention_block(int layer, std::span<const WindowToken> window, bool last) {
  const model::HParams& h = model_.h;
  const Layer& w = model_.layers[static_cast<std::size_t>(layer)];
  const Rows norm = rows(norm_, count_, h.embd);
  Rows q = rows(q_, count_, static_cast<std::int64_t>(h.heads) * h.head_dim);
  const Rows k = rows(k_, count_, static_cast<std::int64_t>(h.kv_heads) * h.head_dim);
  const Rows v = rows(v_, count_, k.width);
  {
    const PartTimer timer(*this, Part::kOther);
    device_.rms_norm(rows(x_, count_, h.embd), w.attn_norm.data(), h.norm_eps, norm);
  }
  {
    const PartTimer timer(*this, Part::kDense);
    const device::LinearOutput outputs[] = {{&w.q, q}, {&w.k, k}, {&w.v, v}};
    device_.linear(norm, outputs);
    const device::Linear* const weights[] = {&w.q, &w.k, &w.v};
    count_bytes(Part::kDense, weights);
  }
  const device::AttentionShape shape{h.heads, h.kv_heads, h.head_dim,
                                     1.0f / std::sqrt(static_cast<float>(h.head_dim))};
  {
    const PartTimer timer(*this, Part::kOther);
    device::HeadNorms norms{.eps = h.norm_eps};
    if (w.q_norm.memory) {
      norms.q = w.q_norm.data();
      norms.k = w.k_norm.data();
    }
    const device::Rope rope{reinterpret_cast<const float*>(model_.rope_table->data()), h.n_rot,
                            h.arch->rope == model::RopeKind::kHalves};
    device_.prepare_heads(q, k, v, norms, rope, layer, shape);
  }
  if (last && !every_row_) {
    keep_only_wanted(window);
    q.count = count_;
    if (count_ == 0) return;
  }
  const Rows attn = rows(attn_, count_, q.width);
  {
    const PartTimer timer(*this, Part::kAttention);
    device_.attention(q, layer, shape, attn);
    stats_.of(Part::kAttention).bytes += cache_bytes_read();
  }
  const PartTimer timer(*this, Part::kDense);
  const device::LinearOutput outputs[] = {{&w.output, rows(x_, count_, h.embd), true}};
  device_.linear(attn, outputs);
  const device::Linear* const weights[] = {&w.output};
  count_bytes(Part::kDense, weights);
}

// Of a layer: each sequence's past is read once a window.
std::uint64_t Forward::cache_bytes_read() const noexcept {
  const model::HParams& h = model_.h;
  std::uint64_t bytes = 0;
  for (std::size_t t = 0; t < rows_.size(); ++t) {
    const device::KvCache& cache = rows_[t].cache;
    if (t + 1 < rows_.size() && rows_[t + 1].cache.data == cache.data) continue;
    bytes += static_cast<std::uint64_t>(rows_[t].position + 1) * 2 *
             device::kv_row_bytes(cache.type, h.head_dim) * static_cast<std::uint64_t>(h.kv_heads);
  }
  return bytes;
}

// Moves the rows that want logits to the front of x and q, and what they stand for with them.
void Forward::keep_only_wanted(std::span<const WindowToken> window) {
  const model::HParams& h = model_.h;
  const Rows x = rows(x_, count_, h.embd);
  const Rows q = rows(q_, count_, static_cast<std::int64_t>(h.heads) * h.head_dim);
  kept_.clear();
  for (int t = 0; t < count_; ++t) {
    if (!window[static_cast<std::size_t>(t)].wants_logits) continue;
    rows_[kept_.size()] = rows_[static_cast<std::size_t>(t)];
    replayed_[kept_.size()] = replayed_[static_cast<std::size_t>(t)];
    kept_.push_back(t);
  }
  if (static_cast<int>(kept_.size()) == count_) return;
  device_.keep_rows(x, kept_);
  device_.keep_rows(q, kept_);
  count_ = static_cast<int>(kept_.size());
  rows_.resize(kept_.size());
  if (count_ > 0) device_.begin_window(rows_);
}

// x += sum of the chosen experts' outputs of norm(x), by the router's weights.
void Forward::expert_block(int layer) {
  const model::HParams& h = model_.h;
  const Rows parts = rows(parts_, count_ * h.experts_used, h.embd);
  const OnDevice there = route(layer);
  Choice choice;
  {
    const PartTimer timer(*this, Part::kOther);
    const std::size_t choices =
        static_cast<std::size_t>(count_) * static_cast<std::size_t>(h.experts_used);
    choice = read_choice(choices);
    if (replay_ != nullptr) choice = replay_choice(layer, choices);
    if (observer_) observer_(layer, choice.ids, choice.weights, h.experts_used);
  }
  {
    const PartTimer timer(*this, Part::kExperts);
    stats_.of(Part::kExperts).bytes +=
        tiers_.compute(layer, rows(norm_, count_, h.embd), choice.ids, h.experts_used, parts);
  }
  const PartTimer timer(*this, Part::kOther);
  device_.combine(parts, there.weights, h.experts_used, rows(x_, count_, h.embd));
}

// norm(x), which the experts read, and the router's choice by it, both on the device.
Forward::OnDevice Forward::route(int layer) {
  const model::HParams& h = model_.h;
  const Layer& w = model_.layers[static_cast<std::size_t>(layer)];
  const Rows norm = rows(norm_, count_, h.embd);
  const Rows logits = rows(router_, count_, round_up(h.experts));
  {
    const PartTimer timer(*this, Part::kOther);
    device_.rms_norm(rows(x_, count_, h.embd), w.ffn_norm.data(), h.norm_eps, norm);
  }
  {
    const PartTimer timer(*this, Part::kDense);
    const device::LinearOutput outputs[] = {{&w.router, logits}};
    device_.linear(norm, outputs);
    const device::Linear* const router[] = {&w.router};
    count_bytes(Part::kDense, router);
  }
  auto* ids = reinterpret_cast<std::int32_t*>(choice_->data());
  float* weights = reinterpret_cast<float*>(ids) + static_cast<std::ptrdiff_t>(count_) *
                                                       static_cast<std::ptrdiff_t>(h.experts_used);
  const PartTimer timer(*this, Part::kOther);
  device_.route(logits, {h.experts, h.experts_used, h.arch->renormalize}, ids, weights);
  return {ids, weights};
}

}  // namespace strata::runtime
