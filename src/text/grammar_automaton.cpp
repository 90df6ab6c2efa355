#include "src/text/grammar_automaton.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

namespace strata::text::grammar {
namespace {

constexpr State kNone = ~State{0};
constexpr std::size_t kEdgeCost = 8;  // in steps: what bounds their memory

using Subset = std::vector<State>;

struct SubsetHash {
  std::size_t operator()(const Subset& subset) const noexcept {
    std::uint64_t hash = subset.size();
    for (const State state : subset) hash = (hash ^ state) * 0x9E3779B97F4A7C15U;
    return hash ^ hash >> 32;
  }
};

class Determinizer {
 public:
  Determinizer(const Nfa& nfa, State accept, Budget& budget)
      : edges_(nfa), accept_(accept), budget_(budget), seen_(nfa.size(), 0) {}

  Dfa run(State start) {
    // Not entered into ids_: a way that comes back to the same subset gets another state.
    add_node(closure({start}));
    for (State id = 0; id < dfa_.nodes.size(); ++id) {
      const Subset subset = std::move(subsets_[id]);
      byte_edges(id, subset);
      call_edges(id, subset);
      dfa_.nodes[id].accepting = std::binary_search(subset.begin(), subset.end(), accept_);
    }
    dfa_.trim();
    return std::move(dfa_);
  }

 private:
  // The states that are reached without a byte and matter: the others only lead on.
  Subset closure(const Subset& from) {
    ++stamp_;
    Subset open, reached;
    const auto enter = [&](State state) {
      if (seen_[state] == stamp_) return;
      seen_[state] = stamp_;
      open.push_back(state);
    };
    for (const State state : from) enter(state);
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      bool matters = state == accept_;
      for (const Nfa::Edge& edge : edges_.of(state)) {
        budget_.spend();
        if (edge.kind == Nfa::Edge::Kind::kEmpty) {
          enter(edge.to);
        } else {
          matters = true;
        }
      }
      if (matters) reached.push_back(state);
    }
    std::sort(reached.begin(), reached.end());
    return reached;
  }

  State add_node(Subset subset) {
    budget_.spend_state();
    budget_.spend(subset.size());
    dfa_.nodes.emplace_back();
    subsets_.push_back(std::move(subset));
    return static_cast<State>(dfa_.nodes.size() - 1);
  }

  State node_of(const Subset& targets) {
    Subset subset = closure(targets);
    const auto found = ids_.find(subset);
    if (found != ids_.end()) return found->second;
    const State id = add_node(subset);
    ids_.emplace(std::move(subset), id);
    return id;
  }

  template <class Visit>
  void each_edge(const Subset& subset, Nfa::Edge::Kind kind, const Visit& visit) {
    for (const State state : subset) {
      for (const Nfa::Edge& edge : edges_.of(state)) {
        if (edge.kind == kind) visit(edge);
      }
    }
  }

  void byte_edges(State id, const Subset& subset) {
    // Between two neighbouring cuts every byte leads to the same states.
    std::array<bool, 257> cut{};
    each_edge(subset, Nfa::Edge::Kind::kBytes, [&](const Nfa::Edge& edge) {
      cut[edge.first] = true;
      cut[edge.last + 1U] = true;
    });
    std::array<Subset, 256> targets;  // by the cut that begins their bytes
    each_edge(subset, Nfa::Edge::Kind::kBytes, [&](const Nfa::Edge& edge) {
      for (unsigned byte = edge.first; byte <= edge.last; ++byte) {
        if (!cut[byte]) continue;
        budget_.spend();
        targets[byte].push_back(edge.to);
      }
    });
    for (unsigned first = 0; first < 256; ++first) {
      if (targets[first].empty()) continue;
      unsigned last = first;
      while (!cut[last + 1]) ++last;
      const State to = node_of(targets[first]);
      auto& edges = dfa_.nodes[id].bytes;
      if (!edges.empty() && edges.back().to == to && edges.back().last + 1U == first) {
        edges.back().last = static_cast<std::uint8_t>(last);
      } else {
        edges.push_back({static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), to});
      }
    }
  }

