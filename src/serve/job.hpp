// A request on the engine's side: from the logits of a position to the text of the next token.
#pragma once

#include "src/serve/thinking.hpp"
#include "strata/runtime/sampler.hpp"
#include "strata/runtime/stop_strings.hpp"
#include "strata/serve/answer.hpp"
#include "strata/text/detokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

namespace strata::serve {

class Job {
 public:
  // `vocab`: the ids that stand for tokens. Error(kUsage) for a request that cannot be obeyed.
  Job(GenerationRequest request, const text::Tokenizer& tokenizer, std::size_t vocab,
      std::size_t context, std::shared_ptr<Signal> signal);

  [[nodiscard]] const GenerationRequest& request() const noexcept { return request_; }
  [[nodiscard]] std::span<const std::int32_t> prompt() const noexcept { return request_.prompt; }
  [[nodiscard]] const std::shared_ptr<Answer>& answer() const noexcept { return answer_; }

  // A slot was given, with this many tokens of the prompt in it.
  void start(std::size_t cached) noexcept;
  // `logits` are those after `position` tokens. Chooses the next token and hands its text out.
  // False: the answer has ended; else next() is to be computed.
  [[nodiscard]] bool step(std::span<const float> logits, std::size_t position);
  [[nodiscard]] std::int32_t next() const noexcept { return next_; }

  // Ends the answer for a reason from outside.
  void end(Finish finish, std::string error = {});
  [[nodiscard]] const Outcome& outcome() const noexcept { return outcome_; }  // once it has ended

 private:
  // The next token; an end token, or nothing, ends the answer.
  [[nodiscard]] std::optional<std::int32_t> choose(std::span<const float> logits,
                                                   std::size_t position);
  [[nodiscard]] std::optional<std::int32_t> follow_script(std::span<const float> logits,
                                                          std::size_t position);
  [[nodiscard]] TokenInfo describe(std::int32_t id, std::span<const float> logits) const;
  void deliver();

  GenerationRequest request_;
  const text::Tokenizer& tokenizer_;
  std::size_t vocab_, context_;
  std::shared_ptr<Answer> answer_;
  runtime::Sampler sampler_;
  text::Detokenizer detokenizer_;
  runtime::StopMatcher stops_;
  std::optional<ThinkingWatch> thinking_;
  std::deque<std::int32_t> forced_;  // tokens that come next, whatever the logits say
  std::size_t step_ = 0;             // of the script
  bool given_ = false;               // were this step's tokens written?
  std::string chosen_;               // the text of the last grammar
  std::vector<std::uint64_t> allowed_;
  std::int32_t next_ = -1;
  Outcome outcome_;
  Clock::time_point arrived_ = Clock::now(), started_, first_token_;
};

}  // namespace strata::serve
