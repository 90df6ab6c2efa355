// One request to the engine and the answer that comes back, between the thread that computes and
// the thread that talks to a client.
#pragma once

#include "strata/runtime/sampler.hpp"
#include "strata/text/grammar_matcher.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::serve {

using Clock = std::chrono::steady_clock;

// Where a model thinks before it answers. A script begins after that.
struct Thinking {
  std::string open = "<think>";
  std::string close = "</think>";
  bool starts_open = false;  // the prompt ends inside the thinking
  std::int64_t budget = -1;  // tokens of thinking before it is closed for the model; -1: any
  std::vector<std::int32_t> closing{};  // written then; holds the text of `close`
};

// What an answer must be: texts that are given and texts that obey a grammar, one after the other.
// The answer ends after the last step.
struct ScriptStep {
  std::vector<std::int32_t> given;              // first these tokens
  std::optional<text::GrammarMatcher> grammar;  // then a text of it, where there is one
  // Or else of the grammar that the text of the last grammar before chooses, where there are some.
  std::map<std::string, text::GrammarMatcher> by_choice;
};

struct GenerationRequest {
  std::vector<std::int32_t> prompt;  // at least one token, no more than the context holds
  runtime::SamplingParams sampling;
  std::int64_t max_tokens = -1;  // >= 0, or -1: as far as the context reaches
  std::vector<std::string> stops;
  bool ignore_eos = false;  // go on after an end token
  int top_logprobs = -1;    // -1: none; 0: of the chosen tokens; n: of the n likeliest, too
  std::optional<Thinking> thinking;
  std::vector<ScriptStep> script;  // empty: what the model likes
  std::string client;              // requests of different clients take turns
};

struct TokenInfo {
  std::int32_t id;
  double logprob = 0;  // by the model's own distribution; 0 when not asked for
  std::vector<runtime::TokenLogprob> top{};  // likeliest first
};

// What has come since the last read.
struct Piece {
  std::string text;  // whole characters, without the stop string
  std::vector<TokenInfo> tokens;
};

enum class Finish {
  kEnd,        // the model's end token
  kStop,       // a stop string
  kLength,     // max_tokens
  kContext,    // the context is full
  kCancelled,  // the reader has gone
  kShutdown,   // the server is going down
  kError,
};
[[nodiscard]] std::string_view finish_name(Finish finish) noexcept;

struct Outcome {
  Finish finish = Finish::kEnd;
  std::string error;                // of kError
  std::optional<std::size_t> stop;  // of kStop: index into GenerationRequest::stops
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;  // of the prompt, those that were not computed anew
  std::size_t generated = 0;      // without an end token
  std::size_t thought = 0;        // of them, inside the thinking that the request names
  double queued_seconds = 0;      // until a slot was free
  double prompt_seconds = 0;      // from then to the first token
  double answer_seconds = 0;      // from the first token to the last
  [[nodiscard]] double seconds() const noexcept {
    return queued_seconds + prompt_seconds + answer_seconds;
  }
};

// Wakes the reader of one answer or of several.
struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  bool awaits_news = false;  // the reader waits for the next token, not only for an end
};

// Written by the engine's thread, read by one other thread; cancel() may be called by any.
class Answer {
 public:
  explicit Answer(std::shared_ptr<Signal> signal) : signal_(std::move(signal)) {}

  enum class Read { kNews, kNothing, kEnded };

  // kNews: `piece` holds what has come since the last call. kNothing: nothing has. kEnded: all was
  // read and outcome() is there. Waits for something new until `deadline`.
  [[nodiscard]] Read read(Piece& piece, Clock::time_point deadline = Clock::time_point::min());
  // Waits for the end, at most until `deadline`; what has come stays to be read.
  [[nodiscard]] bool wait(Clock::time_point deadline);
  // After Read::kEnded, or when wait() was true.
  [[nodiscard]] const Outcome& outcome() const noexcept { return outcome_; }

  // Nobody wants the rest: the engine drops it before the next token.
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool cancelled() const noexcept {
    return cancelled_.load(std::memory_order_relaxed);
  }

  // The engine's side.
  void push(std::string_view text, TokenInfo&& token);
  void push(std::string_view text);
  void finish(Outcome&& outcome);

 private:
  friend bool wait_for_any(std::span<const std::shared_ptr<Answer>>, Clock::time_point);
  [[nodiscard]] bool has_news() const noexcept {
    return ended_ || !unread_.text.empty() || !unread_.tokens.empty();
  }

  std::shared_ptr<Signal> signal_;  // guards what follows
  Piece unread_;
  bool ended_ = false;
  bool told_end_ = false;
  Outcome outcome_;
  std::atomic<bool> cancelled_{false};
};

// Waits until one of the answers of one submit() has something to read that was not read yet; an
// end counts once. False when the deadline comes first.
[[nodiscard]] bool wait_for_any(std::span<const std::shared_ptr<Answer>> answers,
                                Clock::time_point deadline);

}  // namespace strata::serve