  void call_edges(State id, const Subset& subset) {
    std::map<RuleId, Subset> targets;
    each_edge(subset, Nfa::Edge::Kind::kCall,
              [&](const Nfa::Edge& edge) { targets[edge.rule].push_back(edge.to); });
    for (const auto& [rule, states] : targets) {
      const State to = node_of(states);
      dfa_.nodes[id].calls.push_back({rule, to});
    }
  }

  EdgeIndex edges_;
  State accept_;
  Budget& budget_;
  Dfa dfa_;
  std::vector<Subset> subsets_;  // of the nodes whose edges are still to be found
  std::unordered_map<Subset, State, SubsetHash> ids_;
  std::vector<std::uint32_t> seen_;
  std::uint32_t stamp_ = 0;
};

std::vector<bool> reached(std::vector<State> open, const std::vector<std::vector<State>>& edges) {
  std::vector<bool> seen(edges.size(), false);
  for (const State state : open) seen[state] = true;
  while (!open.empty()) {
    const State state = open.back();
    open.pop_back();
    for (const State to : edges[state]) {
      if (seen[to]) continue;
      seen[to] = true;
      open.push_back(to);
    }
  }
  return seen;
}

// Pairs of states. Where `b` is at its end it stays at kNone: of use to subtract only.
Dfa product(const Dfa& a, const Dfa& b, bool subtracting, Budget& budget) {
  Dfa result;
  std::map<std::pair<State, State>, State> ids;
  std::vector<std::pair<State, State>> pairs;
  const auto node_of = [&](State in_a, State in_b) {
    const auto [found, added] =
        ids.try_emplace({in_a, in_b}, static_cast<State>(result.nodes.size()));
    if (added) {
      budget.spend_state();
      result.nodes.emplace_back();
      pairs.emplace_back(in_a, in_b);
    }
    return found->second;
  };
  node_of(0, 0);
  for (State id = 0; id < result.nodes.size(); ++id) {
    const auto [in_a, in_b] = pairs[id];
    const Dfa::Node& from_a = a.nodes[in_a];
    const bool b_accepts = in_b != kNone && b.nodes[in_b].accepting;
    result.nodes[id].accepting = from_a.accepting && b_accepts != subtracting;
    for (const Dfa::ByteEdge& edge : from_a.bytes) {
      for (unsigned first = edge.first; first <= edge.last;) {
        budget.spend();
        unsigned last = edge.last;  // up to which `b` has the same edge, or none
        State to_b = kNone;
        if (in_b != kNone) {
          for (const Dfa::ByteEdge& other : b.nodes[in_b].bytes) {
            if (other.last < first) continue;
            if (other.first <= first) {
              to_b = other.to;
              last = std::min<unsigned>(last, other.last);
            } else {
              last = std::min<unsigned>(last, other.first - 1U);
            }
            break;
          }
        }
        if (to_b != kNone || subtracting) {
          const State to = node_of(edge.to, to_b);
          result.nodes[id].bytes.push_back(
              {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), to});
        }
        first = last + 1;
      }
    }
  }
  result.trim();
  return result;
}

}  // namespace

State Nfa::add() {
  budget_->spend(kEdgeCost);
  return size_++;
}

void Nfa::add_edge(const Edge& edge) {
  budget_->spend(kEdgeCost);
  edges_.push_back(edge);
}

void Nfa::empty(State from, State to) { add_edge({from, to, 0, 0, 0, Edge::Kind::kEmpty}); }

void Nfa::bytes(State from, std::uint8_t first, std::uint8_t last, State to) {
  add_edge({from, to, 0, first, last, Edge::Kind::kBytes});
}

void Nfa::call(State from, RuleId rule, State to) {
  add_edge({from, to, rule, 0, 0, Edge::Kind::kCall});
}

