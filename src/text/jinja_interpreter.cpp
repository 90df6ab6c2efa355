#include "src/text/jinja_interpreter.hpp"

#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"

#include <algorithm>

namespace strata::text::jinja {

Text Interpreter::run(std::span<const JinjaVariable> variables) {
  // Only what the template names is made into values.
  const std::shared_ptr<Scope> globals = runtime_.scope(nullptr);
  for (NameId id = 0; id < program_.names.size(); ++id) {
    const std::string& name = program_.names[id];
    const auto variable =
        std::find_if(variables.begin(), variables.end(),
                     [&name](const JinjaVariable& candidate) { return candidate.name == name; });
    Value value = variable == variables.end()
                      ? find_global(runtime_, name)
                      : from_json(runtime_, *variable->value, variable->trusts, {});
    if (!value.missing()) globals->set(id, std::move(value));
  }
  scope_ = runtime_.scope(globals);
  TextBuilder out(runtime_);
  out_ = &out;
  run_body(program_.body);
  scope_.reset();
  return out.take();
}

Interpreter::Flow Interpreter::run_block(const Block& block) {
  for (const Statement& statement : block) {
    const Flow flow = run_statement(statement);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
  for (const NameId name : body.unset) scope_->set(name, Value());
  return run_block(body.block);
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement) {
  const Depth depth(*this);
  runtime_.set_line(statement.line);
  return std::visit([this](const auto& node) { return run(node); }, statement.node);
}

Interpreter::Flow Interpreter::run(const Output& node) {
  if (node.expression == nullptr) {
    out_->append(node.text, true);
  } else {
    append_str(runtime_, *out_, evaluate(*node.expression));
  }
  if (out_->size() > runtime_.limits().max_output_bytes) {
    runtime_.fail("the output is above the bound of {} bytes", runtime_.limits().max_output_bytes);
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const If& node) {
  for (const auto& [test, body] : node.branches) {
    if (truthy(evaluate(*test))) return run_block(body);
  }
  return run_block(node.otherwise);
}

// ---- loops ----

Interpreter::Flow Interpreter::run(const For& node) {
  run_loop(node, scope_, evaluate(*node.iterable), 0);
  return Flow::kNormal;
}

// The items for which the loop's condition holds. Each is tested when it is asked for, so the
// condition sees what the body has done by then.
Value Interpreter::filter_items(const For& node, const std::shared_ptr<Scope>& scope,
                                const Value& items) {
  Cursor cursor(runtime_, items);
  return runtime_.iterator(depth_of(items), [this, &node, scope, cursor](Value& item) mutable {
    while (cursor.next(runtime_, item)) {
      const InScope inner(*this, runtime_.scope(scope));
      assign(node.target, item);
      if (truthy(evaluate(*node.condition))) return true;
    }
    return false;
  });
}

void Interpreter::run_loop(const For& node, const std::shared_ptr<Scope>& scope, const Value& items,
                           std::size_t depth) {
  const auto loop = std::make_shared<LoopObject>(
      Cursor(runtime_, node.condition == nullptr ? items : filter_items(node, scope, items)),
      depth);
  loop->share = runtime_.share(sizeof(LoopObject));
  if (node.recursive) {
    loop->recursive = &node;
    loop->scope = scope;
  }
  bool completed = false;
  Flow flow = Flow::kNormal;
  while (flow != Flow::kBreak && loop->next(runtime_)) {
    const InScope inner(*this, runtime_.scope(scope));
    scope_->set(kLoopName, Value(Ref<LoopObject>(loop)));
    assign(node.target, loop->current);
    flow = run_body(node.body);
    completed = completed || flow == Flow::kNormal;
  }
  if (loop.use_count() > 1) runtime_.keep(loop);  // a namespace may have it
  // As in jinja2, rounds left by break or continue do not count.
  if (!completed && !node.otherwise.block.empty()) {
    const InScope inner(*this, runtime_.scope(scope));
    run_body(node.otherwise);
  }
}

Interpreter::Flow Interpreter::run(const LoopControl& node) {
  return node.breaks ? Flow::kBreak : Flow::kContinue;
}

// ---- assignments ----

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.kind == Target::Kind::kName) {
    scope_->set(target.name, value);
    return;
  }
  if (target.kind == Target::Kind::kAttribute) {
    const Value* object = scope_->find(target.name);
    NamespaceObject* name_space = object == nullptr ? nullptr : object->name_space();
    if (name_space == nullptr) runtime_.fail("cannot assign attribute on non-namespace object");
    runtime_.set_attribute(*name_space, target.attribute, value);
    return;
  }
  if (!iterable(value)) {
    runtime_.fail("cannot unpack non-iterable {} object", type_name(value));
  }
  const std::vector<Value> items = collect(runtime_, value);
  if (items.size() != target.items.size()) {
    runtime_.fail("{} values to unpack (expected {}, got {})",
                  items.size() < target.items.size() ? "not enough" : "too many",
                  target.items.size(), items.size());
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i]);
}

