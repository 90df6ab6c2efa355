#include "src/text/grammar_expr.hpp"

namespace strata::text::grammar {

State ExprWriter::write(Nfa& nfa, const Expr& expr, State from) {
  switch (expr.kind) {
    case Expr::Kind::kSequence:
      for (const Expr& child : expr.children) from = write(nfa, child, from);
      return from;
    case Expr::Kind::kChoice: {
      const State to = nfa.add();
      for (const Expr& child : expr.children) nfa.empty(write(nfa, child, from), to);
      return to;
    }
    case Expr::Kind::kRepeat:
      return repeat(nfa, expr, from);
    case Expr::Kind::kChars: {
      const State to = nfa.add();
      characters(nfa, from, expr.chars, to);
      return to;
    }
    case Expr::Kind::kRule:
    case Expr::Kind::kTextBegin:
    case Expr::Kind::kTextEnd:
      break;
  }
  return special(nfa, expr, from);
}

State ExprWriter::repeat(Nfa& nfa, const Expr& expr, State from) {
  const Expr& child = expr.children.front();
  for (std::uint32_t i = 0; i < expr.min; ++i) from = write(nfa, child, from);
  if (expr.max == Grammar::kEndless) {
    const State loop = nfa.add();
    nfa.empty(from, loop);
    nfa.empty(write(nfa, child, loop), loop);
    return loop;
  }
  const State to = nfa.add();
  for (std::uint32_t i = expr.min; i < expr.max; ++i) {
    nfa.empty(from, to);
    from = write(nfa, child, from);
  }
  nfa.empty(from, to);
  return to;
}

}  // namespace strata::text::grammar
