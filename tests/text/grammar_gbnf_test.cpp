// GBNF: which texts grammars match, and which sources are refused.
#include "strata/base/error.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/text/grammar_cases.hpp"

#include <gtest/gtest.h>

namespace strata::text::test {
namespace {

using strata::testing::fails_with;

struct GbnfCase {
  const char* name;
  std::string source;
  std::vector<std::string> matching;
  std::vector<std::string> others;
};

class Gbnf : public ::testing::TestWithParam<GbnfCase> {};

TEST_P(Gbnf, MatchesItsLanguage) {
  const GbnfCase& each = GetParam();
  const GrammarPtr grammar = compile_gbnf(each.source);
  for (const std::string& text : each.matching) EXPECT_TRUE(matches(grammar, text)) << text;
  for (const std::string& text : each.others) EXPECT_FALSE(matches(grammar, text)) << text;
}

void PrintTo(const GbnfCase& each, std::ostream* out) { *out << each.source; }

const std::string kNineA(9, 'a');

INSTANTIATE_TEST_SUITE_P(All, Gbnf,
                         ::testing::
                             ValuesIn(
                                 std::vector<GbnfCase>{
                                     {"Literal",
                                      R"_(root ::= "yes")_",
                                      {"yes"},
                                      {"", "ye", "yess", "no"}},
                                     {"Empty", "root ::= ", {""}, {"a"}},
                                     {"Choice",
                                      R"_(root ::= "a" | "ab" | "")_",
                                      {"", "a", "ab"},
                                      {"b", "abb"}},
                                     {"ChoiceOverLines",
                                      "root ::= \"a\" |\n \"b\"\n  | \"c\"\n",
                                      {"a", "b", "c"},
                                      {"", "ab"}},
                                     {"Class",
                                      "root ::= [a-cx\\]-]",
                                      {"a", "b", "c", "x", "]", "-"},
                                      {"d", "", "ab", "["}},
                                     {"NegatedClass",
                                      "root ::= [^a-c\\n]",
                                      {"d", "é", "🌍", "\t"},
                                      {"a", "b", "\n", "\xC3"}},
                                     {"Any",
                                      "root ::= .",
                                      {"a", "\n", "é", "🌍"},
                                      {"", "ab", "\xFF", "\xED\xA0\x80"}},
                                     {"Escapes",
                                      R"_(root ::= "\t\r\n\\\"\x41\u00e9\U0001F30D\[\]")_",
                                      {"\t\r\n\\\"Aé🌍[]"},
                                      {"A"}},
                                     {"Star",
                                      R"_(root ::= "ab"*)_",
                                      {"", "ab", "abab"},
                                      {"a", "aba"}},
                                     {"Plus", R"_(root ::= ("a" | "b")+)_", {"a", "ba"}, {"", "c"}},
                                     {"Optional",
                                      R"_(root ::= "a" "b"? "c")_",
                                      {"ac", "abc"},
                                      {"abbc", "a"}},
                                     {"Exactly", R"_(root ::= "a"{3})_", {"aaa"}, {"aa", "aaaa"}},
                                     {"AtLeast",
                                      R"_(root ::= "a"{2,})_",
                                      {"aa", kNineA},
                                      {"", "a"}},
                                     {"Between",
                                      R"_(root ::= "a"{0, 2} "b")_",
                                      {"b", "ab", "aab"},
                                      {"aaab", ""}},
                                     {"NoTimes", R"_(root ::= "a"{0} "b")_", {"b"}, {"ab"}},
                                     {"TwiceRepeated",
                                      R"_(root ::= ("a"{2})*)_",
                                      {"", "aa", "aaaa"},
                                      {"a", "aaa"}},
                                     {"CountedClass",
                                      "root ::= [a-z]{100,200} \"!\"",
                                      {std::string(100, 'q') + "!", std::string(200, 'q') + "!"},
                                      {std::string(99, 'q') + "!", std::string(201, 'q') + "!",
                                       std::string(150, 'q')}},
                                     {"CountedNullable",
                                      "root ::= (\"a\"? \"b\"?){70} \"!\"",
                                      {"!", "ab!", "ba!", std::string(70, 'a') + "!"},
                                      {std::string(71, 'a') + "!", "c!"}},
                                     {"CountedOverlapping",
                                      "root ::= (\"a\" | \"aa\"){40,80}",
                                      {std::string(40, 'a'), std::string(160, 'a'),
                                       std::string(79, 'a')},
                                      {std::string(39, 'a'), std::string(161, 'a')}},
                                     {"CountedEndless",
                                      "root ::= [ab]{100,} \"!\"",
                                      {std::string(100, 'a') + "!", std::string(1000, 'b') + "!"},
                                      {std::string(99, 'a') + "!"}},
                                     {"CountedInCounted",
                                      "root ::= ([a-z]{50,60} \",\"){70,71}",
                                      {[] {
                                        std::string text;
                                        for (int i = 0; i < 70; ++i)
                                          text += std::string(50, 'x') + ",";
                                        return text;
                                      }()},
                                      {std::string(50, 'x') + ","}},
                                     {"Comments",
                                      "# one\nroot ::= \"a\" # two\n# three\n  # four\n\nb ::= "
                                      "\"b\"",
                                      {"a"},
                                      {"b"}},
                                     {"Nested",
                                      R"_(root ::= "(" root ")" | "")_",
                                      {"", "()", "((()))"},
                                      {"(", "())"}},
                                     {"RightRecursion",
                                      R"_(root ::= "a" root | "b")_",
                                      {"b", "aab", kNineA + "b"},
                                      {"", "a"}},
                                     {"NullableCycle",
                                      "root ::= x* \"!\"\nx ::= y*\ny ::= \"a\"?",
                                      {"!", "a!", "aaa!"},
                                      {"", "b!"}},
                                     {"Palindromes",
                                      R"_(root ::= "a" root "a" | "b" root "b" | "c")_",
                                      {"c", "aca", "abcba"},
                                      {"ab", "abcab"}},
                                     {"Arithmetic",
                                      "root  ::= (expr \"=\" ws term \"\\n\")+\n"
                                      "expr  ::= term ([-+*/] term)*\n"
                                      "term  ::= ident | num | \"(\" ws expr \")\" ws\n"
                                      "ident ::= [a-z] [a-z0-9_]* ws\n"
                                      "num   ::= [0-9]+ ws\n"
                                      "ws    ::= [ \\t\\n]*",
                                      {"x=1\n", "(a +2)*3 = y\n", "1+1=2\nb=c\n"},
                                      {"x=\n", "(a=1\n", "x=1"}},
                                     {"Crossed",
                                      "root ::= ab \"c\"* | \"a\"* bc\nab ::= \"a\" ab \"b\" | "
                                      "\"\"\nbc ::= \"b\" bc \"c\" | "
                                      "\"\"",
                                      {"", "aabbc", "abbcc", "abc"},
                                      {"aabcc", "ca"}},
                                 }),
                         [](const ::testing::TestParamInfo<GbnfCase>& info) {
                           return info.param.name;
                         });

struct GbnfRefusal {
  const char* name;
  std::string source;
  std::vector<std::string_view> parts;
};

class GbnfRefused : public ::testing::TestWithParam<GbnfRefusal> {};

TEST_P(GbnfRefused, WithLineAndReason) {
  try {
    (void)compile_gbnf(GetParam().source);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    for (const std::string_view part : GetParam().parts) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << part << " is not in: " << error.what();
    }
  }
}

