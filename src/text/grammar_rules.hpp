// The rules of a grammar: under construction (RuleSet) and compiled (Grammar).
#pragma once

#include "src/text/grammar_automaton.hpp"
#include "strata/text/grammar.hpp"

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace strata::text {

// One automaton for each rule, all in the same arrays. A call enters another rule and goes on at
// `to` when that rule ends.
//
// A counted rule repeats its body: it begins at its start with a count of 0, comes back to it with
// one more each time the body ends, goes on from there while the count is below `max`, and ends
// there when it is at least `min`.
struct Grammar {
  using Id = std::uint32_t;
  static constexpr std::uint32_t kEndless = std::numeric_limits<std::uint32_t>::max();

  struct ByteEdge {
    std::uint8_t first, last;
    Id to;
  };
  struct CallEdge {
    Id rule, to;
  };
  // What plain characters (those that a JSON string holds as they are) do at a node.
  enum class PlainRun : std::uint8_t {
    kNone,     // nothing that is known beforehand
    kForever,  // every one of them leads back to the node
    kCounted,  // every one is a whole body of this counted rule
  };
  struct Node {
    std::uint32_t first_byte, first_call;  // edges, up to those of the next node
    Id rule;
    bool accepting;   // the rule, or a counted rule's body, may end here
    bool leaf;        // it must: there are no edges
    bool reads_only;  // the next byte is all that matters: no calls, no end, no count
    PlainRun plain_run;
  };
  struct Rule {
    Id start;
    bool counted;
    std::uint32_t min, max;  // of a counted rule; max may be kEndless
  };

  [[nodiscard]] std::span<const ByteEdge> bytes_of(Id node) const noexcept {
    return {bytes.data() + nodes[node].first_byte, bytes.data() + nodes[node + 1].first_byte};
  }
  [[nodiscard]] std::span<const CallEdge> calls_of(Id node) const noexcept {
    return {calls.data() + nodes[node].first_call, calls.data() + nodes[node + 1].first_call};
  }
  [[nodiscard]] const Rule& rule_of(Id node) const noexcept { return rules[nodes[node].rule]; }

  GrammarLimits limits;
  std::vector<Rule> rules;  // 0 is the root
  std::vector<Node> nodes;  // and one more, where the last one's edges end
  std::vector<ByteEdge> bytes;
  std::vector<CallEdge> calls;
};

namespace grammar {

struct RuleDraft {
  RuleDraft(std::string rule_name, Budget& budget)
      : name(std::move(rule_name)), nfa(budget), start(nfa.add()), accept(nfa.add()) {}

  std::string name;  // for errors
  Nfa nfa;
  State start, accept;
  bool counted = false;
  std::uint32_t min = 1, max = 1;
};

class RuleSet {
 public:
  explicit RuleSet(Budget& budget) : budget_(budget) {}
  [[nodiscard]] RuleId add(std::string name) {
    rules_.emplace_back(std::move(name), budget_);
    return static_cast<RuleId>(rules_.size() - 1);
  }
  // Of `min` to `max` times what is to be drafted.
  [[nodiscard]] RuleId add_counted(std::string name, std::uint32_t min, std::uint32_t max) {
    const RuleId id = add(std::move(name));
    rules_[id].counted = true;
    rules_[id].min = min;
    rules_[id].max = max;
    return id;
  }
  [[nodiscard]] RuleDraft& operator[](RuleId id) { return rules_[id]; }
  [[nodiscard]] std::size_t size() const noexcept { return rules_.size(); }
  [[nodiscard]] Budget& budget() const noexcept { return budget_; }

 private:
  Budget& budget_;
  std::deque<RuleDraft> rules_;  // a draft stays where it is while others are added
};

// Compiles the rules that `root` needs; what no text can get through is left out. Null: no text
// satisfies the root. Error(kUsage) for a rule that begins with itself, by its name.
[[nodiscard]] std::shared_ptr<const Grammar> link(RuleSet& rules, RuleId root);

}  // namespace grammar
}  // namespace strata::text
