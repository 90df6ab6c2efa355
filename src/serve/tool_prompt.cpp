#include "src/serve/tool_prompt.hpp"

#include <string>

namespace strata::serve {
namespace {

std::string instructions(const Json& tools) {
  std::string text =
      "You can call functions. They are described here, one JSON object a line:\n<tools>\n";
  for (const Json& tool : tools) text += to_text(tool) + "\n";
  text +=
      "</tools>\nTo call one, write a JSON object with its name and its arguments inside "
      "<tool_call> tags:\n"
      "<tool_call>\n{\"name\": \"function_name\", \"arguments\": {}}\n</tool_call>";
  return text;
}

std::string calls_as_text(const Json& message) {
  std::string text = message.value("content", "");
  for (const Json& call : message.at("tool_calls")) {
    const Json& function = call.at("function");
    if (!text.empty()) text += '\n';
    text += fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
                        to_text(function.at("name")), function.at("arguments").get<std::string>());
  }
  return text;
}

}  // namespace

Json with_tools_as_text(const Json& messages, const Json& tools) {
  Json result = Json::array();
  const std::string told = instructions(tools);
  const bool has_system = !messages.empty() && messages.front().value("role", "") == "system";
  if (!has_system) result.push_back({{"role", "system"}, {"content", told}});
  for (const Json& message : messages) {
    const std::string role = message.value("role", "");
    if (role == "tool") {
      result.push_back(
          {{"role", "user"},
           {"content", "<tool_response>\n" + message.value("content", "") + "\n</tool_response>"}});
    } else if (role == "assistant" && message.contains("tool_calls")) {
      result.push_back({{"role", role}, {"content", calls_as_text(message)}});
    } else {
      result.push_back(message);
    }
  }
  if (has_system) {
    Json& system = result.front();
    system["content"] = system.value("content", "") + "\n\n" + told;
  }
  return result;
}

}  // namespace strata::serve
