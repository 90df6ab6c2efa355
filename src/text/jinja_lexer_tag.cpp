// What stands inside a tag: numbers, names, strings and operators.
#include "src/text/jinja_lexer.hpp"
#include "src/text/jinja_unicode.hpp"
#include "strata/text/unicode.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace strata::text::jinja {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number of digits of `base` that start at `at`, with single underscores between them.
std::size_t digits(std::string_view text, std::size_t at, int base) {
  const auto valid = [base](char c) {
    const int value = is_digit(c)              ? c - '0'
                      : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                      : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                               : 99;
    return value < base;
  };
  std::size_t end = at;
  while (end < text.size()) {
    if (valid(text[end])) {
      ++end;
    } else if (end > at && text[end] == '_' && end + 1 < text.size() && valid(text[end + 1])) {
      end += 2;
    } else {
      break;
    }
  }
  return end - at;
}

// The size of a float literal at `at`, or 0: digits, then a fraction, an exponent or both.
std::size_t float_size(std::string_view text, std::size_t at) {
  if (at > 0 && text[at - 1] == '.') return 0;
  std::size_t end = at + digits(text, at, 10);
  if (end == at) return 0;
  bool real = false;
  if (end < text.size() && text[end] == '.') {
    const std::size_t fraction = digits(text, end + 1, 10);
    if (fraction > 0) {
      end += 1 + fraction;
      real = true;
    }
  }
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    std::size_t exponent = end + 1;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    const std::size_t size = digits(text, exponent, 10);
    if (size > 0) {
      end = exponent + size;
      real = true;
    }
  }
  return real ? end - at : 0;
}

// The size of an integer literal at `at`: 0b1, 0o7, 0xf, 10 or 0.
std::size_t integer_size(std::string_view text, std::size_t at) {
  if (text[at] != '0') return digits(text, at, 10);
  if (at + 1 < text.size()) {
    const char mark = text[at + 1];
    const int base = (mark == 'b' || mark == 'B')   ? 2
                     : (mark == 'o' || mark == 'O') ? 8
                     : (mark == 'x' || mark == 'X') ? 16
                                                    : 0;
    if (base != 0) {
      const std::size_t underscore = at + 2 < text.size() && text[at + 2] == '_' ? 1 : 0;
      const std::size_t size = digits(text, at + 2 + underscore, base);
      if (size > 0) return 2 + underscore + size;
    }
  }
  return digits(text, at, 1);  // zeros only: 07 is two literals, and so a mistake
}

std::string strip_underscores(std::string_view literal) {
  std::string out(literal);
  out.erase(std::remove(out.begin(), out.end(), '_'), out.end());
  return out;
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

bool Lexer::lex_tag(Token& token) {
  if (lex_tag_end(token)) return true;
  const std::size_t space = skip_space(at_) - at_;
  if (space > 0) {
    advance(space);
    return false;
  }
  const char c = source_[at_];
  if (is_digit(c)) {
    lex_number(token);
  } else if (c == '\'' || c == '"') {
    lex_string(token);
  } else if (c == '_' || is_alnum(decode(source_, at_).code)) {
    lex_name(token);
  } else {
    lex_operator(token);
  }
  return true;
}

bool Lexer::lex_tag_end(Token& token) {
  if (!open_.empty()) return false;  // "}}" may close two dicts
  const bool block = state_ == State::kBlock;
  const std::size_t size = tag_end_size(block ? "%}" : "}}", block);
  if (size == 0) return false;
  token.kind = block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd;
  state_ = State::kRoot;
  advance(size);
  return true;
}

void Lexer::lex_number(Token& token) {
  std::size_t size = float_size(source_, at_);
  token.kind = size > 0 ? TokenKind::kFloat : TokenKind::kInteger;
  if (size == 0) size = integer_size(source_, at_);
  token.text = strip_underscores(std::string_view(source_).substr(at_, size));
  advance(size);
}

void Lexer::lex_name(Token& token) {
  std::size_t end = at_;
  while (end < source_.size()) {
    const Decoded c = decode(source_, end);
    if (c.code != '_' && !is_alnum(c.code)) break;
    end += c.size;
  }
  token.kind = TokenKind::kName;
  token.text = source_.substr(at_, end - at_);
  advance(end - at_);
}

void Lexer::lex_string(Token& token) {
  const char quote = source_[at_];
  std::size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) {
    fail_syntax(line_, fmt::format("unexpected char {} at {}", quote, at_));
  }
  const std::string_view body = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
  token.kind = TokenKind::kString;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t escape = body.find('\\', at);
    token.text += body.substr(at, escape - at);
    if (escape == std::string_view::npos) break;
    at = escape + 1;
    append_escape(body, at, token.text);
  }
  advance(end + 1 - at_);
}

// Resolves the escape whose character after the backslash is at `at`, as Python does; unknown ones
// stay as they are.
void Lexer::append_escape(std::string_view body, std::size_t& at, std::string& out) const {
  static constexpr std::string_view kFrom = "\\'\"abfnrtv";
  static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
  const char c = body[at++];
  if (const std::size_t simple = kFrom.find(c); simple != std::string_view::npos) {
    out.push_back(kTo[simple]);
  } else if (c == '\n') {
    return;  // a continued line
  } else if (c == 'x' || c == 'u' || c == 'U') {
    const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    std::uint32_t code = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const int digit = at < body.size() ? hex_value(body[at]) : -1;
      if (digit < 0) fail_syntax(line_, fmt::format("truncated \\{} escape", c));
      code = code << 4 | static_cast<std::uint32_t>(digit);
      ++at;
    }
    if (!is_code_point(code)) {
      fail_syntax(line_, fmt::format("the escape \\{}{:X} names no character", c, code));
    }
    append_utf8(out, static_cast<char32_t>(code));
  } else if (c >= '0' && c <= '7') {
    std::uint32_t code = static_cast<std::uint32_t>(c - '0');
    for (int i = 0; i < 2 && at < body.size() && body[at] >= '0' && body[at] <= '7'; ++i) {
      code = code << 3 | static_cast<std::uint32_t>(body[at++] - '0');
    }
    append_utf8(out, static_cast<char32_t>(code));
  } else if (c == 'N') {
    fail_syntax(line_, "character names (\\N{...}) are not supported; write the character itself");
  } else {
    out.push_back('\\');
    out.push_back(c);
  }
}

void Lexer::lex_operator(Token& token) {
  static constexpr std::array<std::string_view, 6> kDouble = {"**", "//", "==", "!=", ">=", "<="};
  static constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
  token.kind = TokenKind::kOperator;
  for (const std::string_view pair : kDouble) {
    if (looking_at(pair)) {
      token.text = pair;
      advance(2);
      return;
    }
  }
  const char c = source_[at_];
  if (kSingle.find(c) == std::string_view::npos) {
    const std::size_t size = decode(source_, at_).size;
    fail_syntax(line_, fmt::format("unexpected char '{}' at {}", source_.substr(at_, size), at_));
  }
  if (c == '(' || c == '[' || c == '{') {
    open_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
  } else if (c == ')' || c == ']' || c == '}') {
    if (open_.empty()) fail_syntax(line_, fmt::format("unexpected '{}'", c));
    if (open_.back() != c) {
      fail_syntax(line_, fmt::format("unexpected '{}', expected '{}'", c, open_.back()));
    }
    open_.pop_back();
  }
  token.text = c;
  advance(1);
}

}  // namespace strata::text::jinja
