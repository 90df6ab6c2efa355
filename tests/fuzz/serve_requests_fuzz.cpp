// Requests of all APIs from arbitrary bytes: each is read, or refused with a 400.
#include "src/serve/anthropic_messages.hpp"
#include "src/serve/openai_chat.hpp"
#include "src/serve/openai_responses.hpp"
#include "src/serve/tool_prompt.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using namespace strata::serve;

template <class Read>
void try_read(const Json& body, const Read& read) {
  try {
    const ChatTask task = read(body);
    for (const Json& message : task.messages) {
      if (!message.at("role").is_string() || !message.at("content").is_string()) std::abort();
    }
    if (!task.tools.is_null()) (void)with_tools_as_text(task.messages, task.tools);
  } catch (const ApiError& error) {
    if (error.status != 400) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Json body;
  try {
    body = parse_body({reinterpret_cast<const char*>(data), size});
  } catch (const ApiError& error) {
    if (error.status != 400) std::abort();
    return 0;
  }
  const strata::runtime::SamplingParams defaults;
  try_read(body, [&](const Json& b) { return read_openai_chat(b, defaults); });
  try_read(body, [&](const Json& b) { return read_openai_response(b, defaults); });
  try_read(body, [&](const Json& b) { return read_anthropic(b, defaults); });
  return 0;
}
