// From drafted rules to the automata that are matched.
#include "src/text/grammar_rules.hpp"
#include "src/text/grammar_utf8.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace strata::text::grammar {
namespace {

using Kind = Nfa::Edge::Kind;

class Linker {
 public:
  Linker(RuleSet& rules, RuleId root) : rules_(rules), root_(root), callers_(rules.size()) {
    for (RuleId id = 0; id < rules.size(); ++id) {
      for (const Nfa::Edge& edge : rules[id].nfa.edges()) {
        if (edge.kind != Kind::kCall) continue;
        std::vector<RuleId>& callers = callers_[edge.rule];
        if (callers.empty() || callers.back() != id) callers.push_back(id);
      }
    }
  }

  std::shared_ptr<const Grammar> run() {
    const std::vector<bool> ends =
        fixpoint([](const Nfa::Edge& edge) { return edge.kind == Kind::kBytes; });
    if (!ends[root_]) return nullptr;
    for (RuleId id = 0; id < rules_.size(); ++id) {
      rules_[id].nfa.filter(
          [&](const Nfa::Edge& edge) { return edge.kind != Kind::kCall || ends[edge.rule]; });
    }
    find_needed();
    step_over_empty_rules();
    refuse_left_recursion();
    return compile();
  }

 private:
  // The rules that can be got through by edges that `pass` or are empty, and by calls of such
  // rules.
  template <class Pass>
  std::vector<bool> fixpoint(const Pass& pass) {
    std::vector<bool> holds(rules_.size(), false);
    std::vector<RuleId> open;
    for (RuleId id = 0; id < rules_.size(); ++id) open.push_back(id);
    while (!open.empty()) {
      const RuleId id = open.back();
      open.pop_back();
      if (holds[id]) continue;
      const RuleDraft& rule = rules_[id];
      holds[id] = (rule.counted && rule.min == 0) || reached(rule, [&](const Nfa::Edge& edge) {
                    return pass(edge) || (edge.kind == Kind::kCall && holds[edge.rule]);
                  })[rule.accept];
      if (holds[id]) open.insert(open.end(), callers_[id].begin(), callers_[id].end());
    }
    return holds;
  }

  // The states to which empty edges and those that `pass` lead from the start.
  template <class Pass>
  std::vector<bool> reached(const RuleDraft& rule, const Pass& pass) {
    const EdgeIndex edges(rule.nfa);
    std::vector<bool> seen(rule.nfa.size(), false);
    std::vector<State> open = {rule.start};
    seen[rule.start] = true;
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      for (const Nfa::Edge& edge : edges.of(state)) {
        rules_.budget().spend();
        if (seen[edge.to] || (edge.kind != Kind::kEmpty && !pass(edge))) continue;
        seen[edge.to] = true;
        open.push_back(edge.to);
      }
    }
    return seen;
  }

  // Numbers the rules that the root calls, directly or not.
  void find_needed() {
    numbers_.assign(rules_.size(), std::nullopt);
    const auto need = [&](RuleId id) {
      if (numbers_[id]) return;
      numbers_[id] = static_cast<RuleId>(needed_.size());
      needed_.push_back(id);
    };
    need(root_);
    for (std::size_t i = 0; i < needed_.size(); ++i) {
      for (const Nfa::Edge& edge : rules_[needed_[i]].nfa.edges()) {
        if (edge.kind == Kind::kCall) need(edge.rule);
      }
    }
  }

  // Who calls a rule that may be empty can also go past it. So no rule has to end where it began,
  // and looking for the next byte comes to an end.
  void step_over_empty_rules() {
    const std::vector<bool> empty = fixpoint([](const Nfa::Edge&) { return false; });
    for (const RuleId id : needed_) {
      RuleDraft& rule = rules_[id];
      if (rule.counted && empty[id]) rule.min = 0;
      const std::size_t count = rule.nfa.edges().size();
      for (std::size_t i = 0; i < count; ++i) {
        const Nfa::Edge edge = rule.nfa.edges()[i];
        if (edge.kind == Kind::kCall && empty[edge.rule]) rule.nfa.empty(edge.from, edge.to);
      }
    }
  }

  void refuse_left_recursion() {
    std::vector<std::vector<RuleId>> begins(rules_.size());
    for (const RuleId id : needed_) {
      const std::vector<bool> first = reached(rules_[id], [](const Nfa::Edge&) { return false; });
      for (const Nfa::Edge& edge : rules_[id].nfa.edges()) {
        if (edge.kind == Kind::kCall && first[edge.from]) begins[id].push_back(edge.rule);
      }
    }
    enum : std::uint8_t { kNew, kOpen, kDone };
    std::vector<std::uint8_t> marks(rules_.size(), kNew);
    std::vector<RuleId> path;
    for (const RuleId id : needed_) {
      path.push_back(id);
      while (!path.empty()) {
        const RuleId rule = path.back();
        if (marks[rule] == kNew) {
          marks[rule] = kOpen;
          for (const RuleId next : begins[rule]) {
            if (marks[next] == kOpen) {
              fail(
                  ErrorKind::kUsage,
                  "rule '{}' begins with itself (left recursion); let it begin with something else",
                  rules_[next].name);
            }
            if (marks[next] == kNew) path.push_back(next);
          }
        } else {
          marks[rule] = kDone;
          path.pop_back();
        }
      }
    }
  }

