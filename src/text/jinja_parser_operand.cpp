// Operands of expressions: names, literals, and what may follow them.
#include "src/text/jinja_builtins.hpp"
#include "src/text/jinja_numbers.hpp"
#include "src/text/jinja_parser.hpp"
#include "src/text/jinja_unicode.hpp"

#include <algorithm>

namespace strata::text::jinja {
namespace {

Value literal_text(std::string bytes) {
  auto object = std::make_shared<StringObject>();
  object->length = count_code_points(bytes);
  object->text = Text(std::move(bytes), true);
  return Ref<const StringObject>(std::move(object));
}

}  // namespace

int Parser::depth(const std::vector<ExpressionPtr>& expressions) {
  int deepest = 0;
  for (const ExpressionPtr& part : expressions) deepest = std::max(deepest, part->depth);
  return deepest;
}

int Parser::depth(const Arguments& arguments) {
  int deepest_part =
      std::max({depth(arguments.positional), depth(arguments.star), depth(arguments.double_star)});
  for (const auto& [name, value] : arguments.keywords) {
    deepest_part = std::max(deepest_part, value->depth);
  }
  return deepest_part;
}

void Parser::report_unknown(std::uint32_t line, std::string_view what, std::string_view name) {
  if (!conditional_block_)
    unknown_.emplace_back(line, fmt::format("No {} named '{}'.", what, name));
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
  const NameId id = intern(name);
  for (Macro* macro : macros_) {
    macro->uses_caller |= id == kCallerName;
    macro->uses_kwargs |= id == kKwargsName;
    macro->uses_varargs |= id == kVarargsName;
  }
  return make(token.line, Name{id});
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
  const int deepest_part = depth(items);
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
  const int deepest_part = std::max(object->depth, depth(items));
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
