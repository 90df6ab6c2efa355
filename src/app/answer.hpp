// From the tokens of a prompt to the text of an answer.
#pragma once

#include "src/app/report.hpp"
#include "strata/runtime/engine.hpp"
#include "strata/runtime/sampler.hpp"
#include "strata/text/grammar_matcher.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::app {

enum class EndReason { kEos, kStop, kLength, kContext, kInterrupt };
[[nodiscard]] std::string_view end_reason_name(EndReason reason) noexcept;  // "eos" "stop" ...

struct AnswerOptions {
  runtime::SamplingParams sampling;
  std::int64_t max_tokens = -1;  // -1: no limit but the context
  std::vector<std::string> stops;
  bool ignore_eos = false;                      // go on after an end token
  std::optional<text::GrammarMatcher> grammar;  // at the start of a text that the answer must be
};

struct Answer {
  EndReason reason = EndReason::kEos;
  std::size_t reused = 0;     // tokens of the prompt that the session held already
  std::size_t generated = 0;  // an end token is not counted
  std::string text;           // without stop string and end token
  Phase prompt;               // tokens computed for the prompt
  Phase decode;               // tokens computed after it, one less than were generated
};

// What happens meanwhile; any may be empty.
struct AnswerEvents {
  std::function<bool()> interrupted;  // asked between windows and tokens
  std::function<void(std::size_t done, std::size_t total)> prompt_progress;
  std::function<void(const Answer& so_far)> prompt_done;
  // The text that this token made safe to show, often empty; the last call has id -1 and what was
  // held back.
  std::function<void(std::int32_t id, std::string_view text)> token;
};

// Brings the session to hold `prompt`, reusing what it shares with it, and continues it. The
// session then holds the prompt and the answer but for its last token. Error(kUsage) as
// Session::feed and Sampler say.
[[nodiscard]] Answer make_answer(Engine& engine, Session& session,
                                 std::span<const std::int32_t> prompt, const AnswerOptions& options,
                                 const AnswerEvents& events);

}  // namespace strata::app
