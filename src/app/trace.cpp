// strata trace: makes up a routing trace for a model of any size.
#include "strata/core/trace.hpp"
#include "src/app/command.hpp"
#include "strata/base/error.hpp"
#include "strata/core/trace_synthetic.hpp"
#include "strata/gguf/file.hpp"
#include "strata/model/hparams.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>

namespace strata::app {
namespace {

constexpr const char* kTraceExamples = R"(
Examples:
  strata trace text.trace --layers 48 --experts 512 --used 10 --tokens 4000
  strata trace text.trace --model model.gguf
  strata bench model.gguf --replay-routing text.trace

The choices follow the law that docs/cache-policies.md has: some experts are popular, topics come
and go, and neighbours resemble each other. A recorded trace of the model's own text, from strata
run --dump-routing, is better wherever its weights are real.)";

struct TraceOptions {
  std::string output, model;
  core::SyntheticOptions trace;
};

core::SyntheticOptions options_of(const TraceOptions& flags) {
  core::SyntheticOptions options = flags.trace;
  if (!flags.model.empty()) {
    const model::HParams h = model::read_hparams(gguf::File::open(flags.model));
    options.layers = h.layers;
    options.experts = h.experts;
    options.used = h.experts_used;
  }
  if (options.used > options.experts) {
    fail(ErrorKind::kUsage, "--used {}: there are only {} experts", options.used, options.experts);
  }
  return core::scaled_to_experts(options);
}

int run(const TraceOptions& flags, Console& console) {
  const core::SyntheticOptions options = options_of(flags);
  core::TraceWriter writer(flags.output);
  core::make_synthetic_trace(options, [&](const core::RoutingEvent& event) {
    writer.append(event.layer, event.experts, event.weights);
  });
  writer.close();
  console.out.print("{}: {} tokens, {} layers x {} experts, {} a token and layer\n", flags.output,
                    options.tokens, options.layers, options.experts, options.used);
  return 0;
}

}  // namespace

Command add_trace(CLI::App& program) {
  CLI::App* app = program.add_subcommand("trace", "Makes up a routing trace, to be replayed.");
  app->footer(kTraceExamples);
  const auto o = std::make_shared<TraceOptions>();
  app->add_option("OUTPUT", o->output, "the trace; what was there is replaced")
      ->required()
      ->type_name("");
  const auto number = [&](const char* name, auto& value, std::int64_t most, const char* help) {
    return app->add_option(name, value, help)
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, most).description(""))
        ->capture_default_str();
  };
  CLI::Option* model = app->add_option("--model", o->model, "GGUF file: as many layers and experts")
                           ->type_name("FILE");
  number("--layers", o->trace.layers, core::kMaxTraceLayers, "layers that have experts")
      ->excludes(model);
  number("--experts", o->trace.experts, core::kMaxTraceExperts, "experts of a layer")
      ->excludes(model);
  number("--used", o->trace.used, core::kMaxTraceUsed, "experts that a token uses in a layer")
      ->excludes(model);
  number("--tokens", o->trace.tokens, std::int64_t{1} << 32, "length");
  app->add_option("--seed", o->trace.seed, "another seed, another text")
      ->type_name("N")
      ->capture_default_str();
  return {app, [o](Console& console) { return run(*o, console); }};
}

}  // namespace strata::app
