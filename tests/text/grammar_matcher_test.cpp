// The masks of allowed tokens against the plain definition: a token is allowed when reading its
// bytes leaves a text that can go on.
#include "strata/base/error.hpp"
#include "strata/text/json_schema.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/text/grammar_cases.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace strata::text::test {
namespace {

using nlohmann::ordered_json;

// Every token by itself, on a copy without masks to remember.
std::vector<std::int32_t> allowed_one_by_one(const GrammarMatcher& matcher,
                                             const GrammarVocab& vocab) {
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < vocab.size(); ++i) {
    GrammarMatcher copy = matcher;
    if (copy.accept(static_cast<std::int32_t>(i))) tokens.push_back(static_cast<std::int32_t>(i));
  }
  return tokens;
}

// Walks at random and compares at every step.
void expect_right_masks(const GrammarPtr& grammar, const VocabPtr& vocab, unsigned seed,
                        int steps) {
  std::mt19937 random(seed);
  GrammarMatcher matcher(grammar, vocab);
  const GrammarMatcher start = matcher;
  std::vector<std::uint64_t> mask(vocab->mask_words());
  for (int step = 0; step < steps; ++step) {
    const bool any = matcher.allowed(mask);
    const std::vector<std::int32_t> tokens = tokens_of(mask);
    ASSERT_EQ(any, !tokens.empty());
    ASSERT_EQ(tokens, allowed_one_by_one(matcher, *vocab)) << "step " << step;
    if (tokens.empty()) {
      matcher = start;  // the masks of the first text are known now
      continue;
    }
    // Mostly short tokens, so that structure is seen and not only long strings.
    std::int32_t token = tokens[random() % tokens.size()];
    for (int i = 0; i < 6; ++i) {
      const std::int32_t other = tokens[random() % tokens.size()];
      const auto size = [&](std::int32_t id) {
        return vocab->index().pieces[static_cast<std::size_t>(id)].size();
      };
      if (size(other) < size(token)) token = other;
    }
    ASSERT_TRUE(matcher.accept(token));
  }
}

// Tokens of several characters, of parts of characters, of several structures at once; some twice.
VocabPtr odd_vocab() {
  std::vector<std::string> pieces(256);
  for (std::size_t i = 0; i < 256; ++i) pieces[i] = std::string(1, static_cast<char>(i));
  for (const char* piece : {"",      "{\"",      "\":",          "\": \"",   "\",\"",
                            "\"}",   "}}",       "}}}",          "]}",       "[[",
                            "]]",    "],[",      "\", \"",       "{\"a\":",  "aaaaaaaaaaaaaaaaaaaa",
                            "ab",    "abc",      "aba",          "\xC3",     "\xC3\xA9",
                            "\xA9",  "\xA9\xC3", "\xF0\x9F",     "\x8C\x8D", "\xF0\x9F\x8C\x8D",
                            "a\xF0", "\\u00",    "\\n",          "\\\"",     "u00e9",
                            "\n  ",  "\n    \"", ": ",           ", ",       "12",
                            "0.5",   "e1",       "-1",           "true",     "nul",
                            "l,",    "12",       "[]",           "{}",       "{},{",
                            "\"\"",  "\"a\"",    "\xED\xA0\x80", "\xFF",     "世界",
                            "世\"",  "  ",       "   "}) {
    pieces.emplace_back(piece);
  }
  const std::vector<std::int32_t> ends = {static_cast<std::int32_t>(pieces.size()),
                                          static_cast<std::int32_t>(pieces.size()) + 1};
  pieces.emplace_back("</s>");
  pieces.emplace_back("{");  // an end token's bytes mean nothing
  return std::make_shared<const GrammarVocab>(pieces, ends);
}

struct MaskCase {
  const char* name;
  std::string gbnf;
  std::string schema;
};

class Masks : public ::testing::TestWithParam<MaskCase> {
 protected:
  static GrammarPtr grammar() {
    const MaskCase& each = GetParam();
    return each.gbnf.empty() ? compile_json_schema(ordered_json::parse(each.schema))
                             : compile_gbnf(each.gbnf);
  }
};

