// Regular expressions of JSON Schema: ECMA-262, with the u flag.
#include "src/text/grammar_expr.hpp"
#include "src/text/json_schema_strings.hpp"
#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace strata::text::schema {
namespace {

using grammar::Budget;
using grammar::CharSet;
using grammar::Dfa;
using grammar::Expr;
using grammar::ExprWriter;
using grammar::Nfa;
using grammar::State;
using Range = CharSet::Range;

constexpr std::size_t kExprCost = 64;  // in steps: what bounds the memory of expressions

CharSet digits() { return CharSet({{'0', '9'}}); }
CharSet words() { return CharSet({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}}); }
CharSet line_ends() { return CharSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}); }
CharSet spaces() {
  return CharSet({{'\t', '\r'},
                  {' ', ' '},
                  {0xA0, 0xA0},
                  {0x1680, 0x1680},
                  {0x2000, 0x200A},
                  {0x2028, 0x2029},
                  {0x202F, 0x202F},
                  {0x205F, 0x205F},
                  {0x3000, 0x3000},
                  {0xFEFF, 0xFEFF}});
}

class PatternReader {
 public:
  PatternReader(std::string_view text, Budget& budget) : text_(text), budget_(budget) {}

  Expr read() {
    Expr expr = read_choice(0);
    if (!at_end()) error("there is no '(' for this ')'");
    return expr;
  }

 private:
  [[noreturn]] void error(std::string_view reason) const {
    fail(ErrorKind::kUsage, "{} (at byte {})", reason, at_);
  }
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool skip(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }

  Expr read_choice(std::size_t depth) {
    if (depth > budget_.limits().max_nesting) {
      Budget::crossed("groups inside one another", "max_nesting", budget_.limits().max_nesting);
    }
    Expr choice = Expr::of(Expr::Kind::kChoice);
    do {
      Expr sequence;
      while (!at_end() && peek() != '|' && peek() != ')') {
        budget_.spend(kExprCost);
        sequence.children.push_back(read_term(depth));
      }
      choice.children.push_back(std::move(sequence));
    } while (skip("|"));
    return choice;
  }

  Expr read_term(std::size_t depth) {
    if (skip("^")) return Expr::of(Expr::Kind::kTextBegin);
    if (skip("$")) return Expr::of(Expr::Kind::kTextEnd);
    Expr atom = read_atom(depth);
    std::uint32_t min = 0;
    std::uint32_t max = Grammar::kEndless;
    if (!read_repetition(min, max)) return atom;
    (void)skip("?");  // the shortest match first: which texts match is the same
    if (is_repetition(peek())) error("a repetition of a repetition");
    return Expr::repeat(std::move(atom), min, max);
  }

  static bool is_repetition(char c) { return c == '*' || c == '+' || c == '?'; }

  bool read_repetition(std::uint32_t& min, std::uint32_t& max) {
    if (skip("*")) return true;
    if (skip("+")) {
      min = 1;
      return true;
    }
    if (skip("?")) {
      max = 1;
      return true;
    }
    const std::size_t begin = at_;
    if (!skip("{")) return false;
    const auto first = read_number();
    bool well_formed = first.has_value();
    if (first) min = max = *first;
    if (well_formed && skip(",")) {
      const auto last = read_number();
      max = last.value_or(Grammar::kEndless);
    }
    well_formed = well_formed && skip("}");
    if (!well_formed) {  // a brace that stands for itself
      at_ = begin;
      min = 0;
      max = Grammar::kEndless;
      return false;
    }
    if (max < min) error("the repetition ends before it begins");
    return true;
  }

