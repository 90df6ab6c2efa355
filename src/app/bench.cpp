// strata bench: tokens a second for prompts and single tokens, and what share of the memory's
// bandwidth that is. docs/benchmarks.md has the method.
#include "src/app/bench_parity.hpp"
#include "src/app/cache_report.hpp"
#include "src/app/command.hpp"
#include "src/app/engine_options.hpp"
#include "src/app/report.hpp"
#include "src/app/status_line.hpp"
#include "src/app/version.hpp"
#include "strata/base/clock.hpp"
#include "strata/base/cpu_topology.hpp"
#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace strata::app {
namespace {

constexpr const char* kBenchExamples = R"(
Examples:
  strata bench model.gguf                            pp512 and tg32
  strata bench -m model.gguf -p 128 -p 2048 -n 0 -r 7
  strata bench -m model.gguf -p 512 -n 64 -t 2 --json result.json

ppN reads a prompt of N random tokens from an empty context; tgN computes N tokens one after the
other, from an empty context too. Each test runs once untimed, then -r times; the table has the
median, the smallest and the largest. The read bandwidth of the memory is measured before, between
and after the tests, with the same threads.)";

struct BenchOptions {
  EngineFlags engine;
  std::string model_flag, model;
  std::vector<int> prompts, generations;
  int repetitions = 5;
  std::string json;
  bool quiet = false;
  CLI::Option* model_option = nullptr;
};

struct Test {
  int tokens;
  bool prompt;                  // all at once; otherwise one by one
  std::vector<double> samples;  // tokens/s
  Phase total;                  // of all timed repetitions

  [[nodiscard]] std::string name() const {
    return fmt::format("{}{}", prompt ? "pp" : "tg", tokens);
  }
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<Test> tests_of(const BenchOptions& options) {
  std::vector<Test> tests;
  const auto add = [&](const std::vector<int>& lengths, bool prompt) {
    for (const int tokens : lengths) {
      if (tokens > 0) tests.push_back({tokens, prompt, {}, {}});  // 0: the test is not wanted
    }
  };
  add(options.prompts.empty() ? std::vector{512} : options.prompts, true);
  add(options.generations.empty() ? std::vector{32} : options.generations, false);
  if (tests.empty()) fail(ErrorKind::kUsage, "nothing to measure: every -p and -n is 0");
  return tests;
}

class Bench {
 public:
  Bench(Engine& engine, int repetitions) : engine_(engine), repetitions_(repetitions) {}

  // Runs a test once untimed, then the repetitions.
  void measure(Test& test, StatusLine& status) {
    bandwidths_.push_back(engine_.measure_read_bandwidth());
    const std::unique_ptr<Session> session = engine_.new_session();
    for (int run = 0; run <= repetitions_; ++run) {
      status.show(test.name(), static_cast<double>(run) / (repetitions_ + 1));
      const Phase phase = once(test, *session);
      if (run == 0) continue;
      test.samples.push_back(phase.tokens_per_second());
      test.total += phase;
    }
    status.clear();
  }
  void finish() { bandwidths_.push_back(engine_.measure_read_bandwidth()); }

  [[nodiscard]] const std::vector<double>& bandwidths() const { return bandwidths_; }

 private:
  Phase once(const Test& test, Session& session) {
    session.truncate(0);
    session.set_replay_start(replayed_);  // a replayed text goes on from run to run
    replayed_ += test.tokens;
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(test.tokens));
    std::uniform_int_distribution<std::int32_t> any(
        0, static_cast<std::int32_t>(engine_.hparams().vocab) - 1);
    std::ranges::generate(tokens, [&] { return any(random_); });
    const runtime::Stats before = engine_.stats();
    const Stopwatch watch;
    if (test.prompt) {
      session.feed(tokens);
    } else {
      for (const std::int32_t token : tokens) session.feed({&token, 1});
    }
    return {tokens.size(), watch.seconds(), engine_.stats() - before};
  }

  Engine& engine_;
  int repetitions_;
  std::int64_t replayed_ = 0;
  std::mt19937_64 random_{1};  // the same tokens in every run of the program
  std::vector<double> bandwidths_;
};

struct Machine {
  std::string cpu;
  std::vector<double> bandwidths;  // bytes a second, in order
  [[nodiscard]] double peak() const { return median(bandwidths); }
};

nlohmann::ordered_json to_json(const BenchOptions& options, const Engine& engine, const Test& test,
                               const Machine& machine) {
  std::vector<double> gb;
  for (const double b : machine.bandwidths) gb.push_back(b / 1e9);
  const LoadReport& report = engine.report();
  const auto [low, high] = std::ranges::minmax(test.samples);
  return {{"model", engine.hparams().name},
          {"file", options.model},
          {"test", test.name()},
          {"n_prompt", test.prompt ? test.tokens : 0},
          {"n_gen", test.prompt ? 0 : test.tokens},
          {"threads", report.threads},
          {"isa", isa_name(report.isa)},
          {"activations", options.engine.activations()},
          {"window", engine.max_window()},
          {"samples_tok_s", test.samples},
          {"median_tok_s", median(test.samples)},
          {"min_tok_s", low},
          {"max_tok_s", high},
          {"read_bandwidth_gb_s", machine.peak() / 1e9},
          {"read_bandwidth_samples_gb_s", gb},
          {"bytes_per_token", test.total.bytes_per_token()},
          {"gb_per_s", test.total.bytes_per_second() / 1e9},
          {"share_of_peak", test.total.bytes_per_second() / machine.peak()},
          {"parts", parts_json(test.total)},
          {"replayed_tokens", report.replay_tokens},
          {"cache", cache_json(engine)},
          {"load_seconds", report.seconds},
          {"device", report.device},
          {"cpu", machine.cpu},
          {"version", version()},
          {"commit", commit()}};
}