TEST_P(Masks, EqualReadingTokenByToken) { expect_right_masks(grammar(), odd_vocab(), 1, 400); }

TEST_P(Masks, EqualReadingTokenByTokenOfTheDemo) {
  expect_right_masks(grammar(), demo_vocab(), 2, 40);
}

void PrintTo(const MaskCase& each, std::ostream* out) { *out << each.gbnf << each.schema; }

INSTANTIATE_TEST_SUITE_P(
    All, Masks,
    ::testing::ValuesIn(std::vector<MaskCase>{
        {"AnyObject", "", R"({"type": "object"})"},
        {"AnyValue", "", "true"},
        {"ShortString", "", R"({"type": "string", "maxLength": 3})"},
        {"LongString", "", R"({"type": "string", "minLength": 5, "maxLength": 40})"},
        {"AtLeast", "", R"({"type": "array", "items": {"type": "string", "minLength": 12}})"},
        {"CountedItems", "",
         R"({"type": "array", "items": {"type": "array", "minItems": 1, "maxItems": 3},
             "minItems": 2, "maxItems": 5})"},
        {"Pattern", "", R"({"type": "string", "pattern": "^[a-c]+(\"|\\\\|\\n|é|世)*$"})"},
        {"Properties", "",
         R"({"properties": {"a": {"type": "string"}, "ab": {"type": "integer"}, "abc": {}},
             "required": ["ab"], "additionalProperties": {"type": "null"}})"},
        {"Tagged", "",
         R"({"oneOf": [{"properties": {"a": {"const": "aa"}, "b": {"type": "string"}},
                        "required": ["a"]},
                       {"properties": {"a": {"const": "ab"}, "c": {"maxLength": 2}},
                        "required": ["a"]}]})"},
        {"Recursive", "",
         R"({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
                       {"type": "object", "properties": {"a": {"$ref": "#"}}}]})"},
        {"Plain", R"(root ::= [^"\\\x00-\x1f]*)", ""},
        {"PlainThenPlain", R"(root ::= x "ab" y
                              x ::= [^"\\\x00-\x1f]{20,30}
                              y ::= [^"\\\x00-\x1f]{70,90} [ab]*)",
         ""},
        {"Ambiguous", R"(root ::= (x | y | "a")*
                         x ::= "a" x "b" | "ab"
                         y ::= "a" y | "b"
                         )",
         ""},
        {"CountedAmbiguous", R"(root ::= ("a" | "ab" | "abc" | "世"){20,40} "}}"?)", ""},
        {"Parentheses", "root ::= \"[\" (root (\",\" root)*)? \"]\"", ""},
        {"CountedCalls", "root ::= (x{70,80} \"]\"){65,70}\nx ::= \"[\" x \"]\" | \"a\"", ""},
    }),
    [](const ::testing::TestParamInfo<MaskCase>& info) { return info.param.name; });

TEST(GrammarMatcher, EndTokensComeExactlyWhenTheTextIsComplete) {
  GrammarMatcher matcher(compile_gbnf(R"(root ::= "ab"?)"), byte_vocab());
  std::vector<std::uint64_t> mask(byte_vocab()->mask_words());
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_TRUE(matcher.allowed(mask));
  EXPECT_EQ(tokens_of(mask), (std::vector<std::int32_t>{'a', 256}));
  EXPECT_TRUE(matcher.accept('a'));
  EXPECT_FALSE(matcher.is_complete());
  EXPECT_FALSE(matcher.accept(256));
  EXPECT_FALSE(matcher.accept('a'));
  EXPECT_TRUE(matcher.allowed(mask));
  EXPECT_EQ(tokens_of(mask), std::vector<std::int32_t>{'b'});
  EXPECT_TRUE(matcher.accept('b'));
  EXPECT_TRUE(matcher.allowed(mask));
  EXPECT_EQ(tokens_of(mask), std::vector<std::int32_t>{256});
  EXPECT_FALSE(matcher.is_finished());
  EXPECT_TRUE(matcher.accept(256));
  EXPECT_TRUE(matcher.is_finished());
  EXPECT_FALSE(matcher.allowed(mask));
  EXPECT_TRUE(tokens_of(mask).empty());
  EXPECT_FALSE(matcher.accept(256));
  EXPECT_FALSE(matcher.accept_text("a"));
}

