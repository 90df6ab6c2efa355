// POST /v1/chat/completions. https://platform.openai.com/docs/api-reference/chat
#pragma once

#include "src/serve/chat_task.hpp"
#include "src/serve/reply.hpp"

#include <functional>
#include <memory>
#include <string>

namespace strata::serve {

// `defaults`: the sampling of requests that name none.
[[nodiscard]] ChatTask read_openai_chat(const Json& body, const runtime::SamplingParams& defaults);

// Shared with the other APIs. A tool in OpenAI's form, made of its function's object.
[[nodiscard]] Json read_openai_tool(const Fields& tool, const Json& function,
                                    const std::string& path);
// The request's messages: 1 to kMaxMessages.
[[nodiscard]] const Json& need_messages(const Fields& fields);
// The request's tools, each made by `read`.
void read_tool_list(const Fields& fields, const std::function<Json(const Fields& tool)>& read,
                    ChatTask& task);
// "tool_choice" and "parallel_tool_calls" of OpenAI's APIs. `name_of`: the function that a choice
// of the type "function" names.
void read_openai_tool_choice(const Fields& fields,
                             const std::function<std::string(const Fields& choice)>& name_of,
                             ChatTask& task);
// That a tool which must be called is there.
void check_tool_choice(ChatTask& task, const std::string& path);
void forbid_parallel_calls(ChatTask& task);

// What the writers of OpenAI's APIs put around every answer.
struct OpenAiFrame {
  std::string model;        // the served model's name
  std::string fingerprint;  // of the build
  bool include_usage = false;
  const text::Tokenizer* tokenizer = nullptr;  // for logprobs; null: none were asked for
};

[[nodiscard]] std::unique_ptr<AnswerWriter> make_openai_chat_writer(const OpenAiFrame& frame);

// Shared with /v1/completions.
[[nodiscard]] std::string openai_finish(const Choice& choice);
[[nodiscard]] Json openai_usage(const std::vector<Choice>& choices, std::size_t prompts = 1);
// {"token", "logprob", "bytes"} of a token.
[[nodiscard]] Json openai_token(const text::Tokenizer& tokenizer, std::int32_t id, double logprob);
[[nodiscard]] bool read_include_usage(const Fields& fields);

}  // namespace strata::serve
