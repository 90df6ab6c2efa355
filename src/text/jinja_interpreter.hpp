// Runs a program.
#pragma once

#include "src/text/jinja_ast.hpp"
#include "src/text/jinja_callable.hpp"
#include "src/text/jinja_runtime.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace strata::text::jinja {

class Interpreter {
 public:
  Interpreter(const Program& program, CivilTime now)
      : program_(program), runtime_(program.limits, now) {}

  [[nodiscard]] Text run(std::span<const JinjaVariable> variables);

 private:
  // What a statement does to the loop around it.
  enum class Flow : std::uint8_t { kNormal, kBreak, kContinue };
  class Depth;    // counts nodes being evaluated
  class InScope;  // makes a scope current
  class Capture;  // sends output to a text of its own

  // Statements: jinja_interpreter.cpp.
  Flow run_block(const Block& block);
  Flow run_body(const Body& body);  // in the current scope, which is the body's own
  Flow run_statement(const Statement& statement);
  Flow run(const Output& node);
  Flow run(const If& node);
  Flow run(const For& node);
  Flow run(const Set& node);
  Flow run(const SetBlock& node);
  Flow run(const MacroDefinition& node);
  Flow run(const CallBlock& node);
  Flow run(const FilterBlock& node);
  Flow run(const With& node);
  Flow run(const Inner& node);
  Flow run(const LoopControl& node);
  void run_loop(const For& node, const std::shared_ptr<Scope>& scope, const Value& items,
                std::size_t depth);
  Value filter_items(const For& node, const std::shared_ptr<Scope>& scope, const Value& items);
  void assign(const Target& target, const Value& value);
  void write_text(const Value& value);  // of a block, which must be a string
  Value make_macro(const std::shared_ptr<const Macro>& macro);

  // Expressions: jinja_evaluate.cpp.
  Value evaluate(const Expression& expression);
  Value evaluate_node(const Literal& node);
  Value evaluate_node(const Name& node);
  Value evaluate_node(const TupleLiteral& node);
  Value evaluate_node(const ListLiteral& node);
  Value evaluate_node(const DictLiteral& node);
  Value evaluate_node(const Unary& node);
  Value evaluate_node(const Binary& node);
  Value evaluate_node(const Concatenation& node);
  Value evaluate_node(const ComparisonChain& node);
  Value evaluate_node(const Conditional& node);
  Value evaluate_node(const Attribute& node);
  Value evaluate_node(const Item& node);
  Value evaluate_node(const Slice& node);
  Value evaluate_node(const Call& node);
  Value evaluate_node(const FilterCall& node);
  Value evaluate_node(const TestCall& node);
  std::vector<Value> evaluate_all(const std::vector<ExpressionPtr>& expressions);
  Value evaluate_optional(const ExpressionPtr& expression);  // missing when there is none
  Value evaluate_call(const Call& node, const Value& caller);
  CallArguments evaluate_arguments(const Arguments& node, std::string_view function);
  Value call(const Value& callee, CallArguments& arguments);
  Value call_macro(const CallableObject& callable, CallArguments& arguments);
  Value call_loop(const Value& value, CallArguments& arguments);
  void bind_parameters(const Macro& macro, CallArguments& arguments, Scope& scope);
  void bind_extras(const Macro& macro, CallArguments& arguments, Scope& scope);
  Value apply_block_filter(const Expression& filter, Value text);

  const Program& program_;
  Runtime runtime_;
  // Declared after the runtime: all values must go before it does.
  std::shared_ptr<Scope> scope_;
  TextBuilder* out_ = nullptr;
  Value block_text_;  // what the innermost filter of a filter block works on
  int depth_ = 0;
};

class Interpreter::Depth {
 public:
  explicit Depth(Interpreter& interpreter) : depth_(interpreter.depth_) {
    interpreter.runtime_.step();
    if (++depth_ > interpreter.runtime_.limits().max_depth) {
      --depth_;
      interpreter.runtime_.fail("calls and expressions nest more than {} deep",
                                interpreter.runtime_.limits().max_depth);
    }
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

class Interpreter::InScope {
 public:
  InScope(Interpreter& interpreter, std::shared_ptr<Scope> scope)
      : current_(interpreter.scope_), saved_(std::exchange(current_, std::move(scope))) {}
  ~InScope() { current_ = std::move(saved_); }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  std::shared_ptr<Scope>& current_;
  std::shared_ptr<Scope> saved_;
};

class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : text(interpreter.runtime_),
        current_(interpreter.out_),
        saved_(std::exchange(current_, &text)) {}
  ~Capture() { current_ = saved_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  TextBuilder text;

 private:
  TextBuilder*& current_;
  TextBuilder* saved_;
};

// A JSON value as a template sees it. `key` is the name of the member that holds it.
[[nodiscard]] Value from_json(Runtime& runtime, const nlohmann::ordered_json& json,
                              TrustRule trusts, std::string_view key, int depth = 0);

}  // namespace strata::text::jinja
