#include "src/text/jinja_scopes.hpp"

#include <set>

namespace strata::text::jinja {
namespace {

// What a block, or a branch in it, has been seen to do with names.
struct Frame {
  const Frame* parent = nullptr;  // of the block around
  const Frame* trunk = nullptr;   // for a branch, what was seen before it
  std::set<NameId> mentioned;
  std::set<NameId> unset;  // stored before anything else, and unknown to the blocks around

  [[nodiscard]] bool mentions(NameId name) const {
    return mentioned.contains(name) || (trunk != nullptr && trunk->mentions(name));
  }
  [[nodiscard]] bool knows(NameId name) const {
    return mentions(name) || (parent != nullptr && parent->knows(name));
  }
  void load(NameId name) {
    if (!knows(name)) mentioned.insert(name);
  }
  void declare(NameId name) { mentioned.insert(name); }
  void store(NameId name) {
    if (mentions(name)) return;
    if (!knows(name)) unset.insert(name);
    mentioned.insert(name);
  }
  [[nodiscard]] Frame branch() const { return {parent, this, {}, {}}; }
  // Takes in a branch that may or may not run: what it sets starts with the value from outside, so
  // nothing is unset.
  void merge(const Frame& branch) {
    mentioned.insert(branch.mentioned.begin(), branch.mentioned.end());
  }
};

// Looks at a block's own statements first, as jinja2 does, then at the blocks inside it.
class Analysis {
 public:
  void finish(Body& body, Frame& frame) {
    visit(body.block, frame);
    body.unset.assign(frame.unset.begin(), frame.unset.end());
    enter(body.block, frame);
  }

 private:
  // ---- a block's own statements ----

  void visit(const Block& block, Frame& frame) {
    for (const Statement& statement : block) {
      std::visit([&](const auto& node) { visit(node, frame); }, statement.node);
    }
  }
  void visit(const Output& node, Frame& frame) { visit(node.expression, frame); }
  void visit(const If& node, Frame& frame) {
    visit(node.branches.front().first, frame);
    Frame taken = frame.branch();
    visit(node.branches.front().second, taken);
    // jinja2 holds all elifs for one branch.
    Frame elifs = frame.branch();
    for (std::size_t i = 1; i < node.branches.size(); ++i) {
      visit(node.branches[i].first, elifs);
      Frame body = elifs.branch();
      visit(node.branches[i].second, body);
      elifs.merge(body);
    }
    Frame otherwise = frame.branch();
    visit(node.otherwise, otherwise);
    for (const Frame* branch : {&taken, &elifs, &otherwise}) frame.merge(*branch);
  }
  void visit(const For& node, Frame& frame) { visit(node.iterable, frame); }
  void visit(const Set& node, Frame& frame) {
    visit(node.value, frame);
    store(node.target, frame);
  }
  void visit(const SetBlock& node, Frame& frame) { store(node.target, frame); }
  void visit(const MacroDefinition& node, Frame& frame) { frame.store(node.macro->name); }
  void visit(const CallBlock& node, Frame& frame) { visit(node.call, frame); }
  void visit(const FilterBlock& node, Frame& frame) { visit(node.filter, frame); }
  void visit(const With& node, Frame& frame) {
    for (const auto& [target, value] : node.bindings) visit(value, frame);
  }
  void visit(const Inner& /*node*/, Frame& /*frame*/) {}
  void visit(const LoopControl& /*node*/, Frame& /*frame*/) {}

  static void store(const Target& target, Frame& frame) {
    if (target.kind == Target::Kind::kName) frame.store(target.name);
    if (target.kind == Target::Kind::kAttribute) frame.load(target.name);
    for (const Target& item : target.items) store(item, frame);
  }
  static void declare(const Target& target, Frame& frame) {
    if (target.kind == Target::Kind::kName) frame.declare(target.name);
    for (const Target& item : target.items) declare(item, frame);
  }

  // ---- the blocks inside it ----