TEST(GrammarMatcher, ATokenThatIsRefusedChangesNothing) {
  GrammarMatcher matcher(compile_gbnf(R"(root ::= "abc" | "abd")"), odd_vocab());
  ASSERT_TRUE(matcher.accept_text("a"));
  EXPECT_FALSE(matcher.accept_text("bx"));
  EXPECT_FALSE(matcher.accept(-1));
  EXPECT_FALSE(matcher.accept(1'000'000));
  EXPECT_TRUE(matcher.accept_text("bd"));
  EXPECT_TRUE(matcher.is_complete());
}

TEST(GrammarMatcher, AVocabularyThatCannotGoOnAllowsNothing) {
  const auto vocab = std::make_shared<const GrammarVocab>(std::vector<std::string>{"a", "end"},
                                                          std::vector<std::int32_t>{1});
  GrammarMatcher matcher(compile_gbnf(R"(root ::= "ab")"), vocab);
  std::vector<std::uint64_t> mask(1);
  EXPECT_TRUE(matcher.allowed(mask));
  EXPECT_TRUE(matcher.accept(0));
  EXPECT_FALSE(matcher.allowed(mask));
}

TEST(GrammarMatcher, ControlTokensAreNeverText) {
  const Tokenizer& tokenizer = demo_tokenizer();
  GrammarMatcher matcher(compile_gbnf("root ::= [^\\x00]*"), demo_vocab());
  std::vector<std::uint64_t> mask(demo_vocab()->mask_words());
  ASSERT_TRUE(matcher.allowed(mask));
  std::size_t ends = 0;
  for (const std::int32_t token : tokens_of(mask)) {
    if (tokenizer.is_end(token)) ++ends;
    EXPECT_TRUE(tokenizer.is_end(token) || !tokenizer.is_control(token)) << token;
  }
  EXPECT_GT(ends, 0U);
}

TEST(GrammarMatcher, CopiesGoTheirOwnWays) {
  const GrammarPtr grammar = compile_json_schema({{"type", "array"}, {"maxItems", 2}});
  GrammarMatcher first(grammar, byte_vocab());
  ASSERT_TRUE(first.accept_text("[[1"));
  GrammarMatcher second = first;
  ASSERT_TRUE(first.accept_text("]]"));
  EXPECT_TRUE(first.is_complete());
  EXPECT_FALSE(second.is_complete());
  ASSERT_TRUE(second.accept_text(",2],{}]"));
  EXPECT_TRUE(second.is_complete());
  second = first;
  EXPECT_FALSE(second.accept_text("]"));
}

TEST(GrammarMatcher, CopiesShareTheirMasksBetweenThreads) {
  const GrammarPtr grammar = compile_json_schema(
      {{"type", "array"}, {"items", {{"type", "object"}, {"maxProperties", 3}}}});
  const GrammarMatcher start(grammar, odd_vocab());
  const auto work = [&start, &grammar](unsigned seed, std::string& text) {
    std::mt19937 random(seed);
    text = random_text(grammar, start, *odd_vocab(), random, 300);
  };
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    threads.emplace_back(work, static_cast<unsigned>(i / 2), std::ref(texts[i]));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[2], texts[3]);
  for (const std::string& text : texts) EXPECT_TRUE(ordered_json::accept(text)) << text;
}

TEST(GrammarMatcher, WrongSizesAreRefused) {
  GrammarMatcher matcher(json_object_grammar(), byte_vocab());
  std::vector<std::uint64_t> mask(byte_vocab()->mask_words() - 1);
  EXPECT_TRUE(strata::testing::fails_with(ErrorKind::kInternal, {"mask"},
                                          [&] { (void)matcher.allowed(mask); }));
  EXPECT_TRUE(strata::testing::fails_with(ErrorKind::kUsage, {"end token 5"}, [] {
    (void)GrammarVocab(std::vector<std::string>{"a"}, std::vector<std::int32_t>{5});
  }));
}

}  // namespace
}  // namespace strata::text::test
