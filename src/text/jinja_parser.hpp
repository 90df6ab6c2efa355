// Builds the syntax tree of a template from its tokens, by recursive descent of bounded depth.
#pragma once

#include "src/text/jinja_ast.hpp"
#include "src/text/jinja_lexer.hpp"

#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text::jinja {

class Parser {
 public:
  // `source` must be valid UTF-8.
  Parser(std::string_view source, const JinjaLimits& limits);
  [[nodiscard]] std::shared_ptr<const Program> parse();

 private:
  // What ends a block, e.g. {"elif", "else", "endif"}.
  using EndTags = std::initializer_list<std::string_view>;
  class Nesting;  // counts how deep the parser is

  // Statements: jinja_parser.cpp.
  Block parse_block(
      EndTags end_tags);  // up to one of the end tags, which becomes the current token
  Block parse_tag_body(EndTags end_tags);  // the same from the "%}" of the opening tag on
  Statement::Node parse_tag(const Token& tag);
  Statement::Node parse_if();
  Statement::Node parse_for();
  Statement::Node parse_set();
  Statement::Node parse_macro();
  Statement::Node parse_call_block();
  Statement::Node parse_filter_block();
  Statement::Node parse_with();
  Statement::Node parse_generation();
  Statement::Node parse_autoescape();
  Statement::Node parse_loop_control(const Token& tag);
  void parse_print(Block& block);
  void parse_parameters(Macro& macro);
  void parse_macro_body(Macro& macro, std::string_view end_tag);
  Target parse_target(bool attributes, std::string_view stop);
  Target parse_one_target(bool attributes);
  Target to_target(const Expression& expression) const;
  void refuse_loop_target(const Target& target, std::uint32_t line) const;
  [[noreturn]] void fail_unknown_tag(const Token& tag) const;
  [[noreturn]] void fail_end(EndTags end_tags) const;

  // Expressions: jinja_parser_expression.cpp.
  ExpressionPtr parse_expression(bool conditional = true);
  // An expression, or a tuple when commas follow. `stop` is a name that ends it, e.g. "in".
  ExpressionPtr parse_tuple(bool conditional, std::string_view stop, bool parenthesised = false);
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool filters = true);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_string();
  ExpressionPtr parse_number();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr object);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr input);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_slice(ExpressionPtr object, ExpressionPtr start, std::uint32_t line);
  ExpressionPtr parse_call(ExpressionPtr callee);
  ExpressionPtr parse_filters(ExpressionPtr input);  // as long as "|" follows
  ExpressionPtr parse_filter(ExpressionPtr input);   // from the filter's name on
  ExpressionPtr parse_test(ExpressionPtr input);
  Arguments parse_arguments();
  std::string parse_dotted_name();
  [[nodiscard]] std::optional<Comparison> take_comparison();
  [[nodiscard]] bool test_argument_ahead() const;
  [[nodiscard]] bool at_tuple_end(std::string_view stop) const;
  void report_unknown(std::uint32_t line, std::string_view what, std::string_view name);
  ExpressionPtr make_binary(BinaryOperator op, std::uint32_t line, ExpressionPtr left,
                            ExpressionPtr right);

  template <class Node>
  ExpressionPtr make(std::uint32_t line, Node node, int deepest_part = 0) {
    check_depth(line, deepest_part + 1);
    return std::make_unique<Expression>(Expression{line, deepest_part + 1, std::move(node)});
  }
  static int depth(const ExpressionPtr& expression) {
    return expression == nullptr ? 0 : expression->depth;
  }
  static int depth(const std::vector<ExpressionPtr>& expressions);
  static int depth(const Arguments& arguments);
  void check_nesting() const;
  // Chains such as a + b + c make deep trees without deep recursion here, so trees may be deeper
  // than the nesting.
  void check_depth(std::uint32_t line, int depth) const;

  // Tokens.
  Token take();         // the current token; moves on
  const Token& look();  // the token after the current one
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  Token expect(TokenKind kind);
  void expect_operator(std::string_view op);
  void expect_name(std::string_view name);
  [[noreturn]] void fail_unexpected(std::string_view expected) const;
  [[noreturn]] void fail_here(std::string_view message) const;
  NameId intern(const std::string& name);

  Lexer lexer_;
  Token current_;
  std::optional<Token> ahead_;
  std::shared_ptr<Program> program_;
  std::map<std::string, NameId, std::less<>> name_ids_;
  std::vector<Macro*> macros_;          // being parsed, outermost first
  std::vector<std::string> open_tags_;  // of blocks being parsed
  std::vector<EndTags> end_tags_;       // what each of them waits for
  int nesting_ = 0;
  int loops_ = 0;  // bodies of loops we are in, within the innermost macro
  // Mistakes that jinja2 finds only once the whole template is well-formed, by line. Filters and
  // tests that do not exist come first; in a condition or right in the body of one, they are errors
  // only when reached.
  std::vector<std::pair<std::uint32_t, std::string>> unknown_;
  std::vector<std::pair<std::uint32_t, std::string>> misplaced_;  // what Python would not compile
  bool conditional_block_ = false;
};

class Parser::Nesting {
 public:
  explicit Nesting(Parser& parser) : parser_(parser) {
    ++parser_.nesting_;
    parser_.check_nesting();
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Parser& parser_;
};

// How the parser names a token in its messages.
[[nodiscard]] std::string describe(const Token& token);
[[nodiscard]] std::string describe(TokenKind kind);

}  // namespace strata::text::jinja
