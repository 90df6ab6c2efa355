// POST /v1/completions. https://platform.openai.com/docs/api-reference/completions
#pragma once

#include "src/serve/chat_task.hpp"
#include "src/serve/openai_chat.hpp"

#include <memory>
#include <string>
#include <vector>

namespace strata::serve {

inline constexpr std::size_t kMaxPrompts = 64;

struct CompletionTask {
  ChatTask chat;  // its sampling, limits and format; no messages
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<std::string> echoes;  // one a prompt, or none
};

[[nodiscard]] CompletionTask read_openai_completion(const Json& body,
                                                    const text::Tokenizer& tokenizer,
                                                    const runtime::SamplingParams& defaults);

// `task` must outlive the writer's making only.
[[nodiscard]] std::unique_ptr<AnswerWriter> make_openai_completion_writer(
    const OpenAiFrame& frame, const CompletionTask& task);

}  // namespace strata::serve