  void enter(Block& block, const Frame& frame) {
    for (Statement& statement : block) {
      std::visit([&](auto& node) { enter(node, frame); }, statement.node);
    }
  }
  void enter(Output& /*node*/, const Frame& /*frame*/) {}
  void enter(Set& /*node*/, const Frame& /*frame*/) {}
  void enter(LoopControl& /*node*/, const Frame& /*frame*/) {}
  void enter(If& node, const Frame& frame) {
    for (auto& [test, body] : node.branches) enter(body, frame);
    enter(node.otherwise, frame);
  }
  void enter(For& node, const Frame& frame) {
    Frame body{&frame, nullptr, {}, {}};
    body.declare(kLoopName);
    declare(node.target, body);
    finish(node.body, body);
    Frame otherwise{&frame, nullptr, {}, {}};
    finish(node.otherwise, otherwise);
  }
  void enter(Macro& macro, const Frame& frame) {
    Frame body{&frame, nullptr, {}, {}};
    for (const Macro::Parameter& parameter : macro.parameters) body.declare(parameter.id);
    if (macro.uses_caller) body.declare(kCallerName);
    if (macro.uses_kwargs) body.declare(kKwargsName);
    if (macro.uses_varargs) body.declare(kVarargsName);
    for (const Macro::Parameter& parameter : macro.parameters) visit(parameter.fallback, body);
    finish(macro.body, body);
  }
  void enter(MacroDefinition& node, const Frame& frame) { enter(*node.macro, frame); }
  void enter(CallBlock& node, const Frame& frame) { enter(*node.caller, frame); }
  void enter(SetBlock& node, const Frame& frame) { enter(node.body, frame); }
  void enter(FilterBlock& node, const Frame& frame) { enter(node.body, frame); }
  void enter(Inner& node, const Frame& frame) { enter(node.body, frame); }
  void enter(With& node, const Frame& frame) {
    Frame body{&frame, nullptr, {}, {}};
    for (const auto& [target, value] : node.bindings) declare(target, body);
    finish(node.body, body);
  }
  void enter(Body& body, const Frame& frame) {
    Frame inner{&frame, nullptr, {}, {}};
    finish(body, inner);
  }

  // ---- expressions: every name in them is read ----

  void visit(const ExpressionPtr& expression, Frame& frame) {
    if (expression == nullptr) return;
    std::visit([&](const auto& node) { read(node, frame); }, expression->node);
  }
  void visit(const std::vector<ExpressionPtr>& expressions, Frame& frame) {
    for (const ExpressionPtr& expression : expressions) visit(expression, frame);
  }
  void visit(const Arguments& arguments, Frame& frame) {
    visit(arguments.positional, frame);
    for (const auto& [name, value] : arguments.keywords) visit(value, frame);
    visit(arguments.star, frame);
    visit(arguments.double_star, frame);
  }
  void read(const Literal& /*node*/, Frame& /*frame*/) {}
  void read(const Name& node, Frame& frame) { frame.load(node.id); }
  void read(const TupleLiteral& node, Frame& frame) { visit(node.items, frame); }
  void read(const ListLiteral& node, Frame& frame) { visit(node.items, frame); }
  void read(const DictLiteral& node, Frame& frame) {
    for (const auto& [key, value] : node.entries) {
      visit(key, frame);
      visit(value, frame);
    }
  }
  void read(const Unary& node, Frame& frame) { visit(node.operand, frame); }
  void read(const Binary& node, Frame& frame) {
    visit(node.left, frame);
    visit(node.right, frame);
  }
  void read(const Concatenation& node, Frame& frame) { visit(node.parts, frame); }
  void read(const ComparisonChain& node, Frame& frame) {
    visit(node.first, frame);
    for (const auto& [op, operand] : node.rest) visit(operand, frame);
  }
  void read(const Conditional& node, Frame& frame) {
    visit(node.test, frame);
    visit(node.then, frame);
    visit(node.otherwise, frame);
  }
  void read(const Attribute& node, Frame& frame) { visit(node.object, frame); }
  void read(const Item& node, Frame& frame) {
    visit(node.object, frame);
    visit(node.index, frame);
  }
  void read(const Slice& node, Frame& frame) {
    visit(node.object, frame);
    visit(node.start, frame);
    visit(node.stop, frame);
    visit(node.step, frame);
  }
  void read(const Call& node, Frame& frame) {
    visit(node.callee, frame);
    visit(node.arguments, frame);
  }
  void read(const FilterCall& node, Frame& frame) {
    visit(node.input, frame);
    visit(node.arguments, frame);
  }
  void read(const TestCall& node, Frame& frame) {
    visit(node.input, frame);
    visit(node.arguments, frame);
  }
};

}  // namespace

void find_unset_names(Program& program) {
  Frame root;
  Analysis().finish(program.body, root);
}

}  // namespace strata::text::jinja
