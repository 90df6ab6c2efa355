// Expressions, from the operators that bind least to those that bind most.
#include "src/text/jinja_parser.hpp"

#include <algorithm>
#include <array>

namespace strata::text::jinja {

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
  const int deepest_part = depth(items);
  return make(line, TupleLiteral{std::move(items)}, deepest_part);
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
  const int deepest_part = depth(parts);
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

}  // namespace strata::text::jinja
