#include "src/text/jinja_parser.hpp"

#include "src/text/jinja_scopes.hpp"

#include "strata/base/error.hpp"

#include <algorithm>

namespace strata::text::jinja {
namespace {

// Sets a variable for the time of a block.
template <class T>
class Override {
 public:
  Override(T& variable, T value) : variable_(variable), saved_(std::exchange(variable, value)) {}
  ~Override() { variable_ = saved_; }
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;

 private:
  T& variable_;
  T saved_;
};

std::string quoted_list(std::initializer_list<std::string_view> names) {
  std::string out;
  for (const std::string_view name : names) {
    out += fmt::format("{}'{}'", out.empty() ? "" : " or ", name);
  }
  return out;
}

}  // namespace

Parser::Parser(std::string_view source, const JinjaLimits& limits)
    : lexer_(source), program_(std::make_shared<Program>()) {
  program_->limits = limits;
  for (const char* name : {"loop", "caller", "kwargs", "varargs"}) intern(name);
  current_ = lexer_.next();
}

std::shared_ptr<const Program> Parser::parse() {
  program_->body.block = parse_block({});
  for (const auto* mistakes : {&unknown_, &misplaced_}) {
    if (!mistakes->empty()) fail_syntax(mistakes->front().first, mistakes->front().second);
  }
  find_unset_names(*program_);
  return program_;
}

Block Parser::parse_block(EndTags end_tags) {
  const Nesting nesting(*this);
  end_tags_.push_back(end_tags);
  Block block;
  while (current_.kind != TokenKind::kEnd) {
    const std::uint32_t line = current_.line;
    if (current_.kind == TokenKind::kData) {
      block.push_back({line, Output{take().text, nullptr}});
    } else if (current_.kind == TokenKind::kVariableBegin) {
      take();
      block.push_back({line, Output{{}, parse_tuple(true, {})}});
      expect(TokenKind::kVariableEnd);
    } else {
      expect(TokenKind::kBlockBegin);
      if (current_.kind != TokenKind::kName) fail_here("tag name expected");
      if (std::find(end_tags.begin(), end_tags.end(), current_.text) != end_tags.end()) {
        end_tags_.pop_back();
        return block;
      }
      const Token tag = take();
      open_tags_.push_back(tag.text);
      if (tag.text == "print") {
        parse_print(block);
      } else {
        block.push_back({tag.line, parse_tag(tag)});
      }
      open_tags_.pop_back();
      expect(TokenKind::kBlockEnd);
    }
  }
  if (end_tags.size() > 0) fail_end(end_tags);
  end_tags_.pop_back();
  return block;
}

Block Parser::parse_tag_body(EndTags end_tags) {
  skip_operator(":");
  expect(TokenKind::kBlockEnd);
  return parse_block(end_tags);
}

void Parser::fail_end(EndTags end_tags) const {
  fail_here(
      fmt::format("Unexpected end of template. Jinja was looking for the following tags: {}. "
                  "The innermost block that needs to be closed is '{}'.",
                  quoted_list(end_tags), open_tags_.back()));
}

void Parser::fail_unknown_tag(const Token& tag) const {
  std::string message = fmt::format("Encountered unknown tag '{}'.", tag.text);
  if (end_tags_.size() > 1) {
    const bool expected = std::any_of(end_tags_.begin(), end_tags_.end(), [&](EndTags tags) {
      return std::find(tags.begin(), tags.end(), tag.text) != tags.end();
    });
    message += expected ? " You probably made a nesting mistake. Jinja is expecting this tag, but "
                          "currently looking for "
                        : " Jinja was looking for the following tags: ";
    message += quoted_list(end_tags_.back()) + ".";
  }
  if (open_tags_.size() > 1) {
    message += fmt::format(" The innermost block that needs to be closed is '{}'.",
                           open_tags_[open_tags_.size() - 2]);
  }
  fail_syntax(tag.line, message);
}

Statement::Node Parser::parse_tag(const Token& tag) {
  const std::string& name = tag.text;
  if (name == "if") return parse_if();
  if (name == "for") return parse_for();
  if (name == "set") return parse_set();
  if (name == "macro") return parse_macro();
  if (name == "call") return parse_call_block();
  if (name == "filter") return parse_filter_block();
  if (name == "with") return parse_with();
  if (name == "generation") return parse_generation();
  if (name == "autoescape") return parse_autoescape();
  if (name == "break" || name == "continue") return parse_loop_control(tag);
  for (const std::string_view loader : {"block", "extends", "include", "import", "from"}) {
    if (name == loader) {
      fail_syntax(tag.line,
                  fmt::format("the tag '{}' is for templates made of several files, which "
                              "chat templates are not",
                              name));
    }
  }
  fail_unknown_tag(tag);
}

Statement::Node Parser::parse_if() {
  If node;
  bool more = true;
  while (more) {
    // jinja2 lets unknown filters pass in the condition and directly in the body.
    const Override conditional(conditional_block_, true);
    ExpressionPtr test = parse_tuple(false, {});
    node.branches.emplace_back(std::move(test), parse_tag_body({"elif", "else", "endif"}));
    const Token end = take();
    more = end.text == "elif";
    if (end.text == "else") {
      node.otherwise = parse_tag_body({"endif"});
      take();
    }
  }
  return node;
}

Statement::Node Parser::parse_for() {
  For node;
  const std::uint32_t line = current_.line;
  node.target = parse_target(false, "in");
  refuse_loop_target(node.target, line);
  expect_name("in");
  node.iterable = parse_tuple(false, "recursive");
  const Override unconditional(conditional_block_, false);
  if (skip_name("if")) node.condition = parse_expression();
  node.recursive = skip_name("recursive");
  {
    const Override loops(loops_, loops_ + 1);
    node.body.block = parse_tag_body({"endfor", "else"});
  }
  if (take().text == "else") {
    node.otherwise.block = parse_tag_body({"endfor"});
    take();
  }
  return node;
}

Statement::Node Parser::parse_set() {
  const std::uint32_t line = current_.line;
  Target target = parse_target(true, {});
  if (loops_ > 0) refuse_loop_target(target, line);
  if (skip_operator("=")) return Set{std::move(target), parse_tuple(true, {})};
  const Override unconditional(conditional_block_, false);
  SetBlock node;
  node.target = std::move(target);
  if (current_.is_operator("|")) node.filter = parse_filters(nullptr);
  node.body.block = parse_tag_body({"endset"});
  take();
  return node;
}

void Parser::parse_parameters(Macro& macro) {
  const Override unconditional(conditional_block_, false);
  expect_operator("(");
  while (!current_.is_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    const Token name = expect(TokenKind::kName);
    for (const Macro::Parameter& other : macro.parameters) {
      if (other.name == name.text) {
        misplaced_.emplace_back(name.line, fmt::format("duplicate argument '{}'", name.text));
      }
    }
    const bool fallback = skip_operator("=");
    if (!fallback && !macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
      fail_here("non-default argument follows default argument");
    }
    macro.parameters.push_back(
        {intern(name.text), name.text, fallback ? parse_expression() : nullptr});
  }
  expect_operator(")");
}

// The body of a macro and its end tag. What a macro does not get as a parameter but uses, it
// receives all the same.
void Parser::parse_macro_body(Macro& macro, std::string_view end_tag) {
  const Override loops(loops_, 0);
  const Override unconditional(conditional_block_, false);
  macros_.push_back(&macro);
  macro.body.block = parse_tag_body({end_tag});
  macros_.pop_back();
  take();
  for (const Macro::Parameter& parameter : macro.parameters) {
    if (parameter.name == "kwargs") macro.uses_kwargs = false;
    if (parameter.name == "varargs") macro.uses_varargs = false;
    if (parameter.name == "caller" && macro.uses_caller && parameter.fallback == nullptr) {
      fail_here("a macro's parameter \"caller\" must have a default or be left out");
    }
  }
}

Statement::Node Parser::parse_macro() {
  auto macro = std::make_shared<Macro>();
  macro->text_name = expect(TokenKind::kName).text;
  macro->name = intern(macro->text_name);
  parse_parameters(*macro);
  parse_macro_body(*macro, "endmacro");
  return MacroDefinition{std::move(macro)};
}

Statement::Node Parser::parse_call_block() {
  const std::uint32_t line = current_.line;
  auto caller = std::make_shared<Macro>();
  caller->text_name = "caller";
  if (current_.is_operator("(")) parse_parameters(*caller);
  ExpressionPtr call = parse_expression();
  if (!std::holds_alternative<Call>(call->node)) fail_syntax(line, "expected call");
  parse_macro_body(*caller, "endcall");
  return CallBlock{std::move(caller), std::move(call)};
}

Statement::Node Parser::parse_filter_block() {
  const Override unconditional(conditional_block_, false);
  FilterBlock node;
  node.filter = parse_filters(parse_filter(nullptr));
  node.body.block = parse_tag_body({"endfilter"});
  take();
  return node;
}

Statement::Node Parser::parse_with() {
  With node;
  while (current_.kind != TokenKind::kBlockEnd) {
    if (!node.bindings.empty()) expect_operator(",");
    Target target = parse_target(false, {});
    expect_operator("=");
    node.bindings.emplace_back(std::move(target), parse_expression());
  }
  const Override unconditional(conditional_block_, false);
  node.body.block = parse_tag_body({"endwith"});
  take();
  return node;
}

// transformers marks what a model said with this tag, to train on. Its body is a scope that no loop
// control leaves.
Statement::Node Parser::parse_generation() {
  const Override loops(loops_, 0);
  const Override unconditional(conditional_block_, false);
  Inner node{{parse_tag_body({"endgeneration"}), {}}};
  take();
  return node;
}

Statement::Node Parser::parse_autoescape() {
  const Override unconditional(conditional_block_, false);
  const ExpressionPtr wanted = parse_expression();
  const auto* literal = std::get_if<Literal>(&wanted->node);
  if (literal == nullptr || truthy(literal->value)) {
    fail_here("automatic escaping is not supported; write {% autoescape false %} or use `escape`");
  }
  Inner node{{parse_tag_body({"endautoescape"}), {}}};
  take();
  return node;
}

Statement::Node Parser::parse_loop_control(const Token& tag) {
  if (loops_ == 0) misplaced_.emplace_back(tag.line, fmt::format("'{}' outside loop", tag.text));
  return LoopControl{tag.text == "break"};
}

void Parser::parse_print(Block& block) {
  bool first = true;
  while (current_.kind != TokenKind::kBlockEnd) {
    if (!first) expect_operator(",");
    first = false;
    const std::uint32_t line = current_.line;
    block.push_back({line, Output{{}, parse_expression()}});
  }
}

}  // namespace strata::text::jinja
