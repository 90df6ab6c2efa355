// llama.cpp's GBNF: https://github.com/ggml-org/llama.cpp/blob/master/grammars/README.md
#include "src/text/grammar_expr.hpp"
#include "src/text/grammar_rules.hpp"
#include "strata/text/grammar.hpp"
#include "strata/text/unicode.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace strata::text {
namespace grammar {
namespace {

constexpr std::size_t kExprCost = 64;  // in steps: what bounds the memory of expressions

struct GbnfRule {
  std::string name;
  std::size_t line = 0;  // of its definition, or of the first use
  bool defined = false;
  Expr body;
};

class GbnfReader {
 public:
  GbnfReader(std::string_view source, Budget& budget) : source_(source), budget_(budget) {}

  // In the order in which their names appear.
  std::vector<GbnfRule> read() {
    skip_space(true);
    while (!at_end()) {
      read_rule();
      skip_space(true);
    }
    for (const GbnfRule& rule : rules_) {
      if (rule.defined) continue;
      line_ = rule.line;
      error("there is no rule '{}'", rule.name);
    }
    return std::move(rules_);
  }

 private:
  template <class... Args>
  [[noreturn]] void error(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kUsage, "grammar, line {}: {}", line_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] bool at_end() const { return at_ == source_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : source_[at_]; }
  bool skip(std::string_view text) {
    if (!source_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  // Spaces and comments; line breaks too, if `lines`.
  void skip_space(bool lines) {
    while (!at_end()) {
      const char c = peek();
      if (c == '#') {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n')) {
        line_ += c == '\n' ? 1 : 0;
        ++at_;
      } else {
        return;
      }
    }
  }

  void read_rule() {
    const std::string name = read_name();
    if (name.empty()) error("expected the name of a rule, found {}", found());
    skip_space(false);
    if (!skip("::=")) error("expected '::=' after '{}', found {}", name, found());
    const RuleId id = rule_id(name);
    if (rules_[id].defined) {
      error("rule '{}' is defined a second time; the first is in line {}", name, rules_[id].line);
    }
    rules_[id].defined = true;
    rules_[id].line = line_;
    skip_space(true);
    Expr body = read_choice(0);
    rules_[id].body = std::move(body);
    if (!at_end() && peek() != '\n') error("expected the end of the rule, found {}", found());
  }

  std::string read_name() {
    const std::size_t begin = at_;
    const auto is_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_';
    };
    while (is_name(peek())) ++at_;
    return std::string(source_.substr(begin, at_ - begin));
  }

  RuleId rule_id(const std::string& name) {
    const auto [entry, added] = ids_.try_emplace(name, static_cast<RuleId>(rules_.size()));
    if (added) rules_.push_back({name, line_, false, {}});
    return entry->second;
  }

  // Whether the choice goes on, perhaps on a later line: no rule begins with a bar.
  bool skip_bar(bool nested) {
    const std::size_t at = at_;
    const std::size_t line = line_;
    skip_space(true);
    if (skip("|")) return true;
    if (!nested) {
      at_ = at;
      line_ = line;
    }
    return false;
  }

  void check_nesting(std::size_t depth) const {
    if (depth > budget_.limits().max_nesting) {
      error("more than {} groups inside one another (max_nesting)", budget_.limits().max_nesting);
    }
  }

  Expr read_choice(std::size_t depth) {
    check_nesting(depth);
    Expr choice = Expr::of(Expr::Kind::kChoice);
    do {
      skip_space(true);
      choice.children.push_back(read_sequence(depth));
    } while (skip_bar(depth > 0));
    return choice;
  }

  Expr read_sequence(std::size_t depth) {
    Expr sequence;
    for (;;) {
      skip_space(depth > 0);
      std::optional<Expr> item = read_item(depth);
      if (!item) return sequence;
      budget_.spend(kExprCost);
      for (std::size_t i = depth; read_repetition(*item); ++i) check_nesting(i);
      sequence.children.push_back(std::move(*item));
    }
  }

  // Nothing: the sequence ends here.
  std::optional<Expr> read_item(std::size_t depth) {
    if (skip("\"")) return read_literal();
    if (skip("[")) return read_class();
    if (skip(".")) return Expr::of(CharSet::all());
    if (skip("(")) {
      Expr group = read_choice(depth + 1);
      skip_space(true);
      if (!skip(")")) error("expected ')', found {}", found());
      return group;
    }
    const std::string name = read_name();
    if (name.empty()) return std::nullopt;
    Expr rule = Expr::of(Expr::Kind::kRule);
    rule.rule = rule_id(name);
    return rule;
  }

  Expr read_literal() {
    Expr literal;
    while (!skip("\"")) {
      if (at_end() || peek() == '\n') error("the literal has no closing '\"'");
      budget_.spend(kExprCost);
      literal.children.push_back(Expr::of(read_character()));
    }
    return literal;
  }

  Expr read_class() {
    const bool negated = skip("^");
    std::vector<CharSet::Range> ranges;
    while (!skip("]")) {
      if (at_end() || peek() == '\n') error("the class has no closing ']'");
      budget_.spend(kExprCost);
      const char32_t first = read_character();
      char32_t last = first;
      if (peek() == '-' && !source_.substr(at_).starts_with("-]")) {
        ++at_;
        if (at_end() || peek() == '\n') error("the class has no closing ']'");
        last = read_character();
        if (last < first) error("the range ends before it begins");
      }
      ranges.push_back({first, last});
    }
    const CharSet set(std::move(ranges));
    return Expr::of(negated ? set.complement() : set);
  }

  char32_t read_character() {
    if (skip("\\")) return read_escape();
    const Utf8Char next = decode_utf8(source_.substr(at_));
    if (next.status != Utf8Status::kValid) error("the text is not valid UTF-8");
    at_ += next.size;
    return next.code_point;
  }

  char32_t read_escape() {
    const char c = peek();
    if (!at_end()) ++at_;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return read_hex(2);
      case 'u':
        return read_hex(4);
      case 'U':
        return read_hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      default:
        break;
    }
    error(
        "unknown escape '\\{}'; there are \\n \\r \\t \\xHH \\uHHHH \\UHHHHHHHH \\\\ \\\" \\[ \\] "
        "\\- \\^",
        c >= ' ' && c <= '~' ? std::string(1, c) : std::string());
  }

