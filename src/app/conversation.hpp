// The text a model goes on with: the turns of a chat, or one text as it stands.
#pragma once

#include "strata/runtime/engine.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::app {

class Conversation {
 public:
  // `raw`: no template; what is asked is appended to the text so far, special tokens in it are
  // recognised. Error(kUsage) for a system message with `raw`. The tokenizer must outlive it.
  Conversation(const Engine& engine, bool raw, std::string system);

  // The prompt for an answer to `text`, which counts as said from then on. Error(kUsage) for an
  // empty prompt.
  [[nodiscard]] std::vector<std::int32_t> ask(std::string_view text);
  // How the model answered.
  void answered(std::string_view text);
  // Takes back the last ask(), which has no answer.
  void take_back();
  // Forgets all but the system message.
  void reset();

 private:
  const text::Tokenizer& tokenizer_;
  std::string text_;
  std::size_t before_ask_ = 0;
};

}  // namespace strata::app
