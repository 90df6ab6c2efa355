#include "src/text/jinja_lexer.hpp"

#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"

#include "src/text/jinja_unicode.hpp"

#include <algorithm>
#include <array>

namespace strata::text::jinja {
namespace {

// Line ends become "\n", and one at the very end goes.
std::string normalise(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out.push_back('\n');
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

}  // namespace

void fail_syntax(std::uint32_t line, std::string_view message) {
  fail(ErrorKind::kInput, "chat template, line {}: {}", line, message);
}

Lexer::Lexer(std::string_view source) : source_(normalise(source)) {}

void Lexer::advance(std::size_t size) {
  const std::string_view passed = std::string_view(source_).substr(at_, size);
  line_ += static_cast<std::uint32_t>(std::count(passed.begin(), passed.end(), '\n'));
  if (!passed.empty()) line_starting_ = passed.back() == '\n';
  at_ += size;
}

Token Lexer::next() {
  Token token;
  while (at_ < source_.size()) {
    token.line = line_;
    token.text.clear();
    if (state_ == State::kRoot ? lex_root(token) : lex_tag(token)) {
      last_line_ = token.line;
      return token;
    }
  }
  token.kind = TokenKind::kEnd;
  token.line = last_line_;
  token.text.clear();
  return token;
}

std::size_t Lexer::skip_space(std::size_t at) const {
  while (at < source_.size()) {
    const Decoded c = decode(source_, at);
    if (!is_space(c.code)) break;
    at += c.size;
  }
  return at;
}

// The size of a `{% raw %}` tag at `at`, or 0.
std::size_t Lexer::raw_tag_size(std::size_t at) const {
  const std::string_view text = source_;
  std::size_t end = at + 2;
  if (end < text.size() && (text[end] == '-' || text[end] == '+')) ++end;
  end = skip_space(end);
  if (!text.substr(end).starts_with("raw")) return 0;
  end = skip_space(end + 3);
  if (text.substr(end).starts_with("-%}")) return skip_space(end + 3) - at;
  if (text.substr(end).starts_with("%}")) return end + 2 - at;
  return 0;
}

// The text before a tag, less the whitespace that the tag's sign or lstrip_blocks takes away.
std::string Lexer::strip_before_tag(std::size_t begin, std::size_t end, char sign,
                                    bool lstrips) const {
  const std::string_view text = std::string_view(source_).substr(begin, end - begin);
  std::size_t kept = text.size();
  while (kept > 0) {
    const std::size_t start = previous(text, kept);
    if (!is_space(decode(text, start).code)) break;
    kept = start;
  }
  if (sign == '-') return std::string(text.substr(0, kept));
  if (sign == '+' || !lstrips) return std::string(text);
  const std::size_t newline = text.rfind('\n');
  if (newline == std::string_view::npos && !line_starting_) return std::string(text);
  const std::size_t last_line = newline == std::string_view::npos ? 0 : newline + 1;
  return std::string(text.substr(0, kept <= last_line ? last_line : text.size()));
}

bool Lexer::lex_root(Token& token) {
  std::size_t tag = at_;
  while (true) {
    tag = source_.find('{', tag);
    if (tag == std::string::npos || tag + 1 >= source_.size()) {
      token.kind = TokenKind::kData;
      token.text = source_.substr(at_);
      advance(source_.size() - at_);
      return true;
    }
    const char mark = source_[tag + 1];
    if (mark == '%' || mark == '{' || mark == '#') break;
    ++tag;
  }
  const char mark = source_[tag + 1];
  const char after = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
  const char sign = after == '-' || after == '+' ? after : '\0';
  std::string data = strip_before_tag(at_, tag, sign, mark != '{');
  if (!data.empty()) {
    // Give the text first. What was stripped goes with it, so the tag comes next with nothing
    // before it.
    token.kind = TokenKind::kData;
    token.text = std::move(data);
    advance(tag - at_);
    return true;
  }
  advance(tag - at_);
  token.line = line_;
  const std::size_t raw = mark == '%' ? raw_tag_size(tag) : 0;
  if (raw > 0) {
    lex_raw(raw, token);
    return true;
  }
  advance(sign == '\0' ? 2 : 3);
  if (mark == '#') {
    skip_comment();
    return false;
  }
  state_ = mark == '{' ? State::kVariable : State::kBlock;
  token.kind = mark == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin;
  return true;
}

// The size of a tag's end at the current place, signs and trimmed whitespace included, or 0.
std::size_t Lexer::tag_end_size(std::string_view close, bool trims) const {
  const std::string_view rest = std::string_view(source_).substr(at_);
  if (rest.starts_with(close)) {
    return close.size() + (trims && rest.substr(close.size()).starts_with('\n') ? 1 : 0);
  }
  if (!rest.substr(std::min<std::size_t>(1, rest.size())).starts_with(close)) return 0;
  if (rest[0] == '-') return skip_space(at_ + 1 + close.size()) - at_;
  if (rest[0] == '+' && trims) return 1 + close.size();
  return 0;
}

void Lexer::skip_comment() {
  const std::uint32_t line = line_;
  const std::size_t close = source_.find("#}", at_);
  if (close == std::string::npos) fail_syntax(line, "Missing end of comment tag");
  const bool sign = close > at_ && (source_[close - 1] == '-' || source_[close - 1] == '+');
  advance(close - (sign ? 1 : 0) - at_);
  advance(tag_end_size("#}", true));
}

void Lexer::lex_raw(std::size_t tag_size, Token& token) {
  advance(tag_size);
  const std::uint32_t line = line_;
  for (std::size_t tag = source_.find("{%", at_); tag != std::string::npos;
       tag = source_.find("{%", tag + 1)) {
    std::size_t end = tag + 2;
    const char after = end < source_.size() ? source_[end] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    end = skip_space(end + (sign == '\0' ? 0 : 1));
    if (!std::string_view(source_).substr(end).starts_with("endraw")) continue;
    end = skip_space(end + 6);
    const std::size_t here = at_;
    at_ = end;  // tag_end_size looks at the current place
    const std::size_t close = tag_end_size("%}", true);
    at_ = here;
    if (close == 0) continue;
    token.kind = TokenKind::kData;
    token.line = line;
    token.text = strip_before_tag(at_, tag, sign, true);
    advance(end + close - at_);
    return;
  }
  fail_syntax(line, "Missing end of raw directive");
}

}  // namespace strata::text::jinja
