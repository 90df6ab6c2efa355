#include "src/text/jinja_lexer.hpp"

#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"

#include "src/text/jinja_unicode.hpp"

#include <algorithm>
#include <array>

namespace strata::text::jinja {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

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

std::string without_underscores(std::string_view literal) {
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
  token.text = without_underscores(std::string_view(source_).substr(at_, size));
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
