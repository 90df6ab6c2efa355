#include "src/serve/job.hpp"

#include "strata/base/error.hpp"

#include <algorithm>
#include <utility>

namespace strata::serve {
namespace {

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// What a request must be for a Sampler and a StopMatcher to be made of it.
GenerationRequest checked(GenerationRequest request, std::size_t vocab, std::size_t context) {
  if (request.prompt.empty()) fail(ErrorKind::kUsage, "the prompt has no tokens");
  if (request.prompt.size() > context) {
    fail(ErrorKind::kUsage, "the prompt has {} tokens, the context holds {}", request.prompt.size(),
         context);
  }
  for (const std::int32_t id : request.prompt) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab) {
      fail(ErrorKind::kUsage, "token id {} is outside the vocabulary of {}", id, vocab);
    }
  }
  if (request.max_tokens < -1) {
    fail(ErrorKind::kUsage, "max_tokens {}: expected 0 or more", request.max_tokens);
  }
  return request;
}

}  // namespace

Job::Job(GenerationRequest request, const text::Tokenizer& tokenizer, std::size_t vocab,
         std::size_t context, std::shared_ptr<Signal> signal)
    : request_(checked(std::move(request), vocab, context)),
      tokenizer_(tokenizer),
      vocab_(vocab),
      context_(context),
      answer_(std::make_shared<Answer>(std::move(signal))),
      sampler_(request_.sampling, vocab),
      detokenizer_(tokenizer, {.at_text_start = false}),
      stops_(request_.stops) {
  if (request_.thinking) thinking_.emplace(*request_.thinking);
  outcome_.prompt_tokens = request_.prompt.size();
}

void Job::start(std::size_t cached) noexcept {
  started_ = Clock::now();
  outcome_.cached_tokens = cached;
  outcome_.queued_seconds = seconds_between(arrived_, started_);
  // Older tokens than these could not count.
  const std::int32_t counted = request_.sampling.penalty_last_n;
  std::span<const std::int32_t> seen = request_.prompt;
  if (counted >= 0 && std::cmp_less(counted, seen.size())) {
    seen = seen.last(static_cast<std::size_t>(counted));
  }
  for (const std::int32_t id : seen) sampler_.accept(id);
}

std::optional<std::int32_t> Job::choose(std::span<const float> logits, std::size_t position) {
  if (thinking_ && thinking_->is_due()) {
    const std::vector<std::int32_t>& closing = thinking_->config().closing;
    forced_.assign(closing.begin(), closing.end());
  }
  if (!forced_.empty()) {
    const std::int32_t id = forced_.front();
    forced_.pop_front();
    return id;
  }
  if (request_.script.empty() || (thinking_ && thinking_->inside())) {
    return sampler_.sample(logits, position);
  }
  return follow_script(logits, position);
}

std::optional<std::int32_t> Job::follow_script(std::span<const float> logits,
                                               std::size_t position) {
  const auto ids = std::max(vocab_, static_cast<std::size_t>(tokenizer_.vocab_size()));
  allowed_.resize((ids + 63) / 64);
  for (; step_ < request_.script.size(); ++step_, given_ = false) {
    ScriptStep& step = request_.script[step_];
    if (!given_) {
      given_ = true;
      if (step.grammar) chosen_.clear();
      if (!step.given.empty()) {
        forced_.assign(step.given.begin() + 1, step.given.end());
        return step.given.front();
      }
    }
    text::GrammarMatcher* grammar = step.grammar ? &*step.grammar : nullptr;
    if (grammar == nullptr && !step.by_choice.empty()) grammar = &step.by_choice.at(chosen_);
    if (grammar == nullptr) continue;
    if (!grammar->allowed(allowed_)) {
      if (grammar->is_complete()) continue;
      fail(ErrorKind::kUsage, "no token of this model goes on with the text that is asked for");
    }
    const std::int32_t id = sampler_.sample(logits, position, allowed_);
    if (tokenizer_.is_end(id)) continue;
    if (!grammar->accept(id)) fail(ErrorKind::kInternal, "the grammar refuses its own token");
    if (step.grammar) chosen_ += tokenizer_.piece(id);
    return id;
  }
  return std::nullopt;
}

TokenInfo Job::describe(std::int32_t id, std::span<const float> logits) const {
  TokenInfo info{.id = id};
  if (request_.top_logprobs < 0) return info;
  info.logprob = runtime::token_logprob(logits, id);
  if (request_.top_logprobs > 0) {
    info.top = runtime::top_logprobs(logits, static_cast<std::size_t>(request_.top_logprobs));
  }
  return info;
}

bool Job::step(std::span<const float> logits, std::size_t position) {
  if (outcome_.generated == 0 && first_token_ == Clock::time_point{}) {
    first_token_ = Clock::now();
    outcome_.prompt_seconds = seconds_between(started_, first_token_);
  }
  if (request_.max_tokens == 0) {
    end(Finish::kLength);
    return false;
  }
  logits = logits.first(vocab_);
  const std::optional<std::int32_t> chosen = choose(logits, position);
  if (!chosen || (tokenizer_.is_end(*chosen) && !request_.ignore_eos)) {
    end(Finish::kEnd);
    return false;
  }
  const std::int32_t id = *chosen;
  sampler_.accept(id);
  ++outcome_.generated;
  const std::string text = detokenizer_.feed(id);
  if (thinking_) {
    thinking_->feed(text);
    outcome_.thought = thinking_->spent();
  }
  runtime::StopResult shown = stops_.feed(text);
  answer_->push(shown.text, describe(id, logits));
  if (shown.stop) {
    outcome_.stop = shown.stop;
    outcome_.finish = Finish::kStop;
    deliver();
    return false;
  }
  if (std::cmp_equal(outcome_.generated, request_.max_tokens)) {
    end(Finish::kLength);
    return false;
  }
  if (position == context_) {
    end(Finish::kContext);
    return false;
  }
  next_ = id;
  return true;
}

void Job::end(Finish finish, std::string error) {
  outcome_.finish = finish;
  outcome_.error = std::move(error);
  std::string rest = stops_.feed(detokenizer_.flush()).text;
  rest += stops_.finish();
  if (!rest.empty()) answer_->push(rest);
  deliver();
}

void Job::deliver() {
  const Clock::time_point now = Clock::now();
  if (first_token_ != Clock::time_point{}) {
    outcome_.answer_seconds = seconds_between(first_token_, now);
  } else if (started_ != Clock::time_point{}) {
    outcome_.prompt_seconds = seconds_between(started_, now);
  } else {
    outcome_.queued_seconds = seconds_between(arrived_, now);
  }
  answer_->finish(Outcome(outcome_));
}

}  // namespace strata::serve
