#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_parser.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>
#include <array>

namespace strata::text::jinja {
namespace {

Value literal_text(std::string bytes) {
  auto object = std::make_shared<StringObject>();
  object->length = count_code_points(bytes);
  object->text = Text(std::move(bytes), true);
  return Ref<const StringObject>(std::move(object));
}

template <class Range>
int deepest(const Range& expressions) {
  int depth = 0;
  for (const ExpressionPtr& part : expressions) depth = std::max(depth, part->depth);
  return depth;
}

}  // namespace

int Parser::depth(const Arguments& arguments) {
  int deepest_part = std::max(
      {deepest(arguments.positional), depth(arguments.star), depth(arguments.double_star)});
  for (const auto& [name, value] : arguments.keywords) {
    deepest_part = std::max(deepest_part, value->depth);
  }
  return deepest_part;
}

void Parser::report_unknown(std::uint32_t line, std::string_view what, std::string_view name) {
  if (!conditional_block_)
    unknown_.emplace_back(line, fmt::format("No {} named '{}'.", what, name));
}

bool Parser::at_tuple_end(std::string_view stop) const {
  return current_.kind == TokenKind::kVariableEnd || current_.kind == TokenKind::kBlockEnd ||
         current_.is_operator(")") || (!stop.empty() && current_.is_name(stop));
}

ExpressionPtr Parser::parse_tuple(bool conditional, std::string_view stop, bool parenthesised) {
  std::uint32_t line = current_.line;
  std::vector<ExpressionPtr> items;
  bool tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    if (at_tuple_end(stop)) break;
    items.push_back(parse_expression(conditional));
    if (!current_.is_operator(",")) break;
    tuple = true;
    line = current_.line;
  }
  if (!tuple && !items.empty()) return std::move(items.front());
  if (!tuple && !parenthesised) {
    fail_here(fmt::format("Expected an expression, got '{}'", describe(current_)));
  }
  const int depth = deepest(items);
  return make(line, TupleLiteral{std::move(items)}, depth);
}

ExpressionPtr Parser::parse_expression(bool conditional) {
  const Nesting nesting(*this);
  return conditional ? parse_conditional() : parse_or();
}

ExpressionPtr Parser::parse_conditional() {
  const std::uint32_t line = current_.line;
  const std::size_t known_unknown = unknown_.size();
  ExpressionPtr then = parse_or();
  while (skip_name("if")) {
    ExpressionPtr test = parse_or();
    ExpressionPtr otherwise;
    if (skip_name("else")) {
      const Nesting nesting(*this);
      otherwise = parse_conditional();
    }
    unknown_.resize(known_unknown);
    const int deepest_part = std::max({then->depth, test->depth, depth(otherwise)});
    then = make(line, Conditional{std::move(test), std::move(then), std::move(otherwise)},
                deepest_part);
  }
  return then;
}

ExpressionPtr Parser::make_binary(BinaryOperator op, std::uint32_t line, ExpressionPtr left,
                                  ExpressionPtr right) {
  const int deepest_part = std::max(left->depth, right->depth);
  return make(line, Binary{op, std::move(left), std::move(right)}, deepest_part);
}

ExpressionPtr Parser::parse_or() {
  ExpressionPtr left = parse_and();
  for (std::uint32_t line = current_.line; skip_name("or"); line = current_.line) {
    left = make_binary(BinaryOperator::kOr, line, std::move(left), parse_and());
  }
  return left;
}

ExpressionPtr Parser::parse_and() {
  ExpressionPtr left = parse_not();
  for (std::uint32_t line = current_.line; skip_name("and"); line = current_.line) {
    left = make_binary(BinaryOperator::kAnd, line, std::move(left), parse_not());
  }
  return left;
}

ExpressionPtr Parser::parse_not() {
  if (!current_.is_name("not")) return parse_comparison();
  const Nesting nesting(*this);
  const std::uint32_t line = take().line;
  ExpressionPtr operand = parse_not();
  const int deepest_part = operand->depth;
  return make(line, Unary{UnaryOperator::kNot, std::move(operand)}, deepest_part);
}

