#include "src/app/bench_parity.hpp"

#include "src/app/cache_report.hpp"
#include "src/app/engine_options.hpp"
#include "src/app/report.hpp"
#include "src/app/status_line.hpp"
#include "src/app/version.hpp"
#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"
#include "strata/runtime/expert_caching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace strata::app {
namespace {

constexpr const char* kParityExamples = R"(
Examples:
  strata bench parity model.gguf
  strata bench parity model.gguf --cache 25%,96 --policy default --adapt 1 --thread-counts 1,2
  strata bench parity model.gguf -n 200 --link-speed 1GB --json parity.json

A text of -n tokens is written by the model itself with the cache off and read again with it on,
once for every combination of the lists: first as a prompt, then in windows of 8, 5, 3 and 2 tokens,
then token by token. Every logit of every token is compared with the cache off, bit by bit; the exit
code is 1 if a single bit differs. "off" and "on" are tokens a second of the last part with as many
threads; the accelerator is played by --accelerator-threads more.)";

struct ParityOptions {
  std::string model;
  EngineFlags engine;
  std::vector<std::string> sizes = {"0", "1", "12.5%", "25%", "41%", "59%", "100%"};
  std::vector<std::string> policies = {"default", "lru"};
  std::vector<int> adapt = {1, 16};
  std::vector<int> threads = {1, 2, 8};
  int tokens = 96;
  std::string json;
  bool quiet = false;
};

// One combination, and what came of it.
struct Row {
  std::string size, policy;
  int adapt;
  int threads;
  std::uint64_t compared = 0;   // logits
  std::uint64_t differing = 0;  // of them, in at least one bit
  double hit_rate = 0;
  std::uint64_t copies = 0;
  double off = 0, on = 0;  // tokens/s
};

// The logits of every token of a text, and the speed of its single tokens.
struct Reading {
  std::vector<float> logits;  // [tokens][vocab]
  double tokens_per_second = 0;
};

std::uint64_t slots_of(const std::string& size, std::uint64_t all) {
  double number = 0;
  const auto [end, error] = std::from_chars(size.data(), size.data() + size.size(), number);
  const std::string_view unit(end, size.data() + size.size());
  if (error != std::errc() || !(number >= 0) || !(unit.empty() || unit == "%")) {
    fail(ErrorKind::kUsage, "--cache {}: give a number of experts, or a share such as 25%", size);
  }
  const double slots = unit.empty() ? number : std::round(static_cast<double>(all) * number / 100);
  if (slots > static_cast<double>(all)) {
    fail(ErrorKind::kUsage, "--cache {}: the model has {} experts", size, all);
  }
  return static_cast<std::uint64_t>(slots);
}

// A prompt of random tokens and what the model makes of it.
std::vector<std::int32_t> write_text(Engine& engine, int tokens) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::int32_t> any(
      0, static_cast<std::int32_t>(engine.hparams().vocab) - 1);
  std::vector<std::int32_t> text(static_cast<std::size_t>(tokens) / 3 + 1);
  std::ranges::generate(text, [&] { return any(random); });
  const std::unique_ptr<Session> session = engine.new_session();
  session->feed(text);
  while (text.size() < static_cast<std::size_t>(tokens)) {
    const auto logits = session->logits();
    text.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
    session->feed({&text.back(), 1});
  }
  return text;
}

Reading read_text(Engine& engine, std::span<const std::int32_t> text) {
  const std::unique_ptr<Session> session = engine.new_session();
  Reading reading;
  const auto keep = [&](std::size_t, std::span<const float> row) {
    reading.logits.insert(reading.logits.end(), row.begin(), row.end());
  };
  std::size_t done = 0;
  for (const std::size_t window :
       {text.size() / 3, std::size_t{8}, std::size_t{5}, std::size_t{3}, std::size_t{2}}) {
    session->score(text.subspan(done, window), keep);
    done += window;
  }
  const Stopwatch watch;
  const auto singles = static_cast<double>(text.size() - done);
  for (; done < text.size(); ++done) {
    session->feed(text.subspan(done, 1));
    keep(done, session->logits());
  }
  reading.tokens_per_second = singles / watch.seconds();
  return reading;
}

std::uint64_t differing(std::span<const float> a, std::span<const float> b) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    count += std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]) ? 0 : 1;
  }
  return count;
}