  std::optional<std::uint32_t> read_number() {
    if (peek() < '0' || peek() > '9') return std::nullopt;
    std::uint64_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++at_) {
      value = std::min<std::uint64_t>(value * 10 + static_cast<std::uint64_t>(peek() - '0'), kMany);
    }
    return static_cast<std::uint32_t>(value);
  }

  Expr read_atom(std::size_t depth) {
    if (is_repetition(peek())) error("nothing to repeat");
    if (skip("(")) {
      if (skip("?")) {
        if (skip("=") || skip("!") || skip("<=") || skip("<!")) {
          error("look-ahead and look-behind cannot be enforced");
        }
        if (skip("<")) {
          at_ = std::min(text_.find('>', at_), text_.size());
          if (!skip(">")) error("the group's name has no '>'");
        } else if (!skip(":")) {
          error("an unknown kind of group");
        }
      }
      Expr group = read_choice(depth + 1);
      if (!skip(")")) error("the group has no ')'");
      return group;
    }
    if (skip("[")) return Expr::of(read_class());
    if (skip(".")) return Expr::of(line_ends().complement());
    if (skip("\\")) {
      if (peek() == 'b' || peek() == 'B') error("\\b and \\B cannot be enforced");
      if ((peek() >= '1' && peek() <= '9') || peek() == 'k') {
        error("references to groups cannot be enforced");
      }
      return Expr::of(read_escape());
    }
    return Expr::of(read_character());
  }

  char32_t read_character() {
    const Utf8Char next = decode_utf8(text_.substr(at_));
    if (next.status != Utf8Status::kValid) error("not valid UTF-8");
    at_ += next.size;
    return next.code_point;
  }

  CharSet read_class() {
    const bool negated = skip("^");
    std::vector<Range> ranges;
    while (!skip("]")) {
      budget_.spend(kExprCost);
      const CharSet first = read_class_part();
      if (peek() == '-' && !text_.substr(at_).starts_with("-]")) {
        ++at_;
        const CharSet last = read_class_part();
        if (!is_single(first) || !is_single(last)) error("a range that is not between characters");
        if (last.ranges()[0].first < first.ranges()[0].first) {
          error("the range ends before it begins");
        }
        ranges.push_back({first.ranges()[0].first, last.ranges()[0].first});
      } else {
        ranges.insert(ranges.end(), first.ranges().begin(), first.ranges().end());
      }
    }
    const CharSet set(std::move(ranges));
    return negated ? set.complement() : set;
  }

  static bool is_single(const CharSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }

  CharSet read_class_part() {
    if (at_end()) error("the class has no ']'");
    if (skip("\\")) {
      if (skip("b")) return CharSet({{'\b', '\b'}});
      return read_escape();
    }
    const char32_t character = read_character();
    return CharSet({{character, character}});
  }

  CharSet read_escape() {
    if (at_end()) error("a '\\' at the end");
    const char c = peek();
    ++at_;
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return digits().complement();
      case 'w':
        return words();
      case 'W':
        return words().complement();
      case 's':
        return spaces();
      case 'S':
        return spaces().complement();
      case 'p':
      case 'P':
        error("\\p and \\P cannot be enforced");
      default:
        break;
    }
    --at_;
    const char32_t character = read_character_escape();
    return CharSet({{character, character}});
  }

  char32_t read_character_escape() {
    constexpr std::string_view kNames = "tnvfr0";
    constexpr std::string_view kMeanings("\t\n\v\f\r\0", 6);
    if (const std::size_t i = kNames.find(peek()); i != std::string_view::npos) {
      ++at_;
      return static_cast<char32_t>(kMeanings[i]);
    }
    if (skip("c")) {
      const char lower = static_cast<char>(peek() | 0x20);
      if (lower < 'a' || lower > 'z') error("\\c without a letter");
      ++at_;
      return static_cast<char32_t>(lower - 'a' + 1);
    }
    if (skip("x")) return read_hex(2);
    if (skip("u{")) {
      const std::size_t end = text_.find('}', at_);
      if (end == std::string_view::npos || end == at_ || end - at_ > 6)
        error("\\u{} without a number");
      const char32_t value = read_hex(end - at_);
      ++at_;
      return value;
    }
    if (skip("u")) {
      const char32_t high = read_hex(4);
      if (high < 0xD800 || high > 0xDBFF || !skip("\\u")) return high;
      const char32_t low = read_hex(4);
      if (low < 0xDC00 || low > 0xDFFF) error("half of a surrogate pair");
      return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    const char c = peek();
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) error("an unknown escape");
    return read_character();
  }

  char32_t read_hex(std::size_t count) {
    char32_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const char c = peek();
      const bool digit = c >= '0' && c <= '9';
      const char lower = static_cast<char>(c | 0x20);
      if (!digit && (lower < 'a' || lower > 'f')) error("an escape without its hexadecimal digits");
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : lower - 'a' + 10);
      ++at_;
    }
    if (value > 0x10FFFF) error("an escape above U+10FFFF");
    return value;
  }

  std::string_view text_;
  Budget& budget_;
  std::size_t at_ = 0;
};