void PrintTo(const GbnfRefusal& each, std::ostream* out) { *out << each.source.substr(0, 100); }

INSTANTIATE_TEST_SUITE_P(
    All, GbnfRefused,
    ::testing::ValuesIn(std::vector<GbnfRefusal>{
        {"NoRoot", "start ::= \"a\"", {"no rule 'root'"}},
        {"Nothing", "", {"no rule 'root'"}},
        {"Undefined", "root ::= \"a\"\n  | b c", {"line 2", "no rule 'b'"}},
        {"Twice", "root ::= \"a\"\nroot ::= \"b\"", {"line 2", "second time", "line 1"}},
        {"NoArrow", "root = \"a\"", {"line 1", "'::='", "'='"}},
        {"OpenLiteral", "\n\nroot ::= \"abc", {"line 3", "closing"}},
        {"LiteralOverLines", "root ::= \"abc\n\"", {"line 1", "closing"}},
        {"OpenClass", "root ::= [a-", {"line 1", "closing ']'"}},
        {"OpenGroup", "root ::= (\"a\"\n", {"line 2", "')'", "the end of the text"}},
        {"Range", "root ::= [z-a]", {"line 1", "range"}},
        {"Escape", "root ::= \"\\q\"", {"line 1", "unknown escape '\\q'"}},
        {"ShortHex", "root ::= \"\\u12\"", {"line 1", "4 hexadecimal digits"}},
        {"Surrogate", "root ::= \"\\uD800\"", {"line 1", "U+D800"}},
        {"TooLarge", "root ::= \"\\U00110000\"", {"line 1", "U+110000"}},
        {"Utf8", "root ::= \"\xFF\"", {"line 1", "UTF-8"}},
        {"Repetition", "root ::= \"a\"{3,2}", {"line 1", "{3,2}"}},
        {"RepetitionWithoutNumber", "root ::= \"a\"{,2}", {"line 1", "number"}},
        {"HugeRepetition", "root ::= \"a\"{99999999999999999999}", {"line 1", "more than"}},
        {"Junk", "root ::= \"a\" $", {"line 1", "end of the rule", "'$'"}},
        {"LeftRecursion", "root ::= a\na ::= a \"x\" | \"y\"", {"'a'", "left recursion"}},
        {"HiddenLeftRecursion", "root ::= a\na ::= b? \"y\"? a \"x\"\nb ::= \"b\"\n", {"'root'"}},
        {"IndirectLeftRecursion",
         "root ::= a | \"z\"\na ::= b \"x\"\nb ::= root",
         {"left recursion"}},
        {"Endless", "root ::= \"a\" root", {"never comes to an end"}},
        {"EmptyClass", "root ::= []", {"never comes to an end"}},
    }),
    [](const ::testing::TestParamInfo<GbnfRefusal>& info) { return info.param.name; });