class Parity {
 public:
  Parity(const ParityOptions& options, Console& console)
      : options_(options),
        status_(console.error_is_terminal && !options.quiet),
        base_(options.engine.options()) {
    base_.model = options.model;
    base_.context = options.tokens;
    if (base_.cache.size.kind != core::CacheRequest::Kind::kDefault) {
      fail(ErrorKind::kUsage, "--expert-cache: bench parity takes sizes with --cache");
    }
    base_.cache.size.kind = core::CacheRequest::Kind::kNone;
    base_.cache.needs_cache.clear();  // the other flags are for the engines with a cache
  }

  void run() {
    write_reference();
    for (const std::string& policy : options_.policies) {
      if (policy == "static" && base_.cache.profile.empty()) learn_profile();
    }
    const double all = static_cast<double>(options_.sizes.size() * options_.policies.size() *
                                           options_.adapt.size() * options_.threads.size());
    for (const int threads : options_.threads) {
      const double off = read_without_cache(threads);
      for (const std::string& size : options_.sizes) {
        for (const std::string& policy : options_.policies) {
          for (const int adapt : options_.adapt) {
            status_.show(fmt::format("{}, {}, every {}, {} threads", size, policy, adapt, threads),
                         static_cast<double>(rows_.size()) / all);
            rows_.push_back({size, policy, adapt, threads});
            rows_.back().off = off;
            measure(rows_.back());
          }
        }
      }
    }
    status_.clear();
  }

  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t experts() const { return experts_; }

 private:
  void write_reference() {
    const std::unique_ptr<Engine> engine = Engine::load(base_);
    name_ = engine->hparams().name;
    experts_ = static_cast<std::size_t>(engine->hparams().layers) *
               static_cast<std::size_t>(engine->hparams().experts);
    text_ = write_text(*engine, options_.tokens);
    reference_ = read_text(*engine, text_);
  }

  // The speed without a cache; a thread count that changes a bit is told like any other difference.
  double read_without_cache(int threads) {
    EngineOptions options = base_;
    options.threads = threads;
    const Reading reading = read_text(*Engine::load(options), text_);
    rows_.push_back({"off", "", 0, threads, reading.logits.size(),
                     differing(reference_.logits, reading.logits), 0, 0, reading.tokens_per_second,
                     reading.tokens_per_second});
    return reading.tokens_per_second;
  }

  EngineOptions with_cache(const Row& row) const {
    EngineOptions options = base_;
    options.threads = row.threads;
    options.cache.size = {core::CacheRequest::Kind::kSlots, slots_of(row.size, experts_)};
    options.cache.policy.kind = core::policy_of(row.policy).value();
    options.cache.adapt_every = row.adapt;
    if (row.policy == "static" && profile_) options.cache.profile = profile_->path;
    return options;
  }

  // For the static policy: what a cache of a quarter learns from the text itself.
  void learn_profile() {
    profile_ = std::make_unique<TemporaryFile>();
    EngineOptions options = with_cache({"25%", "default", 2, options_.threads.front()});
    options.cache.save_profile = profile_->path;
    const std::unique_ptr<Engine> engine = Engine::load(options);
    (void)read_text(*engine, text_);
    engine->finish();
  }

  void measure(Row& row) {
    const std::unique_ptr<Engine> engine = Engine::load(with_cache(row));
    const Reading reading = read_text(*engine, text_);
    row.compared = reading.logits.size();
    row.differing = differing(reference_.logits, reading.logits);
    row.on = reading.tokens_per_second;
    const core::TierCounts total = engine->tiers().total();
    row.hit_rate = static_cast<double>(total.hit_rows) / static_cast<double>(total.rows());
    row.copies = engine->caching()->control().swaps().copies;
  }

  struct TemporaryFile {
    std::filesystem::path path = std::filesystem::temp_directory_path() /
                                 fmt::format("strata-parity-{}.strp", std::random_device{}());
    TemporaryFile() = default;
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  };

  const ParityOptions& options_;
  StatusLine status_;
  EngineOptions base_;
  std::string name_;
  std::size_t experts_ = 0;
  std::vector<std::int32_t> text_;
  Reading reference_;
  std::unique_ptr<TemporaryFile> profile_;
  std::vector<Row> rows_;
};

