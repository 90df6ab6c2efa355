#include "src/app/report.hpp"

#include "src/app/cache_report.hpp"
#include "src/app/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace strata::app {
namespace {

constexpr std::array kAllParts = {runtime::Part::kDense, runtime::Part::kAttention,
                                  runtime::Part::kExperts, runtime::Part::kHead,
                                  runtime::Part::kOther};
static_assert(kAllParts.size() == runtime::kParts);

double per(double value, double divisor) { return divisor > 0 ? value / divisor : 0; }

// Lines of what not every run has.
std::string extras(const Engine& engine) {
  const LoadReport& report = engine.report();
  std::string text = describe_cache(engine);
  if (!report.replay.empty()) {
    text += fmt::format(
        "{}routing  replayed from {}, {} tokens, then from its start again; the router is not "
        "asked",
        text.empty() ? "" : "\n", report.replay.string(), report.replay_tokens);
  }
  return text;
}

}  // namespace

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

double Phase::tokens_per_second() const noexcept {
  return per(static_cast<double>(tokens), seconds);
}
double Phase::bytes_per_token() const noexcept {
  return per(static_cast<double>(stats.bytes()), static_cast<double>(tokens));
}
double Phase::bytes_per_second() const noexcept {
  return per(static_cast<double>(stats.bytes()), seconds);
}

Phase& Phase::operator+=(const Phase& other) noexcept {
  tokens += other.tokens;
  seconds += other.seconds;
  for (std::size_t i = 0; i < runtime::kParts; ++i) {
    stats.parts[i].seconds += other.stats.parts[i].seconds;
    stats.parts[i].bytes += other.stats.parts[i].bytes;
  }
  stats.windows += other.stats.windows;
  stats.tokens += other.stats.tokens;
  stats.seconds += other.stats.seconds;
  return *this;
}

std::string format_bytes(double bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 || bytes >= 99.95 ? 0 : 1, kUnits[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds < 0.001) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.1) return fmt::format("{:.2f} ms", seconds * 1e3);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string describe_isa(const LoadReport& report) {
  std::string text(isa_name(report.isa));
  std::string unusable;
  bool better_runs = false;
  for (const IsaSupport& support : report.isas) {
    if (support.isa <= report.isa) continue;
    better_runs |= support.usable;
    if (!support.usable) {
      unusable += fmt::format("{}{}: {}", unusable.empty() ? "" : "; ", isa_name(support.isa),
                              support.reason);
    }
  }
  if (better_runs) return text + " (as asked for)";
  return unusable.empty() ? text : fmt::format("{} ({})", text, unusable);
}

std::string describe_device(const LoadReport& report) {
  return report.no_gpu.empty()
             ? report.device
             : fmt::format("{}\n         no GPU: {}", report.device, report.no_gpu);
}

std::string describe_experts(const LoadReport& report) {
  const std::string bytes = format_bytes(static_cast<double>(report.expert_bytes));
  if (!report.expert_folder.empty())
    return fmt::format("{} on disk in {}", bytes, report.expert_folder.string());
  if (!report.not_pinned.empty())
    return fmt::format("{}, not pinned, so that copies to the GPU are slower ({})", bytes,
                       report.not_pinned);
  return bytes;
}

std::string start_report(const Engine& engine) {
  const std::string extra = extras(engine);
  const LoadReport& report = engine.report();
  const model::HParams& h = engine.hparams();
  return fmt::format(
      "model    {}: {}, {} layers, {} experts of which {} work on a token; loaded in {}\n"
      "device   {}\n"
      "isa      {}\n"
      "threads  {} on {} core{}\n"
      "memory   experts {}, dense {}, KV cache {} for each of {} positions{}{}",
      h.name, h.arch->name, h.layers, h.experts, h.experts_used, format_seconds(report.seconds),
      describe_device(report), describe_isa(report), report.threads, report.physical_cores,
      report.physical_cores == 1 ? "" : "s", describe_experts(report),
      format_bytes(static_cast<double>(report.dense_bytes)),
      format_bytes(static_cast<double>(report.kv_bytes_per_position)), report.context,
      extra.empty() ? "" : "\n", extra);
}

nlohmann::ordered_json load_json(const Engine& engine) {
  const LoadReport& report = engine.report();
  const model::HParams& h = engine.hparams();
  nlohmann::ordered_json isas;
  for (const IsaSupport& support : report.isas) {
    isas[std::string(isa_name(support.isa))] = support.usable ? "usable" : support.reason;
  }
  return {{"version", version()},
          {"commit", commit()},
          {"model", h.name},
          {"architecture", h.arch->name},
          {"device", report.device},
          {"no_gpu", report.no_gpu},
          {"not_pinned", report.not_pinned},
          {"isa", isa_name(report.isa)},
          {"isas", isas},
          {"threads", report.threads},
          {"physical_cores", report.physical_cores},
          {"context", report.context},
          {"bytes",
           {{"experts", report.expert_bytes},
            {"dense", report.dense_bytes},
            {"kv_per_position", report.kv_bytes_per_position}}},
          {"replayed_tokens", report.replay_tokens},
          {"seconds", report.seconds}};
}

std::string parts_of_token(const Phase& phase) {
  std::array<runtime::Part, runtime::kParts> order = kAllParts;
  std::ranges::sort(order, std::greater<>(),
                    [&](runtime::Part part) { return phase.stats.of(part).seconds; });
  std::string text;
  for (const runtime::Part part : order) {
    const runtime::PartStats& stats = phase.stats.of(part);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", runtime::part_name(part),
                        format_seconds(per(stats.seconds, static_cast<double>(phase.tokens))));
    if (stats.bytes > 0) {
      text +=
          fmt::format(" {:.1f} GB/s", per(static_cast<double>(stats.bytes), stats.seconds) / 1e9);
    }
  }
  return text;
}

nlohmann::ordered_json parts_json(const Phase& phase) {
  const auto tokens = static_cast<double>(phase.tokens);
  nlohmann::ordered_json json;
  for (const runtime::Part part : kAllParts) {
    const runtime::PartStats& stats = phase.stats.of(part);
    const auto bytes = static_cast<double>(stats.bytes);
    json[std::string(runtime::part_name(part))] = {{"ms", per(stats.seconds, tokens) * 1e3},
                                                   {"bytes", per(bytes, tokens)},
                                                   {"gb_per_s", per(bytes, stats.seconds) / 1e9}};
  }
  return json;
}

std::string share_of_peak(const Phase& phase, double peak) {
  return fmt::format("{:.1f} GB/s, {:.0f} % of the memory's {:.1f} GB/s",
                     phase.bytes_per_second() / 1e9, 100 * per(phase.bytes_per_second(), peak),
                     peak / 1e9);
}

}  // namespace strata::app