  std::shared_ptr<const Grammar> compile() {
    grammar_ = std::make_shared<Grammar>();
    grammar_->limits = rules_.budget().limits();
    for (const RuleId id : needed_) {
      RuleDraft& rule = rules_[id];
      Dfa dfa = determinize(rule.nfa, rule.start, rule.accept, rules_.budget());
      if (rule.counted) dfa.nodes[0].accepting = false;  // an empty body: min is 0 then
      rule.nfa = Nfa(rules_.budget());                   // its memory is not needed any more
      append(rule, dfa);
    }
    Grammar& grammar = *grammar_;
    grammar.nodes.push_back(end_of_edges());
    for (Grammar::Id node = 0; node + 1 < grammar.nodes.size(); ++node) {
      grammar.nodes[node].plain_run = plain_run(node);
    }
    return grammar_;
  }

  // A node whose edges come next.
  [[nodiscard]] Grammar::Node end_of_edges() const {
    Grammar::Node node{};
    node.first_byte = static_cast<std::uint32_t>(grammar_->bytes.size());
    node.first_call = static_cast<std::uint32_t>(grammar_->calls.size());
    return node;
  }

  void append(const RuleDraft& rule, const Dfa& dfa) {
    Grammar& grammar = *grammar_;
    const auto base = static_cast<Grammar::Id>(grammar.nodes.size());
    const auto number = static_cast<Grammar::Id>(grammar.rules.size());
    grammar.rules.push_back({base, rule.counted, rule.min, rule.max});
    for (const Dfa::Node& node : dfa.nodes) {
      Grammar::Node made = end_of_edges();
      made.rule = number;
      made.accepting = node.accepting;
      made.leaf = node.accepting && node.bytes.empty() && node.calls.empty();
      made.reads_only =
          !node.accepting && node.calls.empty() && !(rule.counted && &node == &dfa.nodes.front());
      grammar.nodes.push_back(made);
      for (const Dfa::ByteEdge& edge : node.bytes) {
        grammar.bytes.push_back({edge.first, edge.last, base + edge.to});
      }
      for (const Dfa::CallEdge& edge : node.calls) {
        grammar.calls.push_back({*numbers_[edge.rule], base + edge.to});
      }
    }
  }

  // Where each plain character leads from `node`, if that is one place.
  std::optional<Grammar::Id> after_plain_character(Grammar::Id node) const {
    std::optional<Grammar::Id> target;
    bool same = true;
    for (const Utf8Range& range : plain_characters()) {
      const auto follow = [&](const auto& self, Grammar::Id at, std::size_t index) -> void {
        if (index == range.size) {
          if (!target) target = at;
          same = same && *target == at;
          return;
        }
        unsigned next = range.bytes[index].first;
        for (const Grammar::ByteEdge& edge : grammar_->bytes_of(at)) {
          if (!same || edge.last < next || edge.first > range.bytes[index].last) continue;
          same = edge.first <= next;
          self(self, edge.to, index + 1);
          next = edge.last + 1U;
        }
        same = same && next > range.bytes[index].last;
      };
      follow(follow, node, 0);
      if (!same) return std::nullopt;
    }
    return target;
  }

  Grammar::PlainRun plain_run(Grammar::Id node) const {
    const Grammar::Rule& rule = grammar_->rule_of(node);
    const auto target = after_plain_character(node);
    if (!target) return Grammar::PlainRun::kNone;
    if (*target == node) return Grammar::PlainRun::kForever;
    const bool whole = rule.counted && node == rule.start && grammar_->nodes[*target].leaf;
    return whole ? Grammar::PlainRun::kCounted : Grammar::PlainRun::kNone;
  }

  RuleSet& rules_;
  RuleId root_;
  std::vector<std::vector<RuleId>> callers_;
  std::vector<RuleId> needed_;                  // the root first
  std::vector<std::optional<RuleId>> numbers_;  // a needed rule's place among them
  std::shared_ptr<Grammar> grammar_;
};

}  // namespace

std::shared_ptr<const Grammar> link(RuleSet& rules, RuleId root) {
  return Linker(rules, root).run();
}

}  // namespace strata::text::grammar
