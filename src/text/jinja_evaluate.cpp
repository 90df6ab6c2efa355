// Expressions and calls.
#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_interpreter.hpp"
#include "src/text/jinja_operators.hpp"
#include "src/text/jinja_print.hpp"

#include <algorithm>

namespace strata::text::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const Depth depth(*this);
  runtime_.set_line(expression.line);
  return std::visit([this](const auto& node) { return evaluate_node(node); }, expression.node);
}

Value Interpreter::evaluate_optional(const ExpressionPtr& expression) {
  return expression == nullptr ? Value() : evaluate(*expression);
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExpressionPtr>& expressions) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& expression : expressions) values.push_back(evaluate(*expression));
  return values;
}

Value Interpreter::evaluate_node(const Literal& node) { return node.value; }

Value Interpreter::evaluate_node(const Name& node) {
  const Value* value = scope_->find(node.id);
  if (value != nullptr && !value->missing()) return *value;
  return runtime_.undefined(fmt::format("'{}' is undefined", program_.names[node.id]));
}

Value Interpreter::evaluate_node(const TupleLiteral& node) {
  return runtime_.tuple(evaluate_all(node.items));
}

Value Interpreter::evaluate_node(const ListLiteral& node) {
  return runtime_.list(evaluate_all(node.items));
}

Value Interpreter::evaluate_node(const DictLiteral& node) {
  DictObject dict;
  for (const auto& [key_expression, value_expression] : node.entries) {
    Value key = evaluate(*key_expression);
    Value value = evaluate(*value_expression);
    require_hashable(runtime_, key);
    dict.insert(std::move(key), std::move(value));
  }
  return runtime_.dict(std::move(dict));
}

Value Interpreter::evaluate_node(const Unary& node) {
  const Value operand = evaluate(*node.operand);
  if (node.op == UnaryOperator::kNot) return !truthy(operand);
  return negate(runtime_, node.op, operand);
}

Value Interpreter::evaluate_node(const Binary& node) {
  Value left = evaluate(*node.left);
  if (node.op == BinaryOperator::kAnd) return truthy(left) ? evaluate(*node.right) : left;
  if (node.op == BinaryOperator::kOr) return truthy(left) ? left : evaluate(*node.right);
  const Value right = evaluate(*node.right);
  return apply(runtime_, node.op, left, right);
}

Value Interpreter::evaluate_node(const Concatenation& node) {
  TextBuilder out(runtime_);
  for (const Value& part : evaluate_all(node.parts)) append_str(runtime_, out, part);
  return out.value();
}