void print_table(Console& console, const std::vector<Test>& tests, const Machine& machine) {
  console.out.print("{:<8} {:>10} {:>10} {:>10} {:>12} {:>8} {:>8}\n", "test", "tokens/s", "min",
                    "max", "MB a token", "GB/s", "of peak");
  for (const Test& test : tests) {
    const auto [low, high] = std::ranges::minmax(test.samples);
    console.out.print("{:<8} {:>10.2f} {:>10.2f} {:>10.2f} {:>12.2f} {:>8.2f} {:>6.1f} %\n",
                      test.name(), median(test.samples), low, high,
                      test.total.bytes_per_token() / 1e6, test.total.bytes_per_second() / 1e9,
                      100 * test.total.bytes_per_second() / machine.peak());
  }
  for (const Test& test : tests) {
    console.out.print("\n{}, a token: {}", test.name(), parts_of_token(test.total));
  }
  std::string bandwidths;
  for (const double b : machine.bandwidths) bandwidths += fmt::format(" {:.2f}", b / 1e9);
  console.out.print("\n\npeak: reads of {:.2f} GB/s, the median of{}\n", machine.peak() / 1e9,
                    bandwidths);
}

void publish(const BenchOptions& options, Console& console, const Engine& engine,
             const std::vector<Test>& tests, const Machine& machine) {
  if (options.json != "-") {
    print_table(console, tests, machine);
    if (const std::string cache = cache_summary(engine); !cache.empty())
      console.out.print("\n{}\n", cache);
  }
  if (options.json.empty()) return;
  console.out.flush();  // the table is safe whatever becomes of the file
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Test& test : tests) json.push_back(to_json(options, engine, test, machine));
  const std::string text =
      json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  if (options.json == "-") {
    console.out.write(text);
  } else {
    write_atomically(options.json, text);
  }
}

int run(BenchOptions& options, Console& console) {
  std::vector<Test> tests = tests_of(options);
  EngineOptions engine_options = options.engine.options();
  engine_options.model = options.model;
  engine_options.context = std::ranges::max(tests, {}, &Test::tokens).tokens;
  // Before the engine pins this thread to one processor.
  Machine machine{detect_topology().model_name, {}};
  const std::unique_ptr<Engine> engine = load_engine(console, engine_options, options.quiet);
  if (!options.quiet) console.note(start_report(*engine) + "\n");
  Bench bench(*engine, options.repetitions);
  StatusLine status(console.error_is_terminal && !options.quiet);
  for (Test& test : tests) bench.measure(test, status);
  bench.finish();
  machine.bandwidths = bench.bandwidths();
  publish(options, console, *engine, tests, machine);
  engine->finish();
  return 0;
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "Measures speed.");
  app->footer(kBenchExamples);
  const auto o = std::make_shared<BenchOptions>();
  CLI::Option* positional =
      app->add_option("MODEL", o->model, "GGUF file, or the first shard of a split one")
          ->type_name("");
  const std::string group = "Tests";
  CLI::Option* flag = app->add_option("-m,--model", o->model_flag, "the same as MODEL")
                          ->type_name("FILE")
                          ->excludes(positional)
                          ->group(group);
  const auto lengths = [&](const std::string& names, std::vector<int>& value,
                           const std::string& help) {
    app->add_option(names, value, help)
        ->type_name("N")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(0, 1 << 28).description(""))
        ->group(group);
  };
  lengths("-p,--prompt", o->prompts, "length of a prompt; may be repeated; 0: none (512)");
  lengths("-n,--generate", o->generations, "single tokens; may be repeated; 0: none (32)");
  app->add_option("-r,--repetitions", o->repetitions, "timed runs of each test")
      ->type_name("N")
      ->check(CLI::Range(1, 100000).description(""))
      ->capture_default_str()
      ->group(group);
  app->add_option("--json", o->json, "write the results as JSON; -: to standard output, alone")
      ->type_name("FILE")
      ->group(group);
  app->add_flag("-q,--quiet", o->quiet, "no report, no progress")->group(group);
  o->engine.add(*app, EngineFlags::Context::kNone);
  const Subcommand parity = add_bench_parity(*app);
  return {app, [o, flag, parity](Console& console) {
            if (parity.options->parsed()) return parity.run(console);
            if (flag->count() > 0) o->model = o->model_flag;
            if (o->model.empty()) fail(ErrorKind::kUsage, "which model? bench MODEL or -m MODEL");
            return run(*o, console);
          }};
}

}  // namespace strata::app
