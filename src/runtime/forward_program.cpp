// Windows of a few rows as programs: the device runs the whole pass, and asks for the experts that
// it lacks; the host computes those, and sees every choice on the way.
#include "src/runtime/forward_parts.hpp"
#include "strata/base/error.hpp"

#include <algorithm>
#include <array>

namespace strata::runtime {

using device::Rows;

namespace {
constexpr int kSegmentLayers = 8;
}

Forward::~Forward() = default;

Rows Forward::run_program() {
  Recorded& recorded = program_of_window();
  const bool timed = recorded.is_timed();
  if (replay_ != nullptr) bring_replayed_choices();
  tiers_.publish();
  try {
    run_segments(timed ? recorded.timed : recorded.plain);
    device_.synchronize();
    tiers_.check();
  } catch (...) {
    tiers_.release();
    try {
      device_.synchronize();
    } catch (const Error&) {  // the first error says more
    }
    throw;
  }
  ++recorded.runs;
  if (timed) {
    recorded.seconds.fill(0);
    for (const Segment& segment : recorded.timed) {
      for (const Span& span : segment.spans) {
        recorded.seconds[static_cast<std::size_t>(span.part)] +=
            segment.program->seconds(span.from, span.to);
      }
    }
  }
  for (std::size_t part = 0; part < kParts; ++part) {
    stats_.parts[part].seconds += recorded.seconds[part];
    stats_.parts[part].bytes += recorded.bytes[part];
  }
  stats_.of(Part::kAttention).bytes +=
      cache_bytes_read() * static_cast<std::uint64_t>(model_.h.layers);
  return rows(program_host_logits_, count_, program_logits(count_).width);
}

// One segment more is launched than is being served: the device goes on without a gap.
void Forward::run_segments(const std::vector<Segment>& segments) {
  device_.start(*segments.front().program);
  for (int layer = 0; layer < model_.h.layers; ++layer) {
    const auto next = static_cast<std::size_t>(layer / kSegmentLayers + 1);
    if (layer % kSegmentLayers == 0 && next < segments.size())
      device_.start(*segments[next].program);
    const core::ExpertTiers::Served served = tiers_.serve(layer, count_);
    stats_.of(Part::kExperts).bytes += served.bytes;
    if (observer_) {
      observer_(layer, served.choice.ids, served.choice.weights, model_.h.experts_used);
    }
  }
}

Forward::Recorded& Forward::program_of_window() {
  const int kind = device_.window_kind();
  for (const auto& recorded : programs_) {
    if (recorded->rows == count_ && recorded->kind == kind) return *recorded;
  }
  make_program_memory();
  auto recorded = std::make_unique<Recorded>();
  recorded->rows = count_;
  recorded->kind = kind;
  const Stats before = stats_;
  recorded->plain = record(false);
  stats_ = before;
  recorded->timed = record(true);
  const Stats noted = stats_ - before;
  stats_ = before;
  for (std::size_t part = 0; part < kParts; ++part) {
    recorded->bytes[part] = noted.parts[part].bytes;
  }
  recorded->bytes[static_cast<std::size_t>(Part::kAttention)] = 0;  // differs from run to run
  return *programs_.emplace_back(std::move(recorded));
}

// They outlive every program, and no program sees them move.
void Forward::make_program_memory() {
  if (program_host_logits_) return;
  const auto bytes = sizeof(float) * static_cast<std::size_t>(model_.head.matrix.groups()) *
                     quant::kGroupRows * device::kProgramRows;
  program_logits_ = device_.allocate(bytes);
  program_host_logits_ = device_.allocate_host(bytes);
}

Rows Forward::program_logits(int count) const noexcept {
  return rows(program_logits_, count, model_.head.matrix.groups() * quant::kGroupRows);
}

std::vector<Forward::Segment> Forward::record(bool timed) {
  timed_ = timed;
  std::vector<Segment> segments;
  for (int layer = 0; layer < model_.h.layers; layer += kSegmentLayers) {
    spans_.clear();
    device_.begin_recording();
    try {
      record_layers(layer, std::min(layer + kSegmentLayers, model_.h.layers));
    } catch (...) {
      device_.abandon_recording();
      throw;
    }
    segments.push_back({device_.end_recording(), spans_});
  }
  return segments;
}

void Forward::record_layers(int first, int end) {
  const model::HParams& h = model_.h;
  if (first == 0) {
    const PartTimer timer(*this, Part::kOther);
    device_.embed(model_.token_embd, rows(x_, count_, h.embd));
  }
  for (int layer = first; layer < end; ++layer) {
    attention_block(layer, {}, false);
    const OnDevice choice = replay_ == nullptr ? route(layer) : replayed(layer);
    const PartTimer timer(*this, Part::kExperts);
    tiers_.record(layer, rows(norm_, count_, h.embd), choice.ids, choice.weights,
                  rows(parts_, count_ * h.experts_used, h.embd), rows(x_, count_, h.embd));
  }
  if (end < h.layers) return;
  const Rows logits = program_logits(count_);
  head(logits);
  const PartTimer timer(*this, Part::kHead);
  device_.copy_to_host_later(program_host_logits_->data(), program_logits_->data(),
                             sizeof(float) * static_cast<std::size_t>(logits.count) *
                                 static_cast<std::size_t>(logits.width));
}

// The router is computed all the same.
Forward::OnDevice Forward::replayed(int layer) {
  static_cast<void>(route(layer));
  const auto* ids =
      reinterpret_cast<const std::int32_t*>(program_choices_->data()) + layer * choices_of_layer();
  return {ids, reinterpret_cast<const float*>(ids) + count_ * model_.h.experts_used};
}

std::ptrdiff_t Forward::choices_of_layer() const noexcept {
  return std::ptrdiff_t{2} * device::kProgramRows * model_.h.experts_used;
}

void Forward::bring_replayed_choices() {
  for (int layer = 0; layer < model_.h.layers; ++layer) {
    auto* id =
        reinterpret_cast<std::int32_t*>(program_host_choices_->data()) + layer * choices_of_layer();
    auto* weight = reinterpret_cast<float*>(id) + count_ * model_.h.experts_used;
    for (const std::int64_t token : std::span(replayed_).first(static_cast<std::size_t>(count_))) {
      id = std::ranges::copy(replay_->experts(layer, token), id).out;
      weight = std::ranges::copy(replay_->weights(layer, token), weight).out;
    }
  }
  device_.copy_from_host_later(program_choices_->data(), program_host_choices_->data(),
                               program_choices_->size());
}

}  // namespace strata::runtime