  char32_t read_hex(std::size_t digits) {
    char32_t value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const char c = peek();
      const bool digit = c >= '0' && c <= '9';
      const char lower = static_cast<char>(c | 0x20);
      if (!digit && (lower < 'a' || lower > 'f')) {
        error("the escape needs {} hexadecimal digits, found {}", digits, found());
      }
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : lower - 'a' + 10);
      ++at_;
    }
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      error("U+{:04X} is not a character", static_cast<std::uint32_t>(value));
    }
    return value;
  }

  // Wraps `item` if a repetition follows.
  bool read_repetition(Expr& item) {
    std::uint32_t min = 0;
    std::uint32_t max = Grammar::kEndless;
    if (skip("+")) {
      min = 1;
    } else if (skip("?")) {
      max = 1;
    } else if (skip("{")) {
      skip_space(false);
      min = max = read_number();
      skip_space(false);
      if (skip(",")) {
        skip_space(false);
        max = peek() == '}' ? Grammar::kEndless : read_number();
        skip_space(false);
      }
      if (!skip("}")) error("expected '}}' after the numbers of a repetition, found {}", found());
      if (max < min) error("the repetition {{{},{}}} ends before it begins", min, max);
    } else if (!skip("*")) {
      return false;
    }
    item = Expr::repeat(std::move(item), min, max);
    return true;
  }

  std::uint32_t read_number() {
    constexpr std::uint32_t kLargest = 1'000'000'000;
    std::uint64_t value = 0;
    if (peek() < '0' || peek() > '9') error("expected a number, found {}", found());
    while (peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<std::uint64_t>(source_[at_++] - '0');
      if (value > kLargest) error("a repetition of more than {}", kLargest);
    }
    return static_cast<std::uint32_t>(value);
  }

  [[nodiscard]] std::string found() const {
    if (at_end()) return "the end of the text";
    const char c = peek();
    if (c == '\n') return "the end of the line";
    if (c < ' ' || c > '~') return fmt::format("byte 0x{:02X}", static_cast<unsigned char>(c));
    return fmt::format("'{}'", c);
  }

  std::string_view source_;
  Budget& budget_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::vector<GbnfRule> rules_;
  std::map<std::string, RuleId> ids_;
};

