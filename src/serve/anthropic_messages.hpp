// POST /v1/messages and /v1/messages/count_tokens. https://docs.anthropic.com/en/api/messages
#pragma once

#include "src/serve/chat_task.hpp"
#include "src/serve/reply.hpp"

#include <memory>
#include <string>

namespace strata::serve {

// `counts_only`: of count_tokens, which needs no max_tokens.
[[nodiscard]] ChatTask read_anthropic(const Json& body, const runtime::SamplingParams& defaults,
                                      bool counts_only = false);

// `prompt_tokens`: what the stream tells before anything is computed.
[[nodiscard]] std::unique_ptr<AnswerWriter> make_anthropic_writer(const std::string& model,
                                                                  const ChatTask& task,
                                                                  std::size_t prompt_tokens);

[[nodiscard]] HttpReply anthropic_error_reply(const ApiError& error);

}  // namespace strata::serve