// Bytes that no string of JSON holds stand for the text's two ends, and "^" and "$" match them.
constexpr std::uint8_t kBegin = 2;
constexpr std::uint8_t kEnd = 3;

class PatternWriter : public ExprWriter {
 public:
  using AddCharacters = void (*)(Nfa&, State, const CharSet&, State);
  explicit PatternWriter(AddCharacters add) : add_(add) {}

  // Any number of characters, between `from` and the state that is returned.
  State anything(Nfa& nfa, State from) {
    const State loop = nfa.add();
    nfa.empty(from, loop);
    add_(nfa, loop, CharSet::all(), loop);
    return loop;
  }

 private:
  void characters(Nfa& nfa, State from, const CharSet& set, State to) override {
    add_(nfa, from, set, to);
  }
  State special(Nfa& nfa, const Expr& expr, State from) override {
    const State to = nfa.add();
    const std::uint8_t mark = expr.kind == Expr::Kind::kTextBegin ? kBegin : kEnd;
    nfa.bytes(from, mark, mark, to);
    return to;
  }
  AddCharacters add_;
};

// From the language of marked texts to that of unmarked ones.
Dfa without_marks(Dfa dfa) {
  const Dfa::ByteEdge* begin = dfa.nodes[0].find(kBegin);
  if (begin == nullptr) {
    dfa.nodes.assign(1, {});
    return dfa;
  }
  dfa.nodes[0] = Dfa::Node(dfa.nodes[begin->to]);  // nothing leads back to the start
  std::vector<bool> accepting;
  for (const Dfa::Node& node : dfa.nodes) {
    const Dfa::ByteEdge* end = node.find(kEnd);
    accepting.push_back(end != nullptr && dfa.nodes[end->to].accepting);
  }
  for (std::size_t i = 0; i < dfa.nodes.size(); ++i) {
    dfa.nodes[i].accepting = accepting[i];
    std::erase_if(dfa.nodes[i].bytes, [](const Dfa::ByteEdge& edge) { return edge.last <= kEnd; });
  }
  dfa.trim();
  return dfa;
}

}  // namespace

Dfa pattern_language(std::string_view pattern, Budget& budget) {
  const Expr expr = PatternReader(pattern, budget).read();
  Nfa nfa(budget);
  PatternWriter writer(add_string_characters);
  const State start = nfa.add();
  const State body = nfa.add();
  const State begun = nfa.add();
  const State accept = nfa.add();
  nfa.empty(start, body);  // where the pattern says "^" itself
  nfa.bytes(start, kBegin, kBegin, begun);
  nfa.empty(writer.anything(nfa, begun), body);
  const State matched = writer.write(nfa, expr, body);
  nfa.empty(matched, accept);  // where it says "$" itself
  nfa.bytes(writer.anything(nfa, matched), kEnd, kEnd, accept);
  return without_marks(determinize(nfa, start, accept, budget));
}

Dfa whole_text_language(std::string_view pattern, Budget& budget) {
  const Expr expr = PatternReader(pattern, budget).read();
  Nfa nfa(budget);
  const State start = nfa.add();
  const State accept = PatternWriter(grammar::add_characters).write(nfa, expr, start);
  return determinize(nfa, start, accept, budget);
}

}  // namespace strata::text::schema
