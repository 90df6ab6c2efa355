// strata perplexity: how well a model predicts a text.
#include "src/app/cache_report.hpp"
#include "src/app/command.hpp"
#include "src/app/engine_options.hpp"
#include "src/app/report.hpp"
#include "src/app/status_line.hpp"
#include "src/app/token_ids.hpp"
#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

namespace strata::app {
namespace {

constexpr std::size_t kLargestText = std::size_t{1} << 31;

constexpr const char* kPerplexityExamples = R"(
Examples:
  strata perplexity model.gguf --text book.txt
  strata perplexity model.gguf --ids heldout_ids.npy --activations f32
  strata perplexity model.gguf --text book.txt --window-len 2048 --json

The text is cut into windows of --window-len tokens, each read from an empty context. The result is
exp(mean of -ln p) over every token but the first of each window. A row of --ids is a text of its
own. With a model that wants one, every window of --text begins with a BOS token.)";

struct PerplexityOptions {
  EngineFlags engine;
  std::string text, ids;
  int window_len = 512;
  bool json = false;
  bool quiet = false;
};

// Windows of at most `length` tokens; a window of one token predicts nothing and is left out.
TokenRows cut(const TokenRows& texts, std::size_t length) {
  TokenRows windows;
  for (const std::vector<std::int32_t>& text : texts) {
    for (std::size_t at = 0; at < text.size(); at += length) {
      const std::size_t end = std::min(at + length, text.size());
      if (end - at < 2) continue;
      windows.emplace_back(text.begin() + static_cast<std::ptrdiff_t>(at),
                           text.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  return windows;
}

TokenRows windows_of(const PerplexityOptions& options, const text::Tokenizer& tokenizer) {
  const auto length = static_cast<std::size_t>(options.window_len);
  if (!options.ids.empty()) return cut(read_token_rows(options.ids), length);
  const std::string text = read_text_file(options.text, kLargestText);
  const bool bos = tokenizer.adds_bos();
  TokenRows windows =
      cut({tokenizer.encode(text, {.add_bos = false, .add_eos = false})}, length - (bos ? 1 : 0));
  for (std::vector<std::int32_t>& window : windows) {
    if (bos) window.insert(window.begin(), *tokenizer.bos());
  }
  return windows;
}

struct Score {
  std::size_t tokens = 0;
  double sum = 0;      // of -ln p
  double squares = 0;  // of its squares

  void add(double loss) {
    ++tokens;
    sum += loss;
    squares += loss * loss;
  }
  [[nodiscard]] double mean() const { return sum / static_cast<double>(tokens); }
  [[nodiscard]] double perplexity() const { return std::exp(mean()); }
  // One standard error of the perplexity, as if tokens were independent.
  [[nodiscard]] double error() const {
    const auto n = static_cast<double>(tokens);
    return perplexity() * std::sqrt(std::max(0.0, squares / n - mean() * mean()) / n);
  }
};

Score score(Engine& engine, const TokenRows& windows, StatusLine& status) {
  const std::unique_ptr<Session> session = engine.new_session();
  Score result;
  std::size_t done = 0;
  for (const std::vector<std::int32_t>& window : windows) {
    session->truncate(0);
    session->score(window, [&](std::size_t index, std::span<const float> logits) {
      if (index + 1 == window.size()) return;
      result.add(-runtime::token_logprob(logits, window[index + 1]));
    });
    ++done;
    status.show(fmt::format("Perplexity {:.4f}", result.perplexity()),
                static_cast<double>(done) / static_cast<double>(windows.size()));
  }
  status.clear();
  return result;
}

void print(const PerplexityOptions& options, Console& console, const Engine& engine,
           const Score& result, std::size_t windows, double seconds) {
  const double speed = static_cast<double>(engine.stats().tokens) / seconds;
  if (options.json) {
    nlohmann::ordered_json json = load_json(engine);
    json["perplexity"] = result.perplexity();
    json["standard_error"] = result.error();
    json["mean_nll"] = result.mean();
    json["tokens"] = result.tokens;
    json["windows"] = windows;
    json["scoring_seconds"] = seconds;
    json["tokens_per_second"] = speed;
    if (engine.caching() != nullptr) json["cache"] = cache_json(engine);
    console.out.write(json_line(json));
    return;
  }
  console.out.print("perplexity {:.4f} +- {:.4f} over {} tokens in {} windows; {:.0f} tokens/s\n",
                    result.perplexity(), result.error(), result.tokens, windows, speed);
}

int run(const PerplexityOptions& options, Console& console) {
  if (options.text.empty() == options.ids.empty()) {
    fail(ErrorKind::kUsage, "give a text: --text FILE or --ids FILE");
  }
  EngineOptions engine_options = options.engine.options();
  engine_options.context = options.window_len;
  const std::unique_ptr<Engine> engine = load_engine(console, engine_options, options.quiet);
  if (!options.quiet && !options.json) console.note(start_report(*engine));
  const TokenRows windows = windows_of(options, engine->tokenizer());
  if (windows.empty()) fail(ErrorKind::kUsage, "the text is too short: it takes at least 2 tokens");
  StatusLine status(console.error_is_terminal && !options.quiet);
  const Stopwatch watch;
  const Score result = score(*engine, windows, status);
  print(options, console, *engine, result, windows.size(), watch.seconds());
  if (const std::string cache = cache_summary(*engine);
      !cache.empty() && !options.quiet && !options.json) {
    console.note(cache);
  }
  engine->finish();
  return 0;
}

}  // namespace

Command add_perplexity(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("perplexity", "Measures how well a model predicts a text.");
  app->footer(kPerplexityExamples);
  const auto o = std::make_shared<PerplexityOptions>();
  o->engine.add_model(*app);
  const std::string group = "Text";
  CLI::Option* text =
      app->add_option("--text", o->text, "a text file")->type_name("FILE")->group(group);
  app->add_option("--ids", o->ids, "token ids: .npy of i4 or i8, or a JSON array, rows apart")
      ->type_name("FILE")
      ->excludes(text)
      ->group(group);
  app->add_option("--window-len", o->window_len, "tokens that are read from an empty context")
      ->type_name("N")
      ->check(CLI::Range(2, 1 << 28).description(""))
      ->capture_default_str()
      ->group(group);
  app->add_flag("--json", o->json, "print the result as JSON")->group(group);
  app->add_flag("-q,--quiet", o->quiet, "only the result")->group(group);
  o->engine.add(*app, EngineFlags::Context::kNone);
  return {app, [o](Console& console) { return run(*o, console); }};
}

}  // namespace strata::app
