#include "src/app/conversation.hpp"

#include "strata/base/error.hpp"

namespace strata::app {

Conversation::Conversation(const Engine& engine, bool raw, std::string system)
    : tokenizer_(engine.tokenizer()) {
  if (!raw) fail(ErrorKind::kUnsupported, "chat templates are not supported yet; use --raw");
  if (!system.empty()) fail(ErrorKind::kUsage, "--system: a raw text has no system message");
}

std::vector<std::int32_t> Conversation::ask(std::string_view text) {
  before_ask_ = text_.size();
  text_ += text;
  return tokenizer_.encode(text_, {.parse_special = true});
}

void Conversation::answered(std::string_view text) { text_ += text; }
void Conversation::take_back() { text_.resize(before_ask_); }
void Conversation::reset() { text_.clear(); }

}  // namespace strata::app