Value Interpreter::evaluate_node(const ComparisonChain& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, expression] : node.rest) {
    Value right = evaluate(*expression);
    if (!compare(runtime_, op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_node(const Conditional& node) {
  if (truthy(evaluate(*node.test))) return evaluate(*node.then);
  if (node.otherwise != nullptr) return evaluate(*node.otherwise);
  return runtime_.undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was "
                  "defined.",
                  runtime_.line()));
}

Value Interpreter::evaluate_node(const Attribute& node) {
  const Value object = evaluate(*node.object);
  return get_attribute(runtime_, object, node.name);
}

Value Interpreter::evaluate_node(const Item& node) {
  const Value object = evaluate(*node.object);
  const Value index = evaluate(*node.index);
  return get_item(runtime_, object, index);
}

Value Interpreter::evaluate_node(const Slice& node) {
  const Value object = evaluate(*node.object);
  SliceBounds bounds{evaluate_optional(node.start), evaluate_optional(node.stop),
                     evaluate_optional(node.step)};
  return get_slice(runtime_, object, bounds);
}

Value Interpreter::evaluate_node(const Call& node) { return evaluate_call(node, Value()); }

Value Interpreter::evaluate_node(const FilterCall& node) {
  const Value input = node.input == nullptr ? block_text_ : evaluate(*node.input);
  if (node.filter == nullptr) runtime_.fail("No filter named '{}' found.", node.name);
  CallArguments arguments = evaluate_arguments(node.arguments, node.filter->name);
  return node.filter->call(runtime_, input, arguments);
}

Value Interpreter::evaluate_node(const TestCall& node) {
  const Value input = evaluate(*node.input);
  if (node.test == nullptr) runtime_.fail("No test named '{}' found.", node.name);
  CallArguments arguments = evaluate_arguments(node.arguments, node.test->name);
  return node.test->call(runtime_, input, arguments);
}

// ---- calls ----

CallArguments Interpreter::evaluate_arguments(const Arguments& node, std::string_view function) {
  CallArguments arguments(runtime_, function);
  arguments.positional = evaluate_all(node.positional);
  for (const auto& [name, expression] : node.keywords) {
    arguments.keywords.emplace_back(name, evaluate(*expression));
  }
  if (node.star != nullptr) {
    for (Value& item : collect(runtime_, evaluate(*node.star))) {
      arguments.positional.push_back(std::move(item));
    }
  }
  if (node.double_star == nullptr) return arguments;
  const Value extra = evaluate(*node.double_star);
  const auto* dict = extra.dict();
  if (dict == nullptr) {
    refuse_undefined(runtime_, extra);
    runtime_.fail("argument after ** must be a mapping, not {}", type_name(extra));
  }
  for (const auto& [key, value] : dict->entries) {
    const auto* name = key.string();
    if (name == nullptr) runtime_.fail("keywords must be strings");
    runtime_.step(1 + arguments.keywords.size() / 8);
    for (const auto& [present, ignored] : arguments.keywords) {
      if (present == name->bytes()) {
        runtime_.fail("got multiple values for keyword argument {}", short_repr(present));
      }
    }
    arguments.keywords.emplace_back(name->bytes(), value);
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Call& node, const Value& caller) {
  const Value callee = evaluate(*node.callee);
  const std::string_view name = callee.is(Kind::kCallable) ? callee.callable()->name : "loop";
  CallArguments arguments = evaluate_arguments(node.arguments, name);
  if (!caller.missing()) arguments.keywords.emplace_back("caller", caller);
  return call(callee, arguments);
}

Value Interpreter::call(const Value& callee, CallArguments& arguments) {
  if (callee.is(Kind::kLoop)) return call_loop(callee, arguments);
  const auto* callable = callee.callable();
  if (callable == nullptr) {
    refuse_undefined(runtime_, callee);
    runtime_.fail("'{}' object is not callable", type_name(callee));
  }
  if (callable->macro != nullptr) return call_macro(*callable, arguments);
  return callable->builtin(runtime_, callable->self, arguments);
}

// The loop's body over other items, as text: how templates walk trees.
Value Interpreter::call_loop(const Value& value, CallArguments& arguments) {
  const Value items = arguments.required("iterable");
  arguments.finish();
  const LoopObject& loop = *value.loop();
  if (loop.recursive == nullptr) {
    runtime_.fail("The loop must have the 'recursive' marker to be called recursively.");
  }
  Capture capture(*this);
  run_loop(*loop.recursive, loop.scope, items, loop.depth0 + 1);
  return capture.text.value();
}

void Interpreter::bind_parameters(const Macro& macro, CallArguments& arguments, Scope& scope) {
  // All are bound before any default is worked out, as defaults may refer to other parameters.
  for (const Macro::Parameter& parameter : macro.parameters) {
    scope.set(parameter.id, arguments.optional(parameter.name));
  }
  for (const Macro::Parameter& parameter : macro.parameters) {
    if (!scope.find(parameter.id)->missing()) continue;
    scope.set(parameter.id, parameter.fallback != nullptr
                                ? evaluate(*parameter.fallback)
                                : runtime_.undefined(fmt::format("parameter '{}' was not provided",
                                                                 parameter.name)));
  }
}

// caller, kwargs and varargs, for macros that refer to them.
void Interpreter::bind_extras(const Macro& macro, CallArguments& arguments, Scope& scope) {
  const bool takes_caller =
      std::any_of(macro.parameters.begin(), macro.parameters.end(),
                  [](const auto& parameter) { return parameter.name == "caller"; });
  if (macro.uses_caller && !takes_caller) {
    Value caller = arguments.take_keyword("caller");
    if (caller.missing() || caller.none()) caller = runtime_.undefined("No caller defined");
    scope.set(kCallerName, std::move(caller));
  }
  if (macro.uses_kwargs) {
    DictObject kwargs;
    for (auto& [name, value] : arguments.keywords) {
      kwargs.insert(runtime_.text(name, false), std::move(value));
    }
    arguments.keywords.clear();
    scope.set(kKwargsName, runtime_.dict(std::move(kwargs)));
  }
  if (macro.uses_varargs) scope.set(kVarargsName, runtime_.tuple(arguments.take_rest()));
  arguments.finish();
}

Value Interpreter::call_macro(const CallableObject& callable, CallArguments& arguments) {
  const Depth depth(*this);
  const std::shared_ptr<const Macro> macro = callable.macro;
  const std::shared_ptr<Scope> scope = runtime_.scope(callable.scope);
  const InScope inner(*this, scope);
  const std::uint32_t line = runtime_.line();
  bind_parameters(*macro, arguments, *scope);
  bind_extras(*macro, arguments, *scope);
  Capture capture(*this);
  run_body(macro->body);
  runtime_.set_line(line);
  return capture.text.value();
}

}  // namespace strata::text::jinja
