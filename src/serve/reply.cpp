#include "src/serve/reply.hpp"

#include <span>
#include <utility>

namespace strata::serve {
namespace {

// Tokens that come faster than this go out together, the first and the last of an answer at once.
// Nobody sees the difference, and each event of its own costs the engine's thread a wake-up and
// both ends their system calls, which a small model's tokens are too short for.
constexpr std::chrono::milliseconds kRest{5};

// So far away that it is never reached.
Clock::time_point never() { return Clock::now() + std::chrono::hours(24 * 365); }

void cancel_all(std::span<const std::shared_ptr<Answer>> answers) {
  for (const std::shared_ptr<Answer>& answer : answers) answer->cancel();
}

void check(const Outcome& outcome) {
  switch (outcome.finish) {
    case Finish::kError:
      throw ApiError(500, outcome.error);
    case Finish::kShutdown: {
      ApiError error(503, "the server is shutting down", {}, "shutting_down");
      error.retry_after = 10;
      throw error;
    }
    case Finish::kCancelled:
      throw ApiError(503, "the client has gone");  // nobody reads it
    default:
      return;
  }
}

// One answer's text on its way into a Choice.
class Reader {
 public:
  Reader(std::shared_ptr<Answer> answer, const OutputStyle& style)
      : answer_(std::move(answer)), parser_(OutputParser::make(style)) {}

  // Takes what has come. False: there was nothing.
  bool read(Deltas& news, Piece& piece) {
    news.clear();
    if (over_) return false;
    switch (answer_->read(piece)) {
      case Answer::Read::kNothing:
        return false;
      case Answer::Read::kNews:
        parser_->feed(piece.text, news);
        break;
      case Answer::Read::kEnded:
        over_ = true;
        parser_->finish(news);
        choice_.outcome = answer_->outcome();
        break;
    }
    for (const Delta& delta : news) {
      if (delta.kind == Delta::Kind::kReasoning) choice_.reasoning += delta.text;
      if (delta.kind == Delta::Kind::kText) choice_.text += delta.text;
      if (delta.kind == Delta::Kind::kToolCall) choice_.calls.push_back(delta.call);
    }
    for (const TokenInfo& token : piece.tokens) choice_.tokens.push_back(token);
    return true;
  }
  [[nodiscard]] bool over() const noexcept { return over_; }
  [[nodiscard]] const Choice& choice() const noexcept { return choice_; }
  [[nodiscard]] Choice take() { return std::move(choice_); }

 private:
  std::shared_ptr<Answer> answer_;
  std::unique_ptr<OutputParser> parser_;
  bool over_ = false;
  Choice choice_;
};

std::vector<Reader> make_readers(const ReplyJob& job) {
  std::vector<Reader> readers;
  for (std::size_t i = 0; i < job.answers.size(); ++i) {
    readers.emplace_back(job.answers[i], job.styles[std::min(i, job.styles.size() - 1)]);
  }
  return readers;
}

HttpReply reply_whole(const HttpRequest& request, const ReplyJob& job) {
  const HangupWatch::Guard guard = request.watch([&] { cancel_all(job.answers); });
  std::vector<Choice> choices;
  Deltas news;
  Piece piece;
  for (Reader& reader : make_readers(job)) {
    (void)job.answers[choices.size()]->wait(never());
    while (reader.read(news, piece)) {
    }
    choices.push_back(reader.take());
    check(choices.back().outcome);
  }
  HttpReply reply;
  reply.body = to_text(job.writer->whole(choices));
  return reply;
}

class Streamer {
 public:
  Streamer(const ReplyJob& job, Sink& sink)
      : job_(job), writer_(*job.writer), sink_(sink), readers_(make_readers(job)) {}

  void run() {
    if (!sink_.write(writer_.begin(readers_.size()))) return;
    std::size_t open = readers_.size();
    while (open > 0) {
      const auto pause = Clock::now() + std::chrono::seconds(job_.keep_alive_seconds);
      std::string events;
      const bool news = wait_for_any(job_.answers, pause);
      if (news) {
        for (std::size_t i = 0; i < readers_.size(); ++i) open -= take(i, events) ? 1 : 0;
      } else {
        events = writer_.keep_alive();
      }
      if (!sink_.write(events)) return;
      if (news && open > 0) (void)job_.answers.front()->wait(Clock::now() + kRest);
    }
    std::vector<Choice> choices;
    for (Reader& reader : readers_) choices.push_back(reader.take());
    (void)sink_.write(writer_.finish(choices));
  }

 private:
  // Adds the events of what has come from an answer; true when that has ended.
  bool take(std::size_t index, std::string& events) {
    Reader& reader = readers_[index];
    if (reader.over()) return false;
    while (reader.read(news_, piece_)) {
      if (!news_.empty() || !piece_.tokens.empty()) {
        events += writer_.news(index, news_, piece_.tokens, reader.choice());
      }
      if (!reader.over()) continue;
      check(reader.choice().outcome);
      events += writer_.ended(index, reader.choice());
      return true;
    }
    return false;
  }

  const ReplyJob& job_;
  AnswerWriter& writer_;
  Sink& sink_;
  std::vector<Reader> readers_;
  Deltas news_;
  Piece piece_;
};

HttpReply reply_stream(const HttpRequest& request, ReplyJob&& job) {
  HttpReply reply;
  reply.content_type = "text/event-stream";
  reply.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
  // std::function wants what it holds to be copyable.
  const auto shared = std::make_shared<ReplyJob>(std::move(job));
  reply.stream = [shared, watch = request.watch](Sink& sink) {
    const HangupWatch::Guard guard = watch([&] { cancel_all(shared->answers); });
    try {
      Streamer(*shared, sink).run();
    } catch (const std::exception&) {
      (void)sink.write(shared->writer->error(to_api_error(std::current_exception())));
    }
  };
  return reply;
}

}  // namespace

ReplyJob::~ReplyJob() { cancel_all(answers); }

HttpReply make_reply(const HttpRequest& request, ReplyJob job) {
  if (job.stream) return reply_stream(request, std::move(job));
  return reply_whole(request, job);
}

std::string sse(std::string_view name, const Json& data) {
  return name.empty() ? fmt::format("data: {}\n\n", to_text(data))
                      : fmt::format("event: {}\ndata: {}\n\n", name, to_text(data));
}

Json openai_error(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"error",
           {{"message", error.what()},
            {"type", error_type(error.status)},
            {"param", or_null(error.param)},
            {"code", or_null(error.code)}}}};
}

HttpReply openai_error_reply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.status;
  reply.body = to_text(openai_error(error));
  if (error.retry_after > 0) {
    reply.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  }
  return reply;
}

Json timings_json(const Outcome& o) {
  const auto per = [](double value, double by) { return by > 0 ? value / by : 0; };
  const auto prompt = static_cast<double>(o.prompt_tokens - o.cached_tokens);
  const auto generated = static_cast<double>(o.generated);
  return {{"cache_n", o.cached_tokens},
          {"prompt_n", o.prompt_tokens - o.cached_tokens},
          {"prompt_ms", o.prompt_seconds * 1e3},
          {"prompt_per_token_ms", per(o.prompt_seconds * 1e3, prompt)},
          {"prompt_per_second", per(prompt, o.prompt_seconds)},
          {"predicted_n", o.generated},
          {"predicted_ms", o.answer_seconds * 1e3},
          {"predicted_per_token_ms", per(o.answer_seconds * 1e3, generated)},
          {"predicted_per_second", per(generated, o.answer_seconds)},
          {"queued_ms", o.queued_seconds * 1e3}};
}

}  // namespace strata::serve
