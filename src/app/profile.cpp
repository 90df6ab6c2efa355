// strata profile: routing traces to an expert profile, or what a profile holds.
#include "strata/core/profile.hpp"
#include "src/app/command.hpp"
#include "src/app/report.hpp"
#include "src/app/trace_input.hpp"
#include "strata/base/error.hpp"
#include "strata/core/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace strata::app {
namespace {

using nlohmann::ordered_json;

constexpr const char* kProfileExamples = R"(
Examples:
  strata profile story.trace code.trace -o model.strp
  strata profile chat.trace -o model.strp --model model.gguf
  strata profile chat.trace                          only what the trace holds
  strata profile --show model.strp                   what a profile holds

strata run --dump-routing writes traces. Several are added up: a use counts the same in each. The
experts used most come first; a layer without a record has no experts and stays out. Without
--model or --layers and --experts the model is as large as the traces show: its last experts may be
missing then, so that the model refuses the profile.

The table says which share of a layer's choices its hottest experts have: what a cache that holds
them and never changes would hit, on the same text.)";

struct ProfileOptions {
  std::vector<std::string> traces;
  std::string output, model, show;
  std::int32_t layers = 0, experts = 0;  // 0: not said
  std::uint32_t slots = 0;
  bool json = false;
};

constexpr double kShares[] = {0.0625, 0.125, 0.25, 0.5};

// Choices of one or more traces.
struct Uses {
  std::vector<std::vector<double>> counts;  // [layers][experts], each as long as it was seen
  std::int64_t tokens = 0;
  std::int64_t choices = 0;
  core::ExpertGeometry geometry;  // seen, or as said
};

void add_trace(const std::string& path, Uses& uses) {
  core::TraceReader reader(path);
  core::RoutingEvent event;
  std::int64_t tokens = 0;
  while (reader.next(event)) {
    const auto layer = static_cast<std::size_t>(event.layer);
    if (layer >= uses.counts.size()) uses.counts.resize(layer + 1);
    for (const std::int32_t expert : event.experts) {
      std::vector<double>& row = uses.counts[layer];
      if (static_cast<std::size_t>(expert) >= row.size()) {
        row.resize(static_cast<std::size_t>(expert) + 1);
      }
      row[static_cast<std::size_t>(expert)] += 1;
      ++uses.choices;
    }
    tokens = event.token + 1;
  }
  if (tokens == 0) fail(ErrorKind::kInput, "{}: a trace without a record", path);
  uses.tokens += tokens;
}

// What the flags say of the model, 0 for what they do not.
core::ExpertGeometry said_geometry(const ProfileOptions& options) {
  if (options.model.empty()) return {options.layers, options.experts};
  const core::ExpertGeometry model = read_experts(options.model).geometry;
  if ((options.layers != 0 && options.layers != model.layers) ||
      (options.experts != 0 && options.experts != model.experts)) {
    fail(ErrorKind::kUsage, "{} has {} layers x {} experts: --layers and --experts say otherwise",
         options.model, model.layers, model.experts);
  }
  return model;
}

Uses read_uses(const ProfileOptions& options) {
  const core::ExpertGeometry said = said_geometry(options);
  Uses uses;
  for (const std::string& path : options.traces) {
    add_trace(path, uses);
    core::ExpertGeometry& seen = uses.geometry;
    seen.layers = static_cast<std::int32_t>(uses.counts.size());
    for (const auto& row : uses.counts) {
      seen.experts = std::max(seen.experts, static_cast<std::int32_t>(row.size()));
    }
    if ((said.layers != 0 && seen.layers > said.layers) ||
        (said.experts != 0 && seen.experts > said.experts)) {
      fail(ErrorKind::kInput, "{}: uses expert {} of layer {} or higher; {} has {} layers x {}",
           path, seen.experts - 1, seen.layers - 1,
           options.model.empty() ? "the model as said" : options.model, said.layers, said.experts);
    }
  }
  if (said.layers != 0) uses.geometry.layers = said.layers;
  if (said.experts != 0) uses.geometry.experts = said.experts;
  uses.counts.resize(static_cast<std::size_t>(uses.geometry.layers));
  for (auto& row : uses.counts) row.resize(static_cast<std::size_t>(uses.geometry.experts));
  return uses;
}

core::Profile profile_of(const Uses& uses, std::uint32_t slots) {
  std::vector<double> flat;
  flat.reserve(uses.geometry.pairs());
  for (const auto& row : uses.counts) flat.insert(flat.end(), row.begin(), row.end());
  return core::profile_from_counts(flat, uses.geometry, slots);
}

// A layer's share of choices that go to the hottest `share` of its experts.
double coverage(std::vector<double> row, double share) {
  const double all = std::accumulate(row.begin(), row.end(), 0.0);
  const auto hottest =
      static_cast<std::ptrdiff_t>(std::max(1.0, share * static_cast<double>(row.size()) + 0.5));
  std::nth_element(row.begin(), row.begin() + hottest - 1, row.end(), std::greater<>());
  return all == 0 ? 0 : std::accumulate(row.begin(), row.begin() + hottest, 0.0) / all;
}

struct LayerUses {
  std::size_t layer;
  double choices;
  std::int64_t used;            // experts
  std::vector<double> covered;  // [kShares]
};

std::vector<LayerUses> layers_of(const Uses& uses) {
  std::vector<LayerUses> layers;
  for (std::size_t l = 0; l < uses.counts.size(); ++l) {
    const std::vector<double>& row = uses.counts[l];
    const double choices = std::accumulate(row.begin(), row.end(), 0.0);
    if (choices == 0) continue;
    const auto used = std::count_if(row.begin(), row.end(), [](double c) { return c > 0; });
    LayerUses& layer = layers.emplace_back(LayerUses{l, choices, used, {}});
    for (const double share : kShares) layer.covered.push_back(coverage(row, share));
  }
  return layers;
}

