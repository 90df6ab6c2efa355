// Finite automata over bytes and calls of rules: how a grammar's rules are built (Nfa) and what
// they become (Dfa). Without calls they are plain regular languages, which can be intersected and
// subtracted.
#pragma once

#include "strata/base/error.hpp"
#include "strata/text/grammar.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace strata::text::grammar {

using State = std::uint32_t;
using RuleId = std::uint32_t;

// Counts what compiling one grammar costs. Error(kUsage) at the bound.
class Budget {
 public:
  explicit Budget(const GrammarLimits& limits) : limits_(limits) {}
  [[nodiscard]] const GrammarLimits& limits() const noexcept { return limits_; }

  void spend(std::size_t steps = 1) {
    steps_ += steps;
    if (steps_ > limits_.max_steps) crossed("steps of work", "max_steps", limits_.max_steps);
  }
  void spend_state() {
    if (++states_ > limits_.max_states) crossed("states", "max_states", limits_.max_states);
    spend();
  }
  [[noreturn]] static void crossed(std::string_view what, std::string_view bound,
                                   std::size_t limit) {
    fail(ErrorKind::kUsage, "the grammar is too big: more than {} {} ({})", limit, what, bound);
  }

 private:
  GrammarLimits limits_;
  std::size_t steps_ = 0;
  std::size_t states_ = 0;
};

class Dfa;

// A nondeterministic automaton under construction. Operations take a state to start from and return
// or take the one they lead to.
class Nfa {
 public:
  struct Edge {
    enum class Kind : std::uint8_t { kEmpty, kBytes, kCall };
    State from, to;
    RuleId rule;               // kCall
    std::uint8_t first, last;  // kBytes
    Kind kind;
  };

  // `budget` must outlive the automaton's construction.
  explicit Nfa(Budget& budget) : budget_(&budget) {}

  [[nodiscard]] State add();
  void empty(State from, State to);
  void bytes(State from, std::uint8_t first, std::uint8_t last, State to);
  void call(State from, RuleId rule, State to);
  [[nodiscard]] State literal(State from, std::string_view text);
  // Whatever `dfa` accepts.
  void embed(State from, const Dfa& dfa, State to);

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const std::vector<Edge>& edges() const noexcept { return edges_; }
  // Keeps the edges that `keep` accepts.
  template <class Keep>
  void filter(const Keep& keep) {
    std::erase_if(edges_, [&](const Edge& edge) { return !keep(edge); });
  }

 private:
  void add_edge(const Edge& edge);

  Budget* budget_;
  State size_ = 0;
  std::vector<Edge> edges_;
};

// A deterministic automaton: at most one edge of a state for a byte, and one for a rule.
class Dfa {
 public:
  struct ByteEdge {
    std::uint8_t first, last;
    State to;
  };
  struct CallEdge {
    RuleId rule;
    State to;
  };
  struct Node {
    std::vector<ByteEdge> bytes;  // in order, not overlapping
    std::vector<CallEdge> calls;
    bool accepting = false;

    [[nodiscard]] const ByteEdge* find(std::uint8_t byte) const noexcept;
  };
  std::vector<Node> nodes;  // 0 is the start

  [[nodiscard]] bool accepts(std::string_view text) const noexcept;
  // For trimmed automata.
  [[nodiscard]] bool accepts_nothing() const noexcept {
    return !nodes[0].accepting && nodes[0].bytes.empty() && nodes[0].calls.empty();
  }
  // Drops the states that are not on a way from the start to an accepting one.
  void trim();
};

// The subset construction, trimmed. No edge leads to the start.
[[nodiscard]] Dfa determinize(const Nfa& nfa, State start, State accept, Budget& budget);
// What both accept, and what `a` accepts and `b` does not. Neither may have calls.
[[nodiscard]] Dfa intersect(const Dfa& a, const Dfa& b, Budget& budget);
[[nodiscard]] Dfa subtract(const Dfa& a, const Dfa& b, Budget& budget);

// The edges of an Nfa by the state they leave.
class EdgeIndex {
 public:
  explicit EdgeIndex(const Nfa& nfa);
  struct Range {
    const Nfa::Edge* first;
    const Nfa::Edge* last;
    [[nodiscard]] const Nfa::Edge* begin() const noexcept { return first; }
    [[nodiscard]] const Nfa::Edge* end() const noexcept { return last; }
  };
  [[nodiscard]] Range of(State state) const noexcept {
    return {edges_.data() + offsets_[state], edges_.data() + offsets_[state + 1]};
  }

 private:
  std::vector<std::size_t> offsets_;
  std::vector<Nfa::Edge> edges_;
};

}  // namespace strata::text::grammar
