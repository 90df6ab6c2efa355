// A tiny model served by a scheduler on a thread of its own.
#pragma once

#include "strata/serve/scheduler.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace strata::serve::test {

using Ids = std::vector<std::int32_t>;

inline constexpr int kVocab = 256;  // of the tokenizer; the model's rows go on
inline constexpr int kContext = 100;
inline constexpr int kWindow = 24;

inline Ids random_ids(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int32_t> id(0, kVocab - 1);
  Ids ids(count);
  for (std::int32_t& i : ids) i = id(random);
  return ids;
}

inline Clock::time_point soon() { return Clock::now() + std::chrono::minutes(2); }

// Loads and runs on one thread, as the program does.
class ServedModel {
 public:
  explicit ServedModel(const SchedulerOptions& options, bool run = true) {
    testing::TinyModel(testing::TinyShape{}).write(folder_ / "tiny.gguf");
    std::promise<void> loaded;
    std::future<void> is_loaded = loaded.get_future();
    thread_ = std::thread([this, options, run, &loaded] {
      try {
        EngineOptions engine;
        engine.model = folder_ / "tiny.gguf";
        engine.threads = 2;
        engine.context = kContext;
        engine.window = kWindow;
        engine.pin_threads = false;
        engine_ = Engine::load(engine);
        scheduler_ = std::make_unique<Scheduler>(*engine_, options);
      } catch (...) {
        loaded.set_exception(std::current_exception());
        return;
      }
      loaded.set_value();
      if (!run) start_.get_future().wait();
      scheduler_->run();
    });
    try {
      is_loaded.get();
    } catch (...) {
      thread_.join();
      throw;
    }
    started_ = run;
  }
  ~ServedModel() {
    scheduler_->stop();
    start();
    thread_.join();
  }
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  // What was submitted before begins now.
  void start() {
    if (!started_) start_.set_value();
    started_ = true;
  }
  [[nodiscard]] Scheduler& scheduler() { return *scheduler_; }
  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const std::string path() const { return folder_ / "tiny.gguf"; }

 private:
  gguf::test::TempFolder folder_;
  std::promise<void> start_;
  bool started_ = false;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Scheduler> scheduler_;
  std::thread thread_;
};

// A whole answer.
struct Full {
  std::string text;
  Ids ids;
  std::vector<TokenInfo> tokens;
  Outcome outcome;
};

inline Full read_all(Answer& answer) {
  Full full;
  Piece piece;
  for (;;) {
    const Answer::Read read = answer.read(piece, soon());
    if (read == Answer::Read::kNothing) throw std::runtime_error("no end of the answer came");
    if (read == Answer::Read::kEnded) break;
    full.text += piece.text;
    for (TokenInfo& token : piece.tokens) {
      full.ids.push_back(token.id);
      full.tokens.push_back(std::move(token));
    }
  }
  full.outcome = answer.outcome();
  return full;
}

inline GenerationRequest request(Ids prompt, std::int64_t tokens, float temperature = 0,
                                 std::uint64_t seed = 0) {
  GenerationRequest r;
  r.prompt = std::move(prompt);
  r.max_tokens = tokens;
  r.sampling.temperature = temperature;
  r.sampling.seed = seed;
  r.ignore_eos = true;
  return r;
}

}  // namespace strata::serve::test