std::string copies_of(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

TEST(GbnfBounds, HostileSourcesEndSoonAndNameTheBound) {
  const auto refused = [](const std::string& source, std::string_view bound) {
    return fails_with(ErrorKind::kUsage, {bound}, [&] { (void)compile_gbnf(source); });
  };
  EXPECT_TRUE(refused(std::string(2 << 20, ' '), "max_source_bytes"));
  EXPECT_TRUE(refused("root ::= " + copies_of("(", 100'000), "max_nesting"));
  EXPECT_TRUE(refused("root ::= \"a\"" + copies_of("*", 100'000), "max_nesting"));
  EXPECT_TRUE(refused("root ::= \"" + copies_of("a", 900'000) + "\"", "max_steps"));
  EXPECT_TRUE(refused("root ::= [" + copies_of("ab", 400'000) + "]", "max_steps"));
  // A deterministic automaton for it has 2^30 states.
  EXPECT_TRUE(refused("root ::= [ab]* \"a\" [ab]{30}", "max_"));
  // Ten rules that each hold ten of the next.
  std::string tower = "root ::= r0\n";
  for (int i = 0; i < 30; ++i) {
    tower +=
        "r" + std::to_string(i) + " ::= " + copies_of("r" + std::to_string(i + 1) + " ", 10) + "\n";
  }
  EXPECT_NO_THROW((void)compile_gbnf(tower + "r30 ::= \"a\""));
}

TEST(GbnfBounds, AmbiguityIsStoppedWhileMatching) {
  // Any of 2^n stacks after n times "a".
  const GrammarPtr grammar = compile_gbnf(
      "root ::= x\nx ::= \"a\" x | \"a\" y | \"a\"\ny ::= x \"b\" | x \"c\" | y2\ny2 ::= x "
      "\"d\"");
  GrammarMatcher matcher(grammar, byte_vocab());
  EXPECT_TRUE(fails_with(ErrorKind::kUsage, {"max_parses"}, [&] {
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(matcher.accept('a'));
  }));
}

TEST(GbnfBounds, DepthIsStoppedWhileMatchingAndChangesNothing) {
  GrammarLimits limits;
  limits.max_depth = 50;
  const GrammarPtr grammar = compile_gbnf(R"_(root ::= "(" root ")" | "x")_", limits);
  GrammarMatcher matcher(grammar, byte_vocab());
  for (int i = 0; i < 51; ++i) ASSERT_TRUE(matcher.accept('('));  // the first one is root's own
  EXPECT_TRUE(fails_with(ErrorKind::kUsage, {"max_depth"}, [&] { (void)matcher.accept('('); }));
  ASSERT_TRUE(matcher.accept('x'));
  for (int i = 0; i < 51; ++i) ASSERT_TRUE(matcher.accept(')'));
  EXPECT_TRUE(matcher.is_complete());
}

}  // namespace
}  // namespace strata::text::test
