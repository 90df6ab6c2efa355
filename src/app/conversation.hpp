// The text a model goes on with: the turns of a chat, or one text as it stands.
#pragma once

#include "strata/runtime/engine.hpp"
#include "strata/text/chat_template.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::app {

class Conversation {
 public:
  // With the chat template of the model's file; `system`, unless empty, is the first message.
  // Error(kUsage) when the file has no template, Error(kInput) when we cannot run it.
  [[nodiscard]] static Conversation chat(const Engine& engine, std::string_view system);
  // Without a template: what is asked and answered is one growing text. Special tokens in it are
  // recognised.
  [[nodiscard]] static Conversation raw(const Engine& engine);

  // The prompt for an answer to `text`, which counts as said from then on. Error(kInput) when the
  // template fails; `text` counts as said all the same.
  [[nodiscard]] std::vector<std::int32_t> ask(std::string_view text);
  // How the model answered.
  void answered(std::string_view text);
  // Takes back the last ask(), which has no answer.
  void take_back();
  // Forgets all but the system message.
  void reset();

 private:
  explicit Conversation(const text::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  [[nodiscard]] std::vector<std::int32_t> render() const;

  const text::Tokenizer& tokenizer_;                                 // the engine's
  std::optional<text::ChatTemplate> template_;                       // none: raw
  nlohmann::ordered_json system_ = nlohmann::ordered_json::array();  // none or one message
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  std::string text_;  // raw
  std::size_t text_before_ask_ = 0;
};

}  // namespace strata::app
