// A model's chat template: turns a conversation into the text the model was trained to continue.
#pragma once

#include "strata/text/jinja.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

// Texts of special tokens, which templates know as bos_token and so on. One the tokenizer lacks
// stays empty, and is then undefined in the template.
struct SpecialTokenTexts {
  std::string bos;
  std::string eos;
  std::string unk;
  std::string pad;
};

struct ChatOptions {
  // End with the header of the assistant's next message.
  bool add_generation_prompt = true;
  // Further variables by name, e.g. {"enable_thinking": false}. Which a template has, mentions()
  // tells.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  // What strftime_now tells; by default this machine's time.
  std::optional<CivilTime> now;
};

// Cheap to copy, immutable, safe to render from any number of threads at once.
class ChatTemplate {
 public:
  // `source` is the Jinja text, e.g. of the GGUF's tokenizer.chat_template; what to do when a model
  // has none is the caller's to decide. Errors: kInput, with the line, when the text is not a
  // template this engine can run.
  [[nodiscard]] static ChatTemplate parse(std::string_view source, SpecialTokenTexts tokens,
                                          const JinjaLimits& limits = {});

  // `messages`: an array of objects, each with a "role" and most with a "content": a string, or an
  // array of parts such as {"type": "text", "text": ...}, which the template gets as it is.
  // `tools`: an array of JSON schemas of functions, or null. Before the template sees them,
  //   - a message's members that are null are dropped, as many templates take any member that
  //   exists for a text;
  //   - the reasoning of an assistant's message, called reasoning_content, thinking or reasoning,
  //   gets the first two of
  //     these names where it lacks them, as templates read either;
  //   - the arguments of a tool call become what the template takes: an object, or its JSON text.
  // The rendered text is trusted but for what came from messages, tools and variables; of these
  // only the names of roles that all models share are trusted, as some templates make special
  // tokens of them. Errors: kUsage for messages, tools or variables of the wrong form; else as
  // JinjaTemplate::render.
  [[nodiscard]] std::vector<RenderedSegment> render(const nlohmann::ordered_json& messages,
                                                    const nlohmann::ordered_json& tools,
                                                    const ChatOptions& options = {}) const;

  // Whether the template has this name as a variable: "tools", "enable_thinking", ...
  [[nodiscard]] bool mentions(std::string_view variable) const {
    return template_.mentions(variable);
  }

 private:
  // The form in which the template takes the arguments of tool calls.
  enum class ArgumentForm { kObject, kText };

  ChatTemplate(JinjaTemplate parsed, SpecialTokenTexts tokens)
      : template_(std::move(parsed)), tokens_(std::move(tokens)) {}
  [[nodiscard]] std::string try_tool_call(const nlohmann::ordered_json& arguments) const;
  [[nodiscard]] ArgumentForm find_argument_form() const;
  [[nodiscard]] std::vector<RenderedSegment> render_prepared(const nlohmann::ordered_json& messages,
                                                             const nlohmann::ordered_json& tools,
                                                             const ChatOptions& options) const;

  JinjaTemplate template_;
  SpecialTokenTexts tokens_;
  ArgumentForm argument_form_ = ArgumentForm::kObject;
};

// Removes `prefix` from the front of the text when it stands there and is trusted, e.g. a bos token
// that the tokenizer will add itself. Tells whether it did.
bool strip_trusted_prefix(std::vector<RenderedSegment>& segments, std::string_view prefix);

// The texts of all segments, joined.
[[nodiscard]] std::string join_segments(const std::vector<RenderedSegment>& segments);

}  // namespace strata::text
