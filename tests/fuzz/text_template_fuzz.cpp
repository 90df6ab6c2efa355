// Any bytes as a chat template: an Error or a text, never a crash, a hang or a leak. The input may
// go on, after the first NUL byte, with JSON for the variables.
#include "strata/base/error.hpp"
#include "strata/text/jinja.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace {

using nlohmann::ordered_json;

const ordered_json& default_variables() {
  static const ordered_json variables = ordered_json::parse(R"({
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi é世🌍"},
                 {"role": "assistant", "content": "<think>\nx</think>\ny", "tool_calls": [
                   {"id": "c1", "type": "function",
                    "function": {"name": "f", "arguments": {"a": 1, "b": [true, null, 2.5, "x"]}}}
                 ]}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
               {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}],
    "s": "Hello World", "n": 3, "l": [3, 1, 2], "d": {"b": 1, "a": {"c": "x"}},
    "add_generation_prompt": true,
    "bos_token": "<s>"})");
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace strata::text;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  ordered_json variables = default_variables();
  if (end != std::string_view::npos) {
    ordered_json given = ordered_json::parse(input.substr(end + 1), nullptr, false);
    if (given.is_object()) variables = std::move(given);
  }
  JinjaLimits limits;
  limits.max_steps = 20'000;
  limits.max_memory_bytes = 16 << 20;
  try {
    const JinjaTemplate parsed = JinjaTemplate::parse(input.substr(0, end), limits);
    std::vector<JinjaVariable> list;
    for (const auto& [name, value] : variables.items()) list.push_back({name, &value});
    bool last = false;
    bool first = true;
    for (const RenderedSegment& segment : parsed.render(list, CivilTime{})) {
      if (segment.text.empty() || (!first && segment.trusted == last)) std::abort();
      last = segment.trusted;
      first = false;
    }
  } catch (const strata::Error&) {
  }
  return 0;
}
