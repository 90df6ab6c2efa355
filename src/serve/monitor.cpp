#include "src/serve/monitor.hpp"

#include "strata/base/memory.hpp"
#include "strata/runtime/expert_caching.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace strata::serve {
namespace {

constexpr std::array kAllParts = {runtime::Part::kDense, runtime::Part::kAttention,
                                  runtime::Part::kExperts, runtime::Part::kHead,
                                  runtime::Part::kOther};

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string resident_bits(std::span<const std::int32_t> table) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string bits;
  for (std::size_t i = 0; i < table.size(); i += 4) {
    unsigned digit = 0;
    for (std::size_t j = i; j < i + 4; ++j) {
      digit = digit * 2 + (j < table.size() && table[j] != core::kNotResident ? 1 : 0);
    }
    bits += kDigits[digit];
  }
  return bits;
}

class MetricsText {
 public:
  // A series of one value.
  template <class T>
  void one(std::string_view name, std::string_view type, std::string_view help, T value) {
    head(name, type, help);
    line(name, "", value);
  }
  void head(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP strata:{} {}\n# TYPE strata:{} {}\n", name, help, name, type);
  }
  template <class T>
  void line(std::string_view name, std::string_view labels, T value) {
    text_ += fmt::format("strata:{}{} {}\n", name, labels, value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram) {
    head(name, "histogram", help);
    const std::string bucket = fmt::format("{}_bucket", name);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i) {
      below += histogram.counts()[i];
      line(bucket, fmt::format("{{le=\"{}\"}}", Histogram::kBounds[i]), below);
    }
    line(bucket, "{le=\"+Inf\"}", histogram.count());
    line(fmt::format("{}_sum", name), "", histogram.sum());
    line(fmt::format("{}_count", name), "", histogram.count());
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void write_requests(MetricsText& out, const Snapshot& snapshot) {
  const Counters& c = snapshot.counters;
  out.head("requests_total", "counter", "Requests that have ended, by what ended them.");
  for (std::size_t i = 0; i < c.ended.size(); ++i) {
    out.line("requests_total",
             fmt::format("{{finish=\"{}\"}}", finish_name(static_cast<Finish>(i))), c.ended[i]);
  }
  out.one("requests_refused_total", "counter", "Requests refused because the queue was full.",
          c.refused);
  std::size_t busy = 0;
  for (const SlotView& slot : snapshot.slots) busy += slot.phase != "idle" ? 1 : 0;
  out.one("requests_processing", "gauge", "Requests that have a slot.", busy);
  out.one("requests_deferred", "gauge", "Requests that wait for a slot.", snapshot.waiting);
  out.one("slots", "gauge", "Requests that can be computed at once.", snapshot.slots.size());
  out.histogram("queue_seconds", "From a request's arrival to its slot.", c.queued);
  out.histogram("time_to_first_token_seconds", "From a request's arrival to its first token.",
                c.first_token);
  out.histogram("time_per_output_token_seconds", "From one token of an answer to the next.",
                c.token);
  out.histogram("request_seconds", "From a request's arrival to the end of its answer.", c.request);
}

void write_tokens(MetricsText& out, const Snapshot& snapshot) {
  const Counters& c = snapshot.counters;
  const auto counter = [&](std::string_view name, std::string_view help, auto value) {
    out.one(name, "counter", help, value);
  };
  counter("prompt_tokens_total", "Tokens of prompts that were computed.", c.prompt_tokens);
  counter("prompt_cached_tokens_total", "Tokens of prompts that a slot held already.",
          c.cached_tokens);
  counter("prompt_seconds_total", "Time of all requests from their slot to their first token.",
          c.prompt_seconds);
  counter("tokens_predicted_total", "Tokens of answers.", c.generated_tokens);
  counter("tokens_predicted_seconds_total",
          "Time of all requests from their first token to their end.", c.answer_seconds);
  out.one("prompt_tokens_seconds", "gauge", "Tokens of prompts a second, over all requests.",
          ratio(static_cast<double>(c.prompt_tokens), c.prompt_seconds));
  out.one("predicted_tokens_seconds", "gauge", "Tokens of an answer a second, over all requests.",
          ratio(static_cast<double>(c.generated_tokens), c.answer_seconds));
  counter("n_decode_total", "Windows computed.", c.windows);
  out.one("n_busy_slots_per_decode", "gauge", "Slots that had a part in a window, on average.",
          ratio(static_cast<double>(c.window_slots), static_cast<double>(c.windows)));
  counter("window_seconds_total", "Time in forward passes.", snapshot.engine.seconds);
  out.head("part_seconds_total", "counter", "Time in forward passes, by part.");
  for (const runtime::Part part : kAllParts) {
    out.line("part_seconds_total", fmt::format("{{part=\"{}\"}}", runtime::part_name(part)),
             snapshot.engine.of(part).seconds);
  }
  out.head("part_bytes_total", "counter", "Bytes read from memory, by part.");
  for (const runtime::Part part : kAllParts) {
    out.line("part_bytes_total", fmt::format("{{part=\"{}\"}}", runtime::part_name(part)),
             snapshot.engine.of(part).bytes);
  }
}

void write_experts(MetricsText& out, const ExpertView& e) {
  const auto counter = [&](std::string_view name, std::string_view help, auto value) {
    out.one(name, "counter", help, value);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, auto value) {
    out.one(name, "gauge", help, value);
  };
  counter("moe_cache_hits_total", "Experts computed from the cache.", e.counts.hits);
  counter("moe_cache_hits_profile_total", "Of them, from a slot that the profile filled.",
          e.counts.hits_profile);
  counter("moe_cache_misses_total", "Experts that were not in the cache.", e.counts.misses);
  counter("moe_cache_upload_bytes_total", "Bytes copied to the accelerator after the warm start.",
          e.counts.bytes_upload);
  counter("moe_cache_cpu_bytes_total", "Bytes of the experts computed from RAM.",
          e.counts.bytes_cpu);
  counter("moe_cache_swaps_total", "Experts copied to the cache after the warm start.",
          e.counts.swaps);
  counter("moe_cache_swaps_useful_total", "Of them, those that have served a window.",
          e.swaps_useful);
  counter("moe_cache_swaps_wasted_total", "Of them, those that went without having served one.",
          e.swaps_wasted);
  gauge("moe_cache_hit_ratio", "Hits as a share of hits and misses since the start.",
        ratio(static_cast<double>(e.counts.hits),
              static_cast<double>(e.counts.hits + e.counts.misses)));
  gauge("moe_cache_slots", "Slots of the cache.", e.slots);
  gauge("moe_cache_prefilled", "Slots that the profile filled.", e.prefilled);
  gauge("moe_cache_bytes", "Bytes of the cache.", e.bytes);
  gauge("moe_cache_hybrid", "1 where a cache shares the experts with the CPU.", e.caching ? 1 : 0);
  const auto by_layer = [&](std::string_view name, std::string_view help, auto member) {
    out.head(name, "counter", help);
    for (std::size_t i = 0; i < e.layers.size(); ++i) {
      out.line(name, fmt::format("{{layer=\"{}\"}}", i), e.layers[i].*member);
    }
  };
  by_layer("moe_cache_layer_hits_total", "Hits by layer.", &ExpertView::Layer::hits);
  by_layer("moe_cache_layer_hits_profile_total", "Of them, from a slot that the profile filled.",
           &ExpertView::Layer::hits_profile);
  by_layer("moe_cache_layer_misses_total", "Misses by layer.", &ExpertView::Layer::misses);
}

Json experts_json(const ExpertView& e, int experts) {
  Json json = {{"caching", e.caching},
               {"experts", experts},
               {"hits", e.counts.hits},
               {"hits_profile", e.counts.hits_profile},
               {"misses", e.counts.misses},
               {"upload_bytes", e.counts.bytes_upload},
               {"cpu_bytes", e.counts.bytes_cpu},
               {"swaps", e.counts.swaps},
               {"swaps_useful", e.swaps_useful},
               {"swaps_wasted", e.swaps_wasted},
               {"slots", e.slots},
               {"prefilled", e.prefilled},
               {"bytes", e.bytes},
               {"layers", Json::array()}};
  for (const ExpertView::Layer& layer : e.layers) {
    json["layers"].push_back({{"hits", layer.hits},
                              {"misses", layer.misses},
                              {"slots", layer.slots},
                              {"resident", layer.resident},
                              {"uses", layer.uses}});
  }
  return json;
}

}  // namespace

ExpertView view_experts(const Engine& engine) {
  ExpertView view;
  const runtime::ExpertCaching* caching = engine.caching();
  view.counts = runtime::count_experts(engine.tiers(), caching);
  view.caching = caching != nullptr;
  for (int i = 0; i < engine.tiers().layers(); ++i) {
    const core::TierCounts& counts = engine.tiers().counts(i);
    const std::span<const std::uint64_t> uses = engine.tiers().uses(i);
    ExpertView::Layer layer{
        counts.hit_experts,        0, counts.miss_experts + counts.fetch_experts, 0, {},
        {uses.begin(), uses.end()}};
    if (caching != nullptr) {
      layer.hits_profile = caching->control().hits_profile(i);
      layer.slots = caching->cache().quota(i);
      layer.resident = resident_bits(caching->cache().table(i));
    }
    view.layers.push_back(std::move(layer));
  }
  if (caching == nullptr) return view;
  const core::SwapCounts& swaps = caching->control().swaps();
  view.swaps_useful = swaps.useful;
  view.swaps_wasted = swaps.wasted;
  view.prefilled = swaps.prefilled;
  view.slots = static_cast<std::uint64_t>(caching->cache().slots());
  view.bytes = caching->cache().bytes();
  return view;
}

std::string metrics_text(const MonitorView& view) {
  MetricsText out;
  out.one("uptime_seconds", "gauge", "Since the server began to listen.", view.uptime_seconds);
  out.one("connections", "gauge", "Open connections.", view.connections);
  write_requests(out, view.snapshot);
  write_tokens(out, view.snapshot);
  write_experts(out, view.experts);
  return out.take();
}

Json slots_json(const Snapshot& snapshot) {
  Json slots = Json::array();
  for (std::size_t i = 0; i < snapshot.slots.size(); ++i) {
    const SlotView& slot = snapshot.slots[i];
    slots.push_back({{"id", i},
                     {"phase", slot.phase},
                     {"is_processing", slot.phase != "idle"},
                     {"n_tokens", slot.tokens},
                     {"n_prompt_tokens", slot.prompt_tokens},
                     {"n_decoded", slot.generated}});
  }
  return slots;
}

Json status_json(const MonitorView& view, Engine& engine) {
  const Snapshot& snapshot = view.snapshot;
  const Counters& c = snapshot.counters;
  const model::HParams& h = engine.hparams();
  const LoadReport& report = engine.report();
  Json ended = Json::object();
  for (std::size_t i = 0; i < c.ended.size(); ++i) {
    ended[std::string(finish_name(static_cast<Finish>(i)))] = c.ended[i];
  }
  Json parts = Json::object();
  for (const runtime::Part part : kAllParts) {
    const runtime::PartStats& stats = snapshot.engine.of(part);
    parts[std::string(runtime::part_name(part))] = {{"seconds", stats.seconds},
                                                    {"bytes", stats.bytes}};
  }
  return {{"uptime_seconds", view.uptime_seconds},
          {"draining", snapshot.draining},
          {"connections", view.connections},
          {"model",
           {{"architecture", h.arch->name},
            {"layers", h.layers},
            {"experts", h.experts},
            {"experts_used", h.experts_used},
            {"context", report.context},
            {"device", report.device},
            {"isa", isa_name(report.isa)},
            {"threads", report.threads}}},
          {"memory",
           {{"on_gpu", !engine.main_device().is_host_memory()},
            {"expert_bytes", report.expert_bytes},
            {"dense_bytes", report.dense_bytes},
            {"kv_bytes_per_position", report.kv_bytes_per_position},
            {"available_bytes", available_memory_bytes()},
            {"limit_bytes", memory_limit_bytes()}}},
          {"requests",
           {{"waiting", snapshot.waiting},
            {"queue", snapshot.queue_limit},
            {"refused", c.refused},
            {"ended", std::move(ended)}}},
          {"tokens",
           {{"prompt", c.prompt_tokens},
            {"cached", c.cached_tokens},
            {"generated", c.generated_tokens},
            {"prompt_seconds", c.prompt_seconds},
            {"answer_seconds", c.answer_seconds}}},
          {"windows",
           {{"count", c.windows},
            {"slots", c.window_slots},
            {"seconds", snapshot.engine.seconds},
            {"tokens", snapshot.engine.tokens},
            {"parts", std::move(parts)}}},
          {"slots", slots_json(snapshot)},
          {"experts", experts_json(view.experts, h.experts)}};
}

}  // namespace strata::serve