std::optional<Comparison> Parser::take_comparison() {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kOperators = {{
      {"==", Comparison::kEqual},
      {"!=", Comparison::kNotEqual},
      {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual},
      {">", Comparison::kGreater},
      {">=", Comparison::kGreaterEqual},
  }};
  for (const auto& [text, comparison] : kOperators) {
    if (skip_operator(text)) return comparison;
  }
  if (skip_name("in")) return Comparison::kIn;
  if (current_.is_name("not") && look().is_name("in")) {
    take();
    take();
    return Comparison::kNotIn;
  }
  return std::nullopt;
}

ExpressionPtr Parser::parse_comparison() {
  const std::uint32_t line = current_.line;
  ExpressionPtr first = parse_sum();
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
  int deepest_part = first->depth;
  while (const auto comparison = take_comparison()) {
    rest.emplace_back(*comparison, parse_sum());
    deepest_part = std::max(deepest_part, rest.back().second->depth);
  }
  if (rest.empty()) return first;
  return make(line, ComparisonChain{std::move(first), std::move(rest)}, deepest_part);
}

ExpressionPtr Parser::parse_sum() {
  ExpressionPtr left = parse_concatenation();
  while (current_.is_operator("+") || current_.is_operator("-")) {
    const Token op = take();
    left = make_binary(op.text == "+" ? BinaryOperator::kAdd : BinaryOperator::kSubtract, op.line,
                       std::move(left), parse_concatenation());
  }
  return left;
}

ExpressionPtr Parser::parse_concatenation() {
  const std::uint32_t line = current_.line;
  ExpressionPtr first = parse_product();
  if (!current_.is_operator("~")) return first;
  std::vector<ExpressionPtr> parts;
  parts.push_back(std::move(first));
  while (skip_operator("~")) parts.push_back(parse_product());
  const int deepest_part = deepest(parts);
  return make(line, Concatenation{std::move(parts)}, deepest_part);
}

ExpressionPtr Parser::parse_product() {
  static constexpr std::array<std::pair<std::string_view, BinaryOperator>, 4> kOperators = {{
      {"*", BinaryOperator::kMultiply},
      {"/", BinaryOperator::kDivide},
      {"//", BinaryOperator::kFloorDivide},
      {"%", BinaryOperator::kModulo},
  }};
  ExpressionPtr left = parse_power();
  while (true) {
    const auto* const op =
        std::find_if(kOperators.begin(), kOperators.end(),
                     [this](const auto& entry) { return current_.is_operator(entry.first); });
    if (op == kOperators.end()) return left;
    const std::uint32_t line = take().line;
    left = make_binary(op->second, line, std::move(left), parse_power());
  }
}

ExpressionPtr Parser::parse_power() {
  ExpressionPtr left = parse_unary();
  while (current_.is_operator("**")) {
    const std::uint32_t line = take().line;
    left = make_binary(BinaryOperator::kPower, line, std::move(left), parse_unary());
  }
  return left;
}

