// POST /v1/responses without stored state: every request brings its whole conversation.
// https://platform.openai.com/docs/api-reference/responses
#pragma once

#include "src/serve/chat_task.hpp"
#include "src/serve/reply.hpp"

#include <memory>
#include <string>

namespace strata::serve {

[[nodiscard]] ChatTask read_openai_response(const Json& body,
                                            const runtime::SamplingParams& defaults);

// `body`: the request, parts of which a response repeats.
[[nodiscard]] std::unique_ptr<AnswerWriter> make_openai_response_writer(const std::string& model,
                                                                        const Json& body);

}  // namespace strata::serve
