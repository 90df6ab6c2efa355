// From answers to a reply: waits for the engine, splits texts into reasoning, answer and calls, and
// has an API write them, whole or as a stream of events.
#pragma once

#include "src/serve/api_error.hpp"
#include "src/serve/fields.hpp"
#include "src/serve/http.hpp"
#include "src/serve/output_parser.hpp"
#include "strata/serve/answer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace strata::serve {

// What an answer has come to.
struct Choice {
  std::string reasoning;
  std::string text;
  std::vector<ToolCall> calls;
  std::vector<TokenInfo> tokens;
  Outcome outcome;  // once it has ended
};

// How an API writes answers. One a request; one thread.
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  [[nodiscard]] virtual Json whole(const std::vector<Choice>& choices) = 0;

  // Events, in the order in which a stream has them. `deltas` and `tokens` are news; `choice` holds
  // all there is of it, the news included.
  [[nodiscard]] virtual std::string begin(std::size_t choices) = 0;
  [[nodiscard]] virtual std::string news(std::size_t index, const Deltas& deltas,
                                         const std::vector<TokenInfo>& tokens,
                                         const Choice& choice) = 0;
  [[nodiscard]] virtual std::string ended(std::size_t index, const Choice& choice) = 0;
  [[nodiscard]] virtual std::string finish(const std::vector<Choice>& choices) = 0;
  [[nodiscard]] virtual std::string error(const ApiError& error) = 0;
  // So that nobody on the way takes the connection for dead.
  [[nodiscard]] virtual std::string keep_alive() { return ": keep-alive\n\n"; }

 protected:
  AnswerWriter() = default;
};

struct ReplyJob {
  ReplyJob() = default;
  ReplyJob(ReplyJob&&) = default;
  ReplyJob& operator=(ReplyJob&&) = default;
  ~ReplyJob();  // cancels the answers: whoever was to read them has gone

  std::vector<std::shared_ptr<Answer>> answers;  // of one submit()
  std::vector<OutputStyle> styles;               // one an answer, or one for all
  std::unique_ptr<AnswerWriter> writer;
  bool stream = false;
  int keep_alive_seconds = 10;
};

// Waits for the answers, or begins to stream them. They are cancelled when the client hangs up.
// Throws ApiError when an answer could not be computed.
[[nodiscard]] HttpReply make_reply(const HttpRequest& request, ReplyJob job);

// "event: NAME\ndata: JSON\n\n"; without a name only the data.
[[nodiscard]] std::string sse(std::string_view name, const Json& data);

// {"message": ..., "type": ...} in the form of OpenAI's API.
[[nodiscard]] Json openai_error(const ApiError& error);
[[nodiscard]] HttpReply openai_error_reply(const ApiError& error);

// llama.cpp's "timings".
[[nodiscard]] Json timings_json(const Outcome& outcome);

}  // namespace strata::serve