State Nfa::literal(State from, std::string_view text) {
  for (const char c : text) {
    const State to = add();
    const auto byte = static_cast<std::uint8_t>(c);
    bytes(from, byte, byte, to);
    from = to;
  }
  return from;
}

void Nfa::embed(State from, const Dfa& dfa, State to) {
  const State base = size_;
  for (std::size_t i = 0; i < dfa.nodes.size(); ++i) (void)add();
  empty(from, base);
  for (State i = 0; i < dfa.nodes.size(); ++i) {
    for (const Dfa::ByteEdge& edge : dfa.nodes[i].bytes) {
      bytes(base + i, edge.first, edge.last, base + edge.to);
    }
    for (const Dfa::CallEdge& edge : dfa.nodes[i].calls) call(base + i, edge.rule, base + edge.to);
    if (dfa.nodes[i].accepting) empty(base + i, to);
  }
}

EdgeIndex::EdgeIndex(const Nfa& nfa) : offsets_(nfa.size() + 1, 0), edges_(nfa.edges().size()) {
  for (const Nfa::Edge& edge : nfa.edges()) ++offsets_[edge.from + 1];
  for (std::size_t i = 1; i < offsets_.size(); ++i) offsets_[i] += offsets_[i - 1];
  std::vector<std::size_t> next = offsets_;
  for (const Nfa::Edge& edge : nfa.edges()) edges_[next[edge.from]++] = edge;
}

const Dfa::ByteEdge* Dfa::Node::find(std::uint8_t byte) const noexcept {
  for (const ByteEdge& edge : bytes) {
    if (byte <= edge.last) return byte >= edge.first ? &edge : nullptr;
  }
  return nullptr;
}

bool Dfa::accepts(std::string_view text) const noexcept {
  State state = 0;
  for (const char c : text) {
    const ByteEdge* edge = nodes[state].find(static_cast<std::uint8_t>(c));
    if (edge == nullptr) return false;
    state = edge->to;
  }
  return nodes[state].accepting;
}

void Dfa::trim() {
  std::vector<std::vector<State>> targets(nodes.size());
  std::vector<std::vector<State>> sources(nodes.size());
  std::vector<State> ends;
  const auto connect = [&](State from, State to) {
    targets[from].push_back(to);
    sources[to].push_back(from);
  };
  for (State i = 0; i < nodes.size(); ++i) {
    for (const ByteEdge& edge : nodes[i].bytes) connect(i, edge.to);
    for (const CallEdge& edge : nodes[i].calls) connect(i, edge.to);
    if (nodes[i].accepting) ends.push_back(i);
  }
  const std::vector<bool> after_start = reached({0}, targets);
  const std::vector<bool> before_end = reached(std::move(ends), sources);
  std::vector<State> ids(nodes.size(), kNone);
  State next = 0;
  for (State i = 0; i < nodes.size(); ++i) {
    if (i == 0 || (after_start[i] && before_end[i])) ids[i] = next++;
  }
  const auto redirect = [&](auto& edges) {
    std::erase_if(edges, [&](const auto& edge) { return ids[edge.to] == kNone; });
    for (auto& edge : edges) edge.to = ids[edge.to];
  };
  for (State i = 0; i < nodes.size(); ++i) {
    if (ids[i] == kNone) continue;
    redirect(nodes[i].bytes);
    redirect(nodes[i].calls);
    if (ids[i] != i) nodes[ids[i]] = std::move(nodes[i]);
  }
  nodes.resize(next);
}

Dfa determinize(const Nfa& nfa, State start, State accept, Budget& budget) {
  return Determinizer(nfa, accept, budget).run(start);
}

Dfa intersect(const Dfa& a, const Dfa& b, Budget& budget) { return product(a, b, false, budget); }

Dfa subtract(const Dfa& a, const Dfa& b, Budget& budget) { return product(a, b, true, budget); }

}  // namespace strata::text::grammar
