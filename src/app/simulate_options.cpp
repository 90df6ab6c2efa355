#include "src/app/simulate_options.hpp"

#include "src/app/engine_options.hpp"
#include "src/app/trace_input.hpp"
#include "strata/base/error.hpp"
#include "strata/core/trace_synthetic.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace strata::app {
namespace {

using core::PolicyKind;

// A number above 0 that is the whole text.
std::optional<double> positive(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
}

// "lru", "lfu:16".
core::PolicyOptions parse_policy(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::optional<PolicyKind> kind = core::policy_of(text.substr(0, colon));
  if (!kind || kind == PolicyKind::kOptimum) {
    fail(ErrorKind::kUsage,
         "--policy {}: there are none, fill, static, lru, lfu, lfru, mixture, default and "
         "pairs; the optimum is always shown",
         text);
  }
  core::PolicyOptions policy{.kind = *kind};
  if (colon == std::string::npos) return policy;
  const std::optional<double> half_life = positive(std::string_view(text).substr(colon + 1));
  if (kind != PolicyKind::kLfu && kind != PolicyKind::kLfru) {
    fail(ErrorKind::kUsage, "--policy {}: only lfu and lfru have a half-life", text);
  }
  if (!half_life || *half_life < 1 || *half_life > 1e6) {
    fail(ErrorKind::kUsage, "--policy {}: give a half-life of 1 to 1000000 tokens, such as lfu:32",
         text);
  }
  policy.half_life = static_cast<float>(*half_life);
  return policy;
}

// "25%" of all experts, or "16" of each layer: a share.
double parse_cache(const std::string& text, std::int32_t experts) {
  const bool percent = text.ends_with('%');
  const std::string number = percent ? text.substr(0, text.size() - 1) : text;
  const double most = percent ? 100 : experts;
  const double value = number == "0" ? 0 : positive(number).value_or(-1);
  if (value < 0 || value > most || (!percent && value != std::floor(value))) {
    fail(ErrorKind::kUsage,
         "--cache {}: give per cent of all experts, such as 25%, or experts of each layer, 0 to {}",
         text, experts);
  }
  return value / most;
}

core::QuotaKind parse_quota(const std::string& text) {
  for (const auto kind :
       {core::QuotaKind::kEqual, core::QuotaKind::kMarginal, core::QuotaKind::kFirstCome}) {
    if (core::quota_name(kind) == text) return kind;
  }
  fail(ErrorKind::kUsage, "--quota {}: there are equal, marginal and first-come", text);
}

// Texts that have nothing in common, one after the other.
core::Trace made_up_trace(const SimulateFlags& flags) {
  core::Trace trace;
  for (const std::uint64_t seed : flags.seeds) {
    append(trace, core::synthetic_trace({.tokens = flags.synthetic, .seed = seed}));
  }
  return trace;
}

core::Trace input_trace(const SimulateFlags& flags) {
  if (flags.traces.empty() == (flags.synthetic == 0)) {
    fail(ErrorKind::kUsage, "give a routing trace, or --synthetic TOKENS for a made-up one");
  }
  core::Trace trace = flags.synthetic == 0 ? read_traces(flags.traces) : made_up_trace(flags);
  if (flags.layers.empty()) return trace;
  return trace.slice(0, trace.tokens(), parse_layers(flags.layers, trace.layers()));
}

void check_model(const std::string& path, const core::ExpertGeometry& model,
                 const core::Trace& trace) {
  if (trace.layers() <= model.layers && trace.experts() <= model.experts) return;
  fail(ErrorKind::kInput,
       "{} has {} layers x {} experts: the trace, of {} x {} or more, is not its", path,
       model.layers, model.experts, trace.layers(), trace.experts());
}

}  // namespace

SimulateFlags::SimulateFlags()
    : link_gb(machine.link.link / 1e9),
      ram_gb(machine.link.slow / 1e9),
      token_ms(machine.token_seconds * 1e3) {}

