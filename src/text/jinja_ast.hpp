// The syntax tree of a template. Immutable once parsed, shared by all renders.
#pragma once

#include "src/text/jinja_runtime.hpp"
#include "src/text/jinja_value.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace strata::text::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Block = std::vector<Statement>;
struct Filter;  // jinja_builtins.hpp
struct Test;

// ---- expressions ----

struct Literal {
  Value value;
};
struct Name {
  NameId id;
};
struct TupleLiteral {
  std::vector<ExpressionPtr> items;
};
struct ListLiteral {
  std::vector<ExpressionPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

enum class UnaryOperator : std::uint8_t { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};

enum class BinaryOperator : std::uint8_t {
  kOr,
  kAnd,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};
struct Binary {
  BinaryOperator op;
  ExpressionPtr left, right;
};
struct Concatenation {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};

enum class Comparison : std::uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};
struct ComparisonChain {  // a < b <= c
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};

struct Conditional {  // then if test else otherwise
  ExpressionPtr test, then;
  ExpressionPtr otherwise;  // null when there is no else
};
struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct Item {  // object[index]
  ExpressionPtr object, index;
};
struct Slice {  // object[start:stop:step], each null when left out
  ExpressionPtr object, start, stop, step;
};

struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> keywords;
  ExpressionPtr star;         // *args, or null
  ExpressionPtr double_star;  // **kwargs, or null
};
struct Call {
  ExpressionPtr callee;
  Arguments arguments;
};
struct FilterCall {
  ExpressionPtr input;   // null for the innermost filter of a block: the block's text
  const Filter* filter;  // null when there is no such filter, an error if it is reached
  std::string name;
  Arguments arguments;
};
struct TestCall {
  ExpressionPtr input;
  const Test* test;  // null when there is no such test, an error if it is reached
  std::string name;
  Arguments arguments;
};

struct Expression {
  using Node = std::variant<Literal, Name, TupleLiteral, ListLiteral, DictLiteral, Unary, Binary,
                            Concatenation, ComparisonChain, Conditional, Attribute, Item, Slice,
                            Call, FilterCall, TestCall>;
  std::uint32_t line;
  int depth;  // 1 + that of the deepest part
  Node node;
};

// ---- statements ----

// What may stand left of "=": a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  enum class Kind : std::uint8_t { kName, kAttribute, kTuple };
  Kind kind;
  NameId name = 0;            // the variable, or the namespace
  std::string attribute;      // kAttribute
  std::vector<Target> items;  // kTuple
};

struct Body {
  Block block;
  // Names that are undefined in here until they are set, whatever the template's variables say:
  // jinja_scopes.hpp.
  std::vector<NameId> unset;
};

struct Output {
  std::string text;          // template text, printed as it is
  ExpressionPtr expression;  // or, when not null, a value to print
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // or null
  Body body;
  Body otherwise;  // runs when no round of the body was completed
  bool recursive;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // or null
  Body body;
};
struct Macro {
  NameId name = 0;
  std::string text_name;
  struct Parameter {
    NameId id;
    std::string name;
    ExpressionPtr fallback;  // or null
  };
  std::vector<Parameter> parameters;
  Body body;
  // Whether the body refers to these, which it then receives besides its parameters.
  bool uses_caller = false, uses_kwargs = false, uses_varargs = false;
};
struct MacroDefinition {
  std::shared_ptr<Macro> macro;
};
struct CallBlock {
  std::shared_ptr<Macro> caller;
  ExpressionPtr call;
};
struct FilterBlock {
  ExpressionPtr filter;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> bindings;
  Body body;
};
struct Inner {  // {% generation %}, {% autoescape false %}
  Body body;
};
struct LoopControl {
  bool breaks;  // or continues
};

struct Statement {
  using Node = std::variant<Output, If, For, Set, SetBlock, MacroDefinition, CallBlock, FilterBlock,
                            With, Inner, LoopControl>;
  std::uint32_t line;
  Node node;
};

// Names the engine itself gives values; the first of every program.
inline constexpr NameId kLoopName = 0;
inline constexpr NameId kCallerName = 1;
inline constexpr NameId kKwargsName = 2;
inline constexpr NameId kVarargsName = 3;

struct Program {
  JinjaLimits limits;
  std::vector<std::string> names;  // by NameId
  Body body;
};

}  // namespace strata::text::jinja