nlohmann::ordered_json to_json(const ParityOptions& options, const Parity& parity) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : parity.rows()) {
    rows.push_back({{"cache", row.size},
                    {"policy", row.policy},
                    {"adapt_every", row.adapt},
                    {"threads", row.threads},
                    {"logits", row.compared},
                    {"differing", row.differing},
                    {"hit_rate", row.hit_rate},
                    {"copies", row.copies},
                    {"off_tok_s", row.off},
                    {"on_tok_s", row.on}});
  }
  return {{"model", parity.name()},   {"file", options.model}, {"experts", parity.experts()},
          {"tokens", options.tokens}, {"rows", rows},          {"version", version()},
          {"commit", commit()}};
}

void print_table(Console& console, const Parity& parity) {
  console.out.print("{:>7} {:<8} {:>6} {:>8} {:>10} {:>10} {:>8} {:>8} {:>9} {:>9}\n", "cache",
                    "policy", "adapt", "threads", "logits", "differing", "hits", "copies",
                    "off tok/s", "on tok/s");
  for (const Row& row : parity.rows()) {
    console.out.print("{:>7} {:<8} {:>6} {:>8} {:>10} {:>10} {:>6.1f} % {:>8} {:>9.1f} {:>9.1f}\n",
                      row.size, row.policy, row.adapt == 0 ? "" : std::to_string(row.adapt),
                      row.threads, row.compared, row.differing, 100 * row.hit_rate, row.copies,
                      row.off, row.on);
  }
}

int run(const ParityOptions& options, Console& console) {
  if (options.model.empty()) fail(ErrorKind::kUsage, "which model? bench parity MODEL");
  Parity parity(options, console);
  parity.run();
  if (options.json != "-") print_table(console, parity);
  std::uint64_t compared = 0;
  std::uint64_t differ = 0;
  for (const Row& row : parity.rows()) {
    compared += row.compared;
    differ += row.differing;
  }
  const std::string verdict = fmt::format("{} of {} logits differ, in {} combinations\n", differ,
                                          compared, parity.rows().size());
  if (options.json == "-") {
    console.out.write(json_line(to_json(options, parity)));
  } else {
    console.out.write(verdict);
    if (!options.json.empty()) write_atomically(options.json, to_json(options, parity).dump(1));
  }
  return differ == 0 ? 0 : 1;
}

}  // namespace

Subcommand add_bench_parity(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "parity", "Compares logits with the expert cache on and off, bit by bit.");
  app->footer(kParityExamples);
  const auto o = std::make_shared<ParityOptions>();
  app->add_option("MODEL", o->model, "GGUF file, or the first shard of a split one")->type_name("");
  const std::string group = "What is tried, in all combinations";
  app->add_option("--cache", o->sizes, "experts, or a share of all; may be repeated")
      ->type_name("N|X%")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str()
      ->group(group);
  app->add_option("--policy", o->policies,
                  "default, mixture, pairs, none, fill, static, lru, lfu, lfru")
      ->type_name("NAME")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(
                  {"default", "mixture", "pairs", "none", "fill", "static", "lru", "lfu", "lfru"})
                  .description(""))
      ->capture_default_str()
      ->group(group);
  const auto numbers = [&](const char* name, std::vector<int>& value, int least, int most,
                           const char* help) {
    app->add_option(name, value, help)
        ->type_name("N")
        ->delimiter(',')
        ->allow_extra_args(false)
        ->check(CLI::Range(least, most).description(""))
        ->capture_default_str()
        ->group(group);
  };
  numbers("--adapt", o->adapt, 0, 1 << 30, "tokens between adaptive passes; may be repeated");
  numbers("--thread-counts", o->threads, 1, 1024, "threads; may be repeated");
  app->add_option("-n,--tokens", o->tokens, "length of the text")
      ->type_name("N")
      ->check(CLI::Range(60, 1 << 24).description(""))
      ->capture_default_str()
      ->group(group);
  app->add_option("--json", o->json, "write the results as JSON; -: to standard output, alone")
      ->type_name("FILE")
      ->group(group);
  app->add_flag("-q,--quiet", o->quiet, "no progress")->group(group);
  o->engine.add(*app, EngineFlags::Context::kNone);
  return {app, [o](Console& console) { return run(*o, console); }};
}

}  // namespace strata::app
