#include "strata/text/detokenizer.hpp"

#include "strata/text/unicode.hpp"

#include <string_view>

namespace strata::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, const DetokenizerOptions& options)
    : tokenizer_(&tokenizer),
      options_(options),
      strip_space_(options.at_text_start && tokenizer.adds_space_prefix()) {}

std::string Detokenizer::feed(std::int32_t id) {
  std::string_view piece = tokenizer_->piece(id);
  if (!options_.show_control && !tokenizer_->is_visible(id)) return {};
  if (strip_space_ && !tokenizer_->is_control(id) && !piece.empty()) {
    if (piece.front() == ' ') piece.remove_prefix(1);
    strip_space_ = false;
  }
  pending_ += piece;
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const std::size_t valid = valid_utf8_prefix(rest);
    text += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const Utf8Char next = decode_utf8(rest);
    if (next.status == Utf8Status::kIncomplete) break;
    text += kReplacement;
    rest.remove_prefix(next.size);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text;
}

std::string Detokenizer::flush() {
  std::string text(pending_.empty() ? std::string_view{} : kReplacement);
  *this = Detokenizer(*tokenizer_, options_);
  return text;
}

std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                   const DetokenizerOptions& options) {
  Detokenizer stream(tokenizer, options);
  std::string text;
  for (const std::int32_t id : ids) text += stream.feed(id);
  return text + stream.flush();
}

}  // namespace strata::text
