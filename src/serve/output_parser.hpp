// From the text a model writes to what an API calls its reasoning, its answer and its tool calls.
#pragma once

#include "src/serve/fields.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata::serve {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text
};

struct Delta {
  enum class Kind { kReasoning, kText, kToolCall };
  Kind kind = Kind::kText;
  std::string text;
  ToolCall call;  // of kToolCall, whole
};
using Deltas = std::vector<Delta>;

enum class OutputForm {
  kPlain,    // text and nothing else
  kTagged,   // <think>...</think>, <tool_call>...</tool_call> around JSON or XML: Qwen, Hermes
  kHarmony,  // channels: gpt-oss
};

struct OutputStyle {
  OutputForm form = OutputForm::kPlain;
  bool thinks = false;         // kTagged: the text may begin with <think>
  bool starts_inside = false;  // kTagged: the prompt ended behind <think>
  Json tools = nullptr;  // that may be called, in OpenAI's form; null: what looks like a call is
                         // text
};

// Feeds on the text of one answer, however it is cut into pieces. Not thread-safe.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  OutputParser(const OutputParser&) = delete;
  OutputParser& operator=(const OutputParser&) = delete;

  // Appends what is known now.
  virtual void feed(std::string_view text, Deltas& out) = 0;
  // The text has ended: what was held back.
  virtual void finish(Deltas& out) = 0;

  [[nodiscard]] static std::unique_ptr<OutputParser> make(const OutputStyle& style);

 protected:
  OutputParser() = default;
};

// "call_" and the like, with 24 random letters and digits behind it.
[[nodiscard]] std::string random_id(std::string_view prefix);

// The call that is in the body of a <tool_call>: a JSON object with name and arguments, or
// <function=NAME> with <parameter=NAME> elements whose values get the types that `tools` says.
// Nothing when it is neither.
[[nodiscard]] std::optional<ToolCall> parse_tool_call(std::string_view body, const Json& tools);

}  // namespace strata::serve