Interpreter::Flow Interpreter::run(const Set& node) {
  assign(node.target, evaluate(*node.value));
  return Flow::kNormal;
}

Value Interpreter::apply_block_filter(const Expression& filter, Value text) {
  std::swap(block_text_, text);
  Value result = evaluate(filter);
  std::swap(block_text_, text);
  return result;
}

Interpreter::Flow Interpreter::run(const SetBlock& node) {
  const std::shared_ptr<Scope> outer = scope_;
  Value value;
  {
    const InScope inner(*this, runtime_.scope(scope_));
    Capture capture(*this);
    const Flow flow = run_body(node.body);
    if (flow != Flow::kNormal) return flow;
    value = capture.text.value();
    if (node.filter != nullptr) value = apply_block_filter(*node.filter, std::move(value));
  }
  assign(node.target, value);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const With& node) {
  const std::shared_ptr<Scope> inside = runtime_.scope(scope_);
  for (const auto& [target, expression] : node.bindings) {
    const Value value = evaluate(*expression);  // outside: bindings do not see each other
    const InScope inner(*this, inside);
    assign(target, value);
  }
  const InScope inner(*this, inside);
  return run_body(node.body);
}

Interpreter::Flow Interpreter::run(const Inner& node) {
  const InScope inner(*this, runtime_.scope(scope_));
  return run_body(node.body);
}

// ---- blocks that catch their output ----

void Interpreter::write_text(const Value& value) {
  const auto* string = value.string();
  if (string == nullptr) runtime_.fail("a block gives a str, not {}", type_name(value));
  out_->append(string->text);
}

Interpreter::Flow Interpreter::run(const FilterBlock& node) {
  Value text;
  {
    const InScope inner(*this, runtime_.scope(scope_));
    Capture capture(*this);
    const Flow flow = run_body(node.body);
    if (flow != Flow::kNormal) return flow;
    text = capture.text.value();
  }
  write_text(apply_block_filter(*node.filter, std::move(text)));
  return Flow::kNormal;
}

Value Interpreter::make_macro(const std::shared_ptr<const Macro>& macro) {
  auto object = std::make_shared<CallableObject>();
  object->name = macro->text_name;
  object->macro = macro;
  object->scope = scope_;
  object->share = runtime_.share(sizeof(CallableObject));
  // The scope will hold the macro that holds the scope.
  runtime_.keep(scope_);
  return Ref<const CallableObject>(std::move(object));
}

Interpreter::Flow Interpreter::run(const MacroDefinition& node) {
  scope_->set(node.macro->name, make_macro(node.macro));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::run(const CallBlock& node) {
  const Value caller = make_macro(node.caller);
  write_text(evaluate_call(std::get<Call>(node.call->node), caller));
  return Flow::kNormal;
}

}  // namespace strata::text::jinja