ExpressionPtr Parser::parse_unary(bool filters) {
  ExpressionPtr node;
  if (current_.is_operator("-") || current_.is_operator("+")) {
    const Nesting nesting(*this);
    const Token sign = take();
    ExpressionPtr operand = parse_unary(false);
    const int deepest_part = operand->depth;
    const UnaryOperator op = sign.text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    node = make(sign.line, Unary{op, std::move(operand)}, deepest_part);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return filters ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::parse_primary() {
  switch (current_.kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return parse_number();
    default:
      break;
  }
  if (skip_operator("(")) {
    ExpressionPtr inner = parse_tuple(true, {}, true);
    expect_operator(")");
    return inner;
  }
  if (current_.is_operator("[")) return parse_list();
  if (current_.is_operator("{")) return parse_dict();
  fail_here(fmt::format("unexpected '{}'", describe(current_)));
}

ExpressionPtr Parser::parse_name() {
  const Token token = take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return make(token.line, Literal{Value(true)});
  if (name == "false" || name == "False") return make(token.line, Literal{Value(false)});
  if (name == "none" || name == "None") return make(token.line, Literal{Value(None{})});
  for (Macro* macro : macros_) {
    macro->uses_caller |= name == "caller";
    macro->uses_kwargs |= name == "kwargs";
    macro->uses_varargs |= name == "varargs";
  }
  return make(token.line, Name{intern(name)});
}

ExpressionPtr Parser::parse_string() {
  const std::uint32_t line = current_.line;
  std::string text = take().text;
  while (current_.kind == TokenKind::kString) text += take().text;
  return make(line, Literal{literal_text(std::move(text))});
}

ExpressionPtr Parser::parse_number() {
  const Token token = take();
  if (token.kind == TokenKind::kFloat) {
    return make(token.line, Literal{Value(*parse_float(token.text))});
  }
  Int integer = 0;
  if (parse_integer(token.text, 0, integer) != IntegerSyntax::kValid) {
    fail_syntax(token.line, "an integer needs more than 127 bits");
  }
  return make(token.line, Literal{Value(integer)});
}

ExpressionPtr Parser::parse_list() {
  const std::uint32_t line = take().line;
  std::vector<ExpressionPtr> items;
  while (!current_.is_operator("]")) {
    if (!items.empty()) expect_operator(",");
    if (current_.is_operator("]")) break;
    items.push_back(parse_expression());
  }
  expect_operator("]");
  const int deepest_part = deepest(items);
  return make(line, ListLiteral{std::move(items)}, deepest_part);
}

ExpressionPtr Parser::parse_dict() {
  const std::uint32_t line = take().line;
  DictLiteral dict;
  int deepest_part = 0;
  while (!current_.is_operator("}")) {
    if (!dict.entries.empty()) expect_operator(",");
    if (current_.is_operator("}")) break;
    ExpressionPtr key = parse_expression();
    expect_operator(":");
    ExpressionPtr value = parse_expression();
    deepest_part = std::max({deepest_part, key->depth, value->depth});
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  expect_operator("}");
  return make(line, std::move(dict), deepest_part);
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr object) {
  while (true) {
    if (current_.is_operator(".")) {
      object = parse_attribute(std::move(object));
    } else if (current_.is_operator("[")) {
      object = parse_subscript(std::move(object));
    } else if (current_.is_operator("(")) {
      object = parse_call(std::move(object));
    } else {
      return object;
    }
  }
}

ExpressionPtr Parser::parse_filters_and_tests(ExpressionPtr input) {
  while (true) {
    if (current_.is_operator("|")) {
      input = parse_filters(std::move(input));
    } else if (current_.is_name("is")) {
      input = parse_test(std::move(input));
    } else if (current_.is_operator("(")) {
      input = parse_call(std::move(input));
    } else {
      return input;
    }
  }
}

ExpressionPtr Parser::parse_attribute(ExpressionPtr object) {
  const std::uint32_t line = take().line;
  const int deepest_part = object->depth;
  if (current_.kind == TokenKind::kName) {
    return make(line, Attribute{std::move(object), take().text}, deepest_part);
  }
  if (current_.kind != TokenKind::kInteger) fail_here("expected name or number");
  ExpressionPtr index = parse_number();
  return make(line, Item{std::move(object), std::move(index)}, deepest_part);
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr object) {
  const std::uint32_t line = take().line;
  std::vector<ExpressionPtr> items;
  bool tuple = false;
  while (!current_.is_operator("]")) {
    if (!items.empty()) expect_operator(",");
    if (current_.is_operator(":") && items.empty()) {
      return parse_slice(std::move(object), nullptr, line);
    }
    items.push_back(parse_expression());
    if (current_.is_operator(":") && items.size() == 1) {
      return parse_slice(std::move(object), std::move(items.front()), line);
    }
    tuple = items.size() > 1;
  }
  expect_operator("]");
  const int deepest_part = std::max(object->depth, deepest(items));
  ExpressionPtr index = items.size() == 1 && !tuple
                            ? std::move(items.front())
                            : make(line, TupleLiteral{std::move(items)}, deepest_part);
  return make(line, Item{std::move(object), std::move(index)}, deepest_part + 1);
}

ExpressionPtr Parser::parse_slice(ExpressionPtr object, ExpressionPtr start, std::uint32_t line) {
  Slice slice{std::move(object), std::move(start), nullptr, nullptr};
  expect_operator(":");
  const auto part_ahead = [this] {
    return !current_.is_operator(":") && !current_.is_operator("]");
  };
  if (part_ahead()) slice.stop = parse_expression();
  if (skip_operator(":") && part_ahead()) slice.step = parse_expression();
  expect_operator("]");
  const int deepest_part =
      std::max({slice.object->depth, depth(slice.start), depth(slice.stop), depth(slice.step)});
  return make(line, std::move(slice), deepest_part);
}

Arguments Parser::parse_arguments() {
  const std::uint32_t line = current_.line;
  expect_operator("(");
  Arguments arguments;
  const auto ensure = [&](bool valid) {
    if (!valid) fail_syntax(line, "invalid syntax for function call expression");
  };
  for (bool first = true; !current_.is_operator(")"); first = false) {
    if (!first) expect_operator(",");
    if (current_.is_operator(")")) break;
    const bool plain = arguments.star == nullptr && arguments.double_star == nullptr;
    if (skip_operator("*")) {
      ensure(plain);
      arguments.star = parse_expression();
    } else if (skip_operator("**")) {
      ensure(arguments.double_star == nullptr);
      arguments.double_star = parse_expression();
    } else if (current_.kind == TokenKind::kName && look().is_operator("=")) {
      ensure(arguments.double_star == nullptr);
      const Token name = take();
      take();
      for (const auto& [other, value] : arguments.keywords) {
        if (other == name.text) {
          misplaced_.emplace_back(name.line,
                                  fmt::format("keyword argument repeated: {}", name.text));
        }
      }
      arguments.keywords.emplace_back(name.text, parse_expression());
    } else {
      ensure(plain && arguments.keywords.empty());
      arguments.positional.push_back(parse_expression());
    }
  }
  expect_operator(")");
  return arguments;
}

ExpressionPtr Parser::parse_call(ExpressionPtr callee) {
  const std::uint32_t line = current_.line;
  Arguments arguments = parse_arguments();
  const int deepest_part = std::max(callee->depth, depth(arguments));
  return make(line, Call{std::move(callee), std::move(arguments)}, deepest_part);
}

std::string Parser::parse_dotted_name() {
  std::string name = expect(TokenKind::kName).text;
  while (skip_operator(".")) name += "." + expect(TokenKind::kName).text;
  return name;
}

ExpressionPtr Parser::parse_filters(ExpressionPtr input) {
  while (skip_operator("|")) input = parse_filter(std::move(input));
  return input;
}

ExpressionPtr Parser::parse_filter(ExpressionPtr input) {
  const std::uint32_t line = current_.line;
  FilterCall call{std::move(input), nullptr, parse_dotted_name(), {}};
  call.filter = find_filter(call.name);
  if (call.filter == nullptr) report_unknown(line, "filter", call.name);
  if (current_.is_operator("(")) call.arguments = parse_arguments();
  const int deepest_part = std::max(depth(call.input), depth(call.arguments));
  return make(line, std::move(call), deepest_part);
}

bool Parser::test_argument_ahead() const {
  switch (current_.kind) {
    case TokenKind::kString:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return true;
    case TokenKind::kName:
      return !current_.is_name("else") && !current_.is_name("or") && !current_.is_name("and");
    default:
      return current_.is_operator("[") || current_.is_operator("{");
  }
}

ExpressionPtr Parser::parse_test(ExpressionPtr input) {
  const std::uint32_t line = take().line;
  const bool negated = skip_name("not");
  TestCall call{std::move(input), nullptr, parse_dotted_name(), {}};
  call.test = find_test(call.name);
  if (call.test == nullptr) report_unknown(line, "test", call.name);
  if (current_.is_operator("(")) {
    call.arguments = parse_arguments();
  } else if (test_argument_ahead()) {
    if (current_.is_name("is")) fail_here("You cannot chain multiple tests with is");
    const Nesting nesting(*this);
    call.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  const int deepest_part = std::max(call.input->depth, depth(call.arguments));
  ExpressionPtr test = make(line, std::move(call), deepest_part);
  if (!negated) return test;
  return make(line, Unary{UnaryOperator::kNot, std::move(test)}, deepest_part + 1);
}

}  // namespace strata::text::jinja