// Small rules are written into the rules that use them: fewer calls, and automata that know more
// about the next byte.
class GbnfWriter : public ExprWriter {
 public:
  GbnfWriter(const std::vector<GbnfRule>& source, RuleSet& rules)
      : source_(source), rules_(rules), weights_(source.size(), kHeavy) {
    for (const GbnfRule& rule : source) (void)rules.add(rule.name);
    // Each round gets through one more level of rules inside rules; recursive ones stay heavy.
    constexpr int kRounds = 8;
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < source.size(); ++i) weights_[i] = weight(source[i].body);
    }
  }

  void write_all() {
    for (RuleId id = 0; id < source_.size(); ++id) {
      RuleDraft& rule = rules_[id];
      rule.nfa.empty(write(rule.nfa, source_[id].body, rule.start), rule.accept);
    }
  }

 private:
  static constexpr std::uint64_t kHeavy = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kLight = 64;  // in characters and operators

  [[nodiscard]] std::uint64_t weight(const Expr& expr) const {
    std::uint64_t sum = 1;
    for (const Expr& child : expr.children) sum = std::min(sum + weight(child), kHeavy);
    if (expr.kind == Expr::Kind::kRule) return std::min(weights_[expr.rule] + 1, kHeavy);
    if (expr.kind == Expr::Kind::kRepeat) return std::min(sum * copies(expr), kHeavy);
    return sum;
  }
  static std::uint64_t copies(const Expr& repeat) {
    return repeat.max == Grammar::kEndless ? std::uint64_t{repeat.min} + 1
                                           : std::max<std::uint64_t>(repeat.max, 1);
  }

  void characters(Nfa& nfa, State from, const CharSet& set, State to) override {
    add_characters(nfa, from, set, to);
  }

  State special(Nfa& nfa, const Expr& expr, State from) override {
    if (weights_[expr.rule] <= kLight) return write(nfa, source_[expr.rule].body, from);
    const State to = nfa.add();
    nfa.call(from, expr.rule, to);
    return to;
  }

  // Long repetitions are counted, not copied.
  State repeat(Nfa& nfa, const Expr& expr, State from) override {
    if (copies(expr) <= 2 || weight(expr) <= kLight) return ExprWriter::repeat(nfa, expr, from);
    const RuleId id = rules_.add_counted("a repetition", expr.min, expr.max);
    RuleDraft& rule = rules_[id];
    rule.nfa.empty(write(rule.nfa, expr.children.front(), rule.start), rule.accept);
    const State to = nfa.add();
    nfa.call(from, id, to);
    return to;
  }

  const std::vector<GbnfRule>& source_;
  RuleSet& rules_;
  std::vector<std::uint64_t> weights_;
};

}  // namespace
}  // namespace grammar

std::shared_ptr<const Grammar> compile_gbnf(std::string_view source, const GrammarLimits& limits) {
  using namespace grammar;
  if (source.size() > limits.max_source_bytes) {
    fail(ErrorKind::kUsage, "the grammar has {} bytes; {} are allowed (max_source_bytes)",
         source.size(), limits.max_source_bytes);
  }
  Budget budget(limits);
  const std::vector<GbnfRule> source_rules = GbnfReader(source, budget).read();
  const auto root = std::find_if(source_rules.begin(), source_rules.end(),
                                 [](const GbnfRule& rule) { return rule.name == "root"; });
  if (root == source_rules.end()) {
    fail(ErrorKind::kUsage, "the grammar has no rule 'root', which is the whole text");
  }
  RuleSet rules(budget);
  GbnfWriter(source_rules, rules).write_all();
  auto linked = link(rules, static_cast<RuleId>(root - source_rules.begin()));
  if (linked == nullptr) {
    fail(ErrorKind::kUsage, "no text satisfies the grammar: rule 'root' never comes to an end");
  }
  return linked;
}

}  // namespace strata::text