std::string describe_uses(const Uses& uses, std::size_t traces) {
  std::string text =
      fmt::format("traces     {}, {} tokens, {} choices\nexperts    {} layers x {}\n\n", traces,
                  uses.tokens, uses.choices, uses.geometry.layers, uses.geometry.experts);
  text += fmt::format("{:<6} {:>10} {:>7}   share of the choices that the hottest have\n", "layer",
                      "choices", "used");
  text += fmt::format("{:>24}", "");
  for (const double share : kShares)
    text += fmt::format(" {:>8}", fmt::format("{:g} %", 100 * share));
  text += '\n';
  for (const LayerUses& layer : layers_of(uses)) {
    text += fmt::format("{:<6} {:>10.0f} {:>6}", layer.layer, layer.choices, layer.used);
    for (const double covered : layer.covered) text += fmt::format(" {:>6.1f} %", 100 * covered);
    text += '\n';
  }
  return text;
}

ordered_json to_json(const Uses& uses, std::size_t traces) {
  ordered_json json = {{"traces", traces},
                       {"tokens", uses.tokens},
                       {"choices", uses.choices},
                       {"layers", uses.geometry.layers},
                       {"experts", uses.geometry.experts},
                       {"shares", kShares},
                       {"by_layer", ordered_json::array()}};
  for (const LayerUses& layer : layers_of(uses)) {
    json["by_layer"].push_back({{"layer", layer.layer},
                                {"choices", layer.choices},
                                {"used", layer.used},
                                {"covered", layer.covered}});
  }
  return json;
}

ordered_json to_json(const core::Profile& profile, const std::string& path) {
  ordered_json json = {{"profile", path},
                       {"layers", profile.geometry.layers},
                       {"experts", profile.geometry.experts},
                       {"slots", profile.slots},
                       {"ranked", profile.ranked.size()},
                       {"hottest", ordered_json::array()}};
  for (std::size_t i = 0; i < std::min<std::size_t>(profile.ranked.size(), 16); ++i) {
    json["hottest"].push_back({profile.ranked[i].layer, profile.ranked[i].expert});
  }
  return json;
}

std::string describe_profile(const core::Profile& profile, const std::string& path) {
  std::string text =
      fmt::format("profile    {}, {} layers x {} experts, {} ranked", path, profile.geometry.layers,
                  profile.geometry.experts, profile.ranked.size());
  text += profile.slots == 0 ? "\n" : fmt::format(", made for {} slots\n", profile.slots);
  text += "hottest   ";
  for (std::size_t i = 0; i < std::min<std::size_t>(profile.ranked.size(), 12); ++i) {
    text += fmt::format(" {}.{}", profile.ranked[i].layer, profile.ranked[i].expert);
  }
  return text + "   layer.expert\n";
}

void show(const ProfileOptions& options, const std::string& path, Console& console) {
  std::optional<core::ExpertGeometry> model;
  if (!options.model.empty()) model = read_experts(options.model).geometry;
  const core::Profile profile = core::read_profile(path, model);
  console.out.write(options.json ? json_line(to_json(profile, path))
                                 : describe_profile(profile, path));
}

int run(const ProfileOptions& options, Console& console) {
  if (!options.show.empty()) {
    show(options, options.show, console);
    return 0;
  }
  if (options.traces.empty()) fail(ErrorKind::kUsage, "no trace given, nor --show PROFILE");
  const Uses uses = read_uses(options);
  const core::Profile profile = profile_of(uses, options.slots);
  if (!options.output.empty()) core::write_profile(options.output, profile);
  if (options.json) {
    ordered_json json = to_json(uses, options.traces.size());
    if (!options.output.empty()) json.update(to_json(profile, options.output));
    console.out.write(json_line(json));
    return 0;
  }
  if (!options.output.empty()) console.out.write(describe_profile(profile, options.output));
  console.out.write(describe_uses(uses, options.traces.size()));
  return 0;
}

}  // namespace

Command add_profile(CLI::App& program) {
  CLI::App* app = program.add_subcommand("profile", "Makes an expert profile from routing traces.");
  app->footer(kProfileExamples);
  const auto o = std::make_shared<ProfileOptions>();
  app->add_option("TRACE", o->traces, "routing traces, as strata run --dump-routing writes them")
      ->type_name("");
  std::string group = "Profile";
  app->add_option("-o,--output", o->output, "write the profile here")
      ->type_name("FILE")
      ->group(group);
  app->add_option("--model", o->model, "GGUF file that the traces are of")
      ->type_name("FILE")
      ->group(group);
  app->add_option("--layers", o->layers, "layers of the model, where --model is not given")
      ->type_name("N")
      ->check(CLI::Range(1, core::kMaxTraceLayers).description(""))
      ->group(group);
  app->add_option("--experts", o->experts, "experts of a layer, where --model is not given")
      ->type_name("N")
      ->check(CLI::Range(1, core::kMaxTraceExperts).description(""))
      ->group(group);
  app->add_option("--slots", o->slots, "the size of cache it is meant for: only noted in the file")
      ->type_name("N")
      ->group(group);
  group = "What to print";
  app->add_option("--show", o->show, "a profile: what it holds")
      ->type_name("PROFILE")
      ->excludes("TRACE")
      ->excludes("--output")
      ->group(group);
  app->add_flag("--json", o->json, "all of it as one JSON object")->group(group);
  return {app, [o](Console& console) { return run(*o, console); }};
}

}  // namespace strata::app
