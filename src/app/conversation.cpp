#include "src/app/conversation.hpp"

#include "strata/base/error.hpp"

#include <fmt/format.h>

namespace strata::app {
namespace {

using nlohmann::ordered_json;

ordered_json message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

std::string text_of(const text::Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  return id ? std::string(tokenizer.piece(*id)) : std::string();
}

}  // namespace

Conversation Conversation::chat(const Engine& engine, std::string_view system) {
  const text::Tokenizer& tokenizer = engine.tokenizer();
  if (engine.chat_template_source().empty()) {
    fail(ErrorKind::kUsage,
         "this model's file has no chat template; --raw has the model go on with the text itself");
  }
  Conversation conversation(tokenizer);
  try {
    conversation.template_ = text::ChatTemplate::parse(engine.chat_template_source(),
                                                       {.bos = text_of(tokenizer, tokenizer.bos()),
                                                        .eos = text_of(tokenizer, tokenizer.eos()),
                                                        .unk = {},
                                                        .pad = {}});
  } catch (const Error& error) {
    fail(error.kind(), "the model's chat template: {}; --raw does without it", error.what());
  }
  if (!system.empty()) conversation.system_.push_back(message("system", system));
  conversation.reset();
  return conversation;
}

Conversation Conversation::raw(const Engine& engine) { return Conversation(engine.tokenizer()); }

std::vector<std::int32_t> Conversation::ask(std::string_view text) {
  if (!template_) {
    text_before_ask_ = text_.size();
    text_ += text;
    return tokenizer_.encode(text_, {.parse_special = true});
  }
  messages_.push_back(message("user", text));
  return render();
}

std::vector<std::int32_t> Conversation::render() const {
  const std::vector<text::RenderedSegment> rendered = template_->render(messages_, nullptr);
  std::vector<text::Segment> segments;
  segments.reserve(rendered.size());
  for (const text::RenderedSegment& r : rendered) segments.push_back({r.text, r.trusted});
  // A template writes the BOS token itself where the model wants one.
  return tokenizer_.encode(segments, false, false);
}

void Conversation::answered(std::string_view text) {
  if (template_) {
    messages_.push_back(message("assistant", text));
  } else {
    text_ += text;
  }
}

void Conversation::take_back() {
  if (template_) {
    messages_.erase(messages_.size() - 1);
  } else {
    text_.resize(text_before_ask_);
  }
}

void Conversation::reset() {
  messages_ = system_;
  text_.clear();
}

}  // namespace strata::app
