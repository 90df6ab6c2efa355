#include "src/app/answer.hpp"

#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"
#include "strata/runtime/stop_strings.hpp"
#include "strata/text/detokenizer.hpp"

#include <algorithm>
#include <utility>

namespace strata::app {
namespace {

// Measures a Phase: what the engine does from construction to end().
class PhaseTimer {
 public:
  explicit PhaseTimer(const Engine& engine) : engine_(engine), before_(engine.stats()) {}
  [[nodiscard]] Phase end() const {
    const runtime::Stats spent = engine_.stats() - before_;
    return {spent.tokens, watch_.seconds(), spent};
  }

 private:
  const Engine& engine_;
  runtime::Stats before_;
  Stopwatch watch_;
};

bool interrupted(const AnswerEvents& events) { return events.interrupted && events.interrupted(); }

// Returns whether the whole prompt was read.
bool read_prompt(const Engine& engine, Session& session, std::span<const std::int32_t> prompt,
                 const AnswerEvents& events, Answer& answer) {
  const PhaseTimer timer(engine);
  // The last token is fed again even when it is held: the logits after it are wanted.
  const std::size_t shared = session.common_prefix(prompt);
  answer.reused = prompt.empty() ? 0 : std::min(shared, prompt.size() - 1);
  session.truncate(answer.reused);
  const auto rest = prompt.subspan(answer.reused);
  const std::size_t read = session.feed(rest, [&](std::size_t done) {
    if (events.prompt_progress) events.prompt_progress(done, rest.size());
    return interrupted(events);
  });
  answer.prompt = timer.end();
  if (events.prompt_done) events.prompt_done(answer);
  return read == rest.size();
}

// The text side of an answer: bytes to characters, then the search for stop strings.
class TextStream {
 public:
  TextStream(const text::Tokenizer& tokenizer, std::vector<std::string> stops)
      : detokenizer_(tokenizer, {.at_text_start = false}), matcher_(std::move(stops)) {}

  [[nodiscard]] runtime::StopResult feed(std::int32_t id) {
    return matcher_.feed(detokenizer_.feed(id));
  }
  // What was held back, at the end of an answer that no stop string ended.
  [[nodiscard]] std::string finish() {
    runtime::StopResult last = matcher_.feed(detokenizer_.flush());
    return last.text + matcher_.finish();
  }

 private:
  text::Detokenizer detokenizer_;
  runtime::StopMatcher matcher_;
};

// The loop over tokens. Returns why it ended.
class Generation {
 public:
  Generation(Engine& engine, Session& session, const AnswerOptions& options,
             const AnswerEvents& events)
      : session_(session),
        tokenizer_(engine.tokenizer()),
        context_(static_cast<std::size_t>(engine.context())),
        // Rows that embeddings have beyond the vocabulary stand for no token.
        vocab_(static_cast<std::size_t>(
            std::min<std::int64_t>(engine.hparams().vocab, tokenizer_.vocab_size()))),
        options_(options),
        events_(events),
        sampler_(options.sampling, vocab_),
        grammar_(options.grammar),
        mask_(grammar_ ? (static_cast<std::size_t>(tokenizer_.vocab_size()) + 63) / 64 : 0),
        stream_(tokenizer_, options.stops) {
    for (const std::int32_t id : session.tokens()) sampler_.accept(id);
  }

  EndReason run(Answer& answer) {
    const EndReason reason = loop(answer);
    if (reason != EndReason::kStop) show(-1, stream_.finish(), answer);
    return reason;
  }

 private:
  EndReason loop(Answer& answer) {
    if (options_.max_tokens == 0) return EndReason::kLength;
    for (;;) {
      if (interrupted(events_)) return EndReason::kInterrupt;
      if (grammar_ && !grammar_->allowed(mask_)) return end_of_grammar();
      const std::int32_t id =
          sampler_.sample(session_.logits().first(vocab_), session_.tokens().size(), mask_);
      if (tokenizer_.is_end(id) && !options_.ignore_eos) return EndReason::kEos;
      sampler_.accept(id);
      if (grammar_) (void)grammar_->accept(id);  // it was allowed
      ++answer.generated;
      const runtime::StopResult result = stream_.feed(id);
      show(id, result.text, answer);
      if (result.stop) return EndReason::kStop;
      if (std::cmp_equal(answer.generated, options_.max_tokens)) return EndReason::kLength;
      if (session_.tokens().size() == context_) return EndReason::kContext;
      session_.feed({&id, 1});
    }
  }

  EndReason end_of_grammar() const {
    if (grammar_->is_complete()) return EndReason::kEos;
    fail(ErrorKind::kUsage, "no token of the model goes on as the grammar asks");
  }

  void show(std::int32_t id, std::string_view text, Answer& answer) {
    answer.text += text;
    if (events_.token && (id >= 0 || !text.empty())) events_.token(id, text);
  }

  Session& session_;
  const text::Tokenizer& tokenizer_;
  std::size_t context_;
  std::size_t vocab_;
  const AnswerOptions& options_;
  const AnswerEvents& events_;
  runtime::Sampler sampler_;
  std::optional<text::GrammarMatcher> grammar_;
  std::vector<std::uint64_t> mask_;  // empty without a grammar: every token is allowed
  TextStream stream_;
};

}  // namespace

std::string_view end_reason_name(EndReason reason) noexcept {
  switch (reason) {
    case EndReason::kEos:
      return "eos";
    case EndReason::kStop:
      return "stop";
    case EndReason::kLength:
      return "length";
    case EndReason::kContext:
      return "context";
    case EndReason::kInterrupt:
      return "interrupt";
  }
  return "";
}

Answer make_answer(Engine& engine, Session& session, std::span<const std::int32_t> prompt,
                   const AnswerOptions& options, const AnswerEvents& events) {
  Answer answer;
  if (!read_prompt(engine, session, prompt, events, answer)) {
    answer.reason = EndReason::kInterrupt;
    return answer;
  }
  const PhaseTimer timer(engine);
  answer.reason = Generation(engine, session, options, events).run(answer);
  answer.decode = timer.end();
  return answer;
}

}  // namespace strata::app