void SimulateFlags::add(CLI::App& app) {
  const auto number = [&app](const char* name, auto& value, double least, const char* type,
                             const char* help) {
    return app.add_option(name, value, help)
        ->type_name(type)
        ->check(CLI::Range(least, 1e12).description(""));
  };
  app.add_option("TRACE", traces, "routing traces; several are one text after the other")
      ->type_name("");
  std::string group = "What is tried, in all combinations";
  app.add_option("--policy", policies,
                 "none, fill, static, lru, lfu:H, lfru:H, mixture, default, pairs; may be repeated")
      ->type_name("NAME")
      ->default_str("lru, lfu:32, default")
      ->group(group);
  app.add_option("--cache", caches, "25%: of all experts; 16: of each layer; may be repeated")
      ->type_name("SIZE")
      ->default_str("12.5%, 25%, 40%, 60%")
      ->group(group);
  app.add_option("--quota", quotas, "equal, marginal, first-come; may be repeated")
      ->type_name("KIND")
      ->default_str("equal")
      ->group(group);
  add_choice(app, "--admission", admission, {"passes", "instant", "both"},
             "passes: as the engine does; instant: a miss comes in at once and for free")
      ->capture_default_str()
      ->group(group);

  group = "Known beforehand";
  app.add_option("--profile", profile, "start from this expert profile")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--train", training, "start from what this trace shows; may be repeated")
      ->type_name("TRACE")
      ->excludes("--profile")
      ->group(group);
  app.add_option("--train-split", train_split,
                 "start from what this share of the text shows, count hits in the rest")
      ->type_name("X")
      ->check(CLI::Range(0.0, 1.0).description(""))
      ->excludes("--profile")
      ->excludes("--train")
      ->group(group);

  group = "Passes and copies";
  number("--adapt-every", machine.adapt_every, 1, "N", "tokens from pass to pass")
      ->capture_default_str()
      ->group(group);
  number("--adapt-swaps", machine.pass.max_swaps, 0, "N", "most copies of a pass")
      ->capture_default_str()
      ->group(group);
  number("--horizon", machine.pass.horizon, 1, "N",
         "tokens in which a swap must earn its copy; by default the policy's own")
      ->group(group);
  number("--link", link_gb, 1e-3, "GB/S", "bandwidth of copies")
      ->capture_default_str()
      ->group(group);
  number("--ram", ram_gb, 1e-3, "GB/S", "bandwidth of the CPU where experts miss")
      ->capture_default_str()
      ->group(group);
  number("--token-ms", token_ms, 1e-3, "X", "time of a token, in which copies land")
      ->capture_default_str()
      ->group(group);

  group = "Model and text";
  app.add_option("--model", model, "GGUF file: number and sizes of its experts")
      ->type_name("FILE")
      ->group(group);
  number("--experts", experts, 1, "N", "experts of a layer; by default the highest seen + 1")
      ->excludes("--model")
      ->group(group);
  number("--expert-bytes", expert_bytes, 1, "N", "bytes of an expert")
      ->default_str(std::to_string(core::kExampleBlob))
      ->excludes("--model")
      ->group(group);
  app.add_option("--layers", layers, "only these layers, such as 0,3-5")
      ->type_name("LIST")
      ->group(group);
  number("--skip", skip, 0, "N", "count hits from token N on")->capture_default_str()->group(group);
  number("--synthetic", synthetic, 1, "TOKENS",
         "a made-up trace of 48 layers x 512 experts, 10 a token")
      ->group(group);
  app.add_option("--seed", seeds,
                 "of the made-up trace; repeated: unrelated texts after each other")
      ->type_name("N")
      ->expected(1, 1'000)
      ->default_str("1")
      ->group(group);

  group = "What to print";
  app.add_flag("--per-layer", per_layer, "slots and hit rate of each layer too")->group(group);
  number("--over-time", over_time, 1, "N", "instead: the hit rate of every N tokens")->group(group);
  number("--period", period, 1, "N", "with --over-time: the mean of all stretches of N tokens")
      ->group(group);
  app.add_option("--plot", plot, "draw it as an SVG file")->type_name("FILE")->group(group);
  app.add_flag("--json", json, "as one JSON object")->group(group);
}

SimulateInput::SimulateInput(const SimulateFlags& flags) : trace(input_trace(flags)) {
  core::SimulationOptions& common = grid.common;
  common = flags.machine;
  common.link.link = flags.link_gb * 1e9;
  common.link.slow = flags.ram_gb * 1e9;
  if (common.link.slow >= common.link.fast) {
    fail(ErrorKind::kUsage, "--ram {}: the fast memory is taken to have {:g} GB/s, give less",
         flags.ram_gb, common.link.fast / 1e9);
  }
  common.pass.swap_cost = common.link.swap_cost();
  common.token_seconds = flags.token_ms / 1e3;
  common.first_token = flags.skip;
  common.experts = flags.experts;
  if (flags.synthetic != 0 && common.experts == 0) common.experts = 512;
  if (flags.expert_bytes != 0) {
    common.blob_bytes.assign(static_cast<std::size_t>(trace.layers()), flags.expert_bytes);
  }
  std::optional<core::ExpertGeometry> geometry;
  if (!flags.model.empty()) {
    const ModelExperts model = read_experts(flags.model);
    geometry = model.geometry;
    check_model(flags.model, *geometry, trace);
    common.experts = geometry->experts;
    common.blob_bytes = model.bytes;
    common.blob_bytes.resize(static_cast<std::size_t>(trace.layers()));
  }
  if (!flags.profile.empty()) {
    profile = core::read_profile(flags.profile, geometry);
    check_model(flags.profile, profile->geometry, trace);
    if (common.experts == 0) common.experts = profile->geometry.experts;
    common.profile = &*profile;
  }
  if (common.experts == 0) common.experts = trace.experts();
  if (!flags.training.empty()) training = read_traces(flags.training);
  if (flags.train_split > 0) {
    const auto split = static_cast<std::int64_t>(
        std::llround(flags.train_split * static_cast<double>(trace.tokens())));
    if (split < 1 || split >= trace.tokens()) {
      fail(ErrorKind::kUsage, "--train-split {}: leaves nothing of {} tokens on one side",
           flags.train_split, trace.tokens());
    }
    training = trace.slice(0, split);
    trace = trace.slice(split, trace.tokens());
  }
  if (training) common.training = &*training;

  const auto all_of = [](const std::vector<std::string>& given,
                         const std::vector<std::string>& otherwise) {
    return given.empty() ? otherwise : given;
  };
  for (const auto& text : all_of(flags.policies, {"lru", "lfu:32", "default"})) {
    grid.policies.push_back(parse_policy(text));
  }
  for (const auto& text : all_of(flags.caches, {"12.5%", "25%", "40%", "60%"})) {
    grid.capacities.push_back(parse_cache(text, common.experts));
  }
  grid.quotas.clear();
  for (const auto& text : all_of(flags.quotas, {"equal"})) {
    grid.quotas.push_back(parse_quota(text));
  }
  if (flags.admission != "instant") admissions.push_back(false);
  if (flags.admission != "passes") admissions.push_back(true);
}

}  // namespace strata::app
