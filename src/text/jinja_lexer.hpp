// Splits a template into tokens as jinja2's lexer does with trim_blocks and lstrip_blocks on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text::jinja {

enum class TokenKind : std::uint8_t {
  kData,           // text outside of tags
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kName,
  kString,   // `text` is the value, escapes resolved
  kInteger,  // `text` is the literal without underscores
  kFloat,
  kOperator,  // `text` is the operator
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::uint32_t line = 1;
  std::string text;

  [[nodiscard]] bool is(TokenKind wanted, std::string_view value) const {
    return kind == wanted && text == value;
  }
  [[nodiscard]] bool is_name(std::string_view value) const { return is(TokenKind::kName, value); }
  [[nodiscard]] bool is_operator(std::string_view value) const {
    return is(TokenKind::kOperator, value);
  }
};

// Fails with a template's line and the reason.
[[noreturn]] void fail_syntax(std::uint32_t line, std::string_view message);

// Tokens come one at a time, so that of two mistakes the first in the text is reported.
class Lexer {
 public:
  // `source` must be valid UTF-8.
  explicit Lexer(std::string_view source);

  // The next token; kEnd again and again at the end. Fails on text that is no token.
  [[nodiscard]] Token next();

 private:
  enum class State : std::uint8_t { kRoot, kVariable, kBlock };

  bool lex_root(Token& token);  // false when what it passed makes no token
  void lex_raw(std::size_t tag_size, Token& token);
  void skip_comment();
  bool lex_tag(Token& token);
  bool lex_tag_end(Token& token);
  void lex_number(Token& token);
  void lex_name(Token& token);
  void lex_string(Token& token);
  void lex_operator(Token& token);
  void append_escape(std::string_view body, std::size_t& at, std::string& out) const;

  [[nodiscard]] bool looking_at(std::string_view text) const {
    return std::string_view(source_).substr(at_).starts_with(text);
  }
  [[nodiscard]] std::size_t raw_tag_size(std::size_t at) const;
  [[nodiscard]] std::size_t skip_space(std::size_t at) const;
  [[nodiscard]] std::size_t tag_end_size(std::string_view close, bool trims) const;
  std::string strip_before_tag(std::size_t begin, std::size_t end, char sign, bool lstrips) const;
  void advance(std::size_t size);  // moves on and counts lines

  std::string source_;
  std::size_t at_ = 0;
  std::uint32_t line_ = 1;
  std::uint32_t last_line_ = 1;  // of the last token; the end counts as on it
  State state_ = State::kRoot;
  bool line_starting_ = true;  // what was consumed last ended a line
  std::vector<char> open_;     // the closing brackets awaited
};

}  // namespace strata::text::jinja
