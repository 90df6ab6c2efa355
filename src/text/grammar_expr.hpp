// Expressions over characters and rules: what the bodies of GBNF rules and the patterns of JSON
// schemas are parsed into.
#pragma once

#include "src/text/grammar_automaton.hpp"
#include "src/text/grammar_rules.hpp"
#include "src/text/grammar_utf8.hpp"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace strata::text::grammar {

struct Expr {
  enum class Kind : std::uint8_t {
    kSequence,  // of the children; the empty text where there are none
    kChoice,    // of the children
    kRepeat,    // of the only child, min to max times; max may be Grammar::kEndless
    kChars,     // one character of the set
    kRule,
    kTextBegin,  // "^" and "$" of patterns
    kTextEnd,
  };
  Kind kind = Kind::kSequence;
  std::vector<Expr> children;
  CharSet chars;
  std::uint32_t min = 0, max = 0;
  RuleId rule = 0;

  [[nodiscard]] static Expr of(Kind kind) {
    Expr expr;
    expr.kind = kind;
    return expr;
  }
  [[nodiscard]] static Expr of(CharSet set) {
    Expr expr = of(Kind::kChars);
    expr.chars = std::move(set);
    return expr;
  }
  [[nodiscard]] static Expr of(char32_t character) { return of(CharSet({{character, character}})); }
  [[nodiscard]] static Expr repeat(Expr child, std::uint32_t min, std::uint32_t max) {
    Expr expr = of(Kind::kRepeat);
    expr.children.push_back(std::move(child));
    expr.min = min;
    expr.max = max;
    return expr;
  }
};

// Writes expressions as automata. What characters, rules and repetitions become differs.
class ExprWriter {
 public:
  virtual ~ExprWriter() = default;
  // From `from` to the state that is returned.
  [[nodiscard]] State write(Nfa& nfa, const Expr& expr, State from);

 protected:
  virtual void characters(Nfa& nfa, State from, const CharSet& set, State to) = 0;
  // kRule, kTextBegin and kTextEnd.
  [[nodiscard]] virtual State special(Nfa& nfa, const Expr& expr, State from) = 0;
  // By default copies of the child, one after the other.
  [[nodiscard]] virtual State repeat(Nfa& nfa, const Expr& expr, State from);
};

}  // namespace strata::text::grammar
