// The parser's tokens and its messages about them; targets of assignments.
#include "src/text/jinja_parser.hpp"

namespace strata::text::jinja {

std::string describe(TokenKind kind) {
  switch (kind) {
    case TokenKind::kData:
      return "template data / text";
    case TokenKind::kVariableBegin:
      return "begin of print statement";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockBegin:
      return "begin of statement block";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kName:
      return "name";
    case TokenKind::kString:
      return "string";
    case TokenKind::kInteger:
      return "integer";
    case TokenKind::kFloat:
      return "float";
    case TokenKind::kOperator:
      return "operator";
    case TokenKind::kEnd:
      return "end of template";
  }
  return "token";
}

std::string describe(const Token& token) {
  const bool by_text = token.kind == TokenKind::kName || token.kind == TokenKind::kOperator;
  return by_text ? token.text : describe(token.kind);
}

Token Parser::take() {
  Token token = std::move(current_);
  if (ahead_) {
    current_ = std::move(*ahead_);
    ahead_.reset();
  } else {
    current_ = lexer_.next();
  }
  return token;
}

const Token& Parser::look() {
  if (!ahead_) ahead_ = lexer_.next();
  return *ahead_;
}

bool Parser::skip_name(std::string_view name) {
  if (!current_.is_name(name)) return false;
  take();
  return true;
}

bool Parser::skip_operator(std::string_view op) {
  if (!current_.is_operator(op)) return false;
  take();
  return true;
}

Token Parser::expect(TokenKind kind) {
  if (current_.kind != kind) fail_unexpected(describe(kind));
  return take();
}

void Parser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) fail_unexpected(op);
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_unexpected(name);
}

void Parser::fail_here(std::string_view message) const { fail_syntax(current_.line, message); }

void Parser::fail_unexpected(std::string_view expected) const {
  if (current_.kind == TokenKind::kEnd) {
    fail_here(fmt::format("unexpected end of template, expected '{}'", expected));
  }
  fail_here(fmt::format("expected token '{}', got '{}'", expected, describe(current_)));
}

void Parser::check_nesting() const {
  const int bound = program_->limits.max_nesting;
  if (nesting_ > bound)
    fail_here(fmt::format("blocks or expressions nest more than {} deep", bound));
}

void Parser::check_depth(std::uint32_t line, int depth) const {
  const int bound = 4 * program_->limits.max_nesting;
  if (depth > bound) fail_syntax(line, fmt::format("an expression has more than {} levels", bound));
}

NameId Parser::intern(const std::string& name) {
  const auto [entry, added] =
      name_ids_.try_emplace(name, static_cast<NameId>(program_->names.size()));
  if (added) program_->names.push_back(name);
  return entry->second;
}

Target Parser::parse_target(bool attributes, std::string_view stop) {
  std::vector<Target> items;
  bool tuple = false;
  while (true) {
    if (!items.empty()) expect_operator(",");
    if (at_tuple_end(stop)) break;
    items.push_back(parse_one_target(attributes));
    if (!current_.is_operator(",")) break;
    tuple = true;
  }
  if (!tuple && items.empty()) {
    fail_here(fmt::format("Expected an expression, got '{}'", describe(current_)));
  }
  if (!tuple) return std::move(items.front());
  return Target{Target::Kind::kTuple, 0, {}, std::move(items)};
}

Target Parser::parse_one_target(bool attributes) {
  if (attributes && current_.kind == TokenKind::kName && look().is_operator(".")) {
    const Token object = take();
    take();
    const Token attribute = expect(TokenKind::kName);
    return Target{Target::Kind::kAttribute, intern(object.text), attribute.text, {}};
  }
  return to_target(*parse_primary());
}

Target Parser::to_target(const Expression& expression) const {
  if (const auto* name = std::get_if<Name>(&expression.node)) {
    return Target{Target::Kind::kName, name->id, {}, {}};
  }
  if (const auto* tuple = std::get_if<TupleLiteral>(&expression.node)) {
    Target target{Target::Kind::kTuple, 0, {}, {}};
    for (const ExpressionPtr& item : tuple->items) target.items.push_back(to_target(*item));
    return target;
  }
  fail_syntax(expression.line, "can't assign to this expression; give a name");
}

void Parser::refuse_loop_target(const Target& target, std::uint32_t line) const {
  if (target.kind == Target::Kind::kName && target.name == kLoopName) {
    fail_syntax(line, "Can't assign to special loop variable in for-loop target");
  }
  for (const Target& item : target.items) refuse_loop_target(item, line);
}

}  // namespace strata::text::jinja
