#include "strata/text/pretokenizer.hpp"

#include "strata/base/error.hpp"
#include "tests/text/test_vocab.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace strata::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Pieces = std::vector<std::string>;

Pieces split(const PreTokenizer& pretokenizer, std::string_view text) {
  Pieces pieces;
  pretokenizer.split(text, [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

Pieces split(std::string_view pre, std::string_view text) {
  return split(PreTokenizer(find_pretokenizer(pre).patterns), text);
}

std::vector<std::string> vector_strings(const std::string& text) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  std::vector<std::string> strings;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find(kSeparator, begin)) != std::string::npos;
       begin = end + kSeparator.size()) {
    strings.push_back(text.substr(begin, end - begin));
  }
  strings.push_back(text.substr(begin));
  return strings;
}

TEST(PreTokenizer, KnowsTheNamesOfTheTable) {
  for (const std::string_view name :
       {"qwen2", "qwen35", "llama-bpe", "glm4", "chatglm-bpe", "dbrx", "smaug-bpe", "gpt-4o",
        "minimax-m2", "gpt-2", "olmo", "deepseek-v3", "deepseek-llm", "refact", "kimi-k2", "tekken",
        "bailingmoe"}) {
    EXPECT_FALSE(find_pretokenizer(name).patterns.empty()) << name;
  }
  EXPECT_TRUE(find_pretokenizer("llama-bpe").ignore_merges);
  EXPECT_TRUE(find_pretokenizer("llama-bpe").add_bos);
  EXPECT_FALSE(find_pretokenizer("qwen2").add_bos);
  EXPECT_TRUE(find_pretokenizer("qwen2").nfc);
  EXPECT_FALSE(find_pretokenizer("gpt-4o").nfc);
}

TEST(PreTokenizer, NamesAreUnique) {
  std::vector<std::string_view> names;
  for (const PreTokenizerRow& row : pretokenizer_rows())
    names.insert(names.end(), row.names.begin(), row.names.end());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(PreTokenizer, UnknownNameIsAnErrorThatListsTheKnownOnes) {
  for (const std::string_view name : {"qwen9", "default", ""}) {
    try {
      (void)find_pretokenizer(name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_THAT(error.what(), HasSubstr("qwen35"));
      EXPECT_THAT(error.what(), HasSubstr(name.empty() ? "missing" : std::string(name)));
    }
  }
}

TEST(PreTokenizer, Qwen2) {
  EXPECT_THAT(split("qwen2", "Hello, y'all! It's 2024\n\n  x"),
              ElementsAre("Hello", ",", " y", "'all", "!", " It", "'s", " ", "2", "0", "2", "4",
                          "\n\n", " ", " x"));
  EXPECT_THAT(split("qwen2", ""), ElementsAre());
  EXPECT_THAT(split("qwen2", "HE'LL"), ElementsAre("HE", "'LL"));
}

TEST(PreTokenizer, DigitsGoInThreesWhereTheModelSaysSo) {
  EXPECT_THAT(split("llama-bpe", "1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(split("gpt-2", "1234567"), ElementsAre("1234567"));
  EXPECT_THAT(split("refact", "123"), ElementsAre("1", "2", "3"));
}

TEST(PreTokenizer, CaseMattersToO200k) {
  EXPECT_THAT(split("gpt-4o", "camelCaseWORDThing's"), ElementsAre("camel", "Case", "WORDThing's"));
  EXPECT_THAT(split("gpt-4o", "\u0416\u0443\u0416\u0443"),
              ElementsAre("\u0416\u0443", "\u0416\u0443"));
}

TEST(PreTokenizer, CombiningMarksBelongToTheWordInQwen35) {
  EXPECT_THAT(split("qwen35", "q\u0301q x"), ElementsAre("q\u0301q", " x"));
  EXPECT_THAT(split("qwen2", "q\u0301q x"), ElementsAre("q", "\u0301q", " x"));
}

TEST(PreTokenizer, KimiSetsHanApart) {
  EXPECT_THAT(split("kimi-k2", "abc\u4E16\u754Cdef"), ElementsAre("abc", "\u4E16\u754C", "def"));
  EXPECT_THAT(split("qwen2", "abc\u4E16\u754Cdef"), ElementsAre("abc\u4E16\u754C"
                                                                "def"));
}

// U+180E lost White_Space in Unicode 6.3, but PCRE2's \s has kept it.
TEST(PreTokenizer, SpaceIsUnicodesWhiteSpace) {
  EXPECT_THAT(split("gpt-2", "a\u180E\u180Eb"), ElementsAre("a", "\u180E\u180E", "b"));
  EXPECT_THAT(split("qwen2", "a\u2003\u2003b"), ElementsAre("a", "\u2003", "\u2003b"));
  EXPECT_THAT(split("qwen2", "a\u0085\u0085"), ElementsAre("a", "\u0085\u0085"));
}

TEST(PreTokenizer, TextBetweenMatchesIsAPiece) {
  EXPECT_THAT(split("deepseek-v3",
                    "a\x01\x02"
                    "12"),
              ElementsAre("a", "\x01\x02", "12"));
}

// Pieces of Hugging Face's engine with the same expressions, for every row.
TEST(PreTokenizer, EqualsHuggingFaceOnRandomStrings) {
  const auto random = read_json_lines("random.strings.jsonl");
  std::vector<std::string> strings;
  for (std::size_t i = 0; i < 150; ++i) strings.push_back(random[i]);
  for (const std::string& text : vector_strings(read_file(data_path("qwen2.inp"))))
    strings.push_back(text);
  std::size_t rows = 0;
  for (const auto& row : read_json_lines("random.splits.jsonl")) {
    const auto pre = row.at("pre").get<std::string>();
    const PreTokenizer pretokenizer(find_pretokenizer(pre).patterns);
    ASSERT_EQ(row.at("sizes").size(), strings.size());
    for (std::size_t i = 0; i < strings.size(); ++i) {
      std::vector<std::size_t> sizes;
      for (const std::string& piece : split(pretokenizer, strings[i]))
        sizes.push_back(piece.size());
      EXPECT_EQ(sizes, row.at("sizes")[i].get<std::vector<std::size_t>>())
          << pre << ": " << strings[i];
    }
    ++rows;
  }
  EXPECT_EQ(rows, pretokenizer_rows().size());
}

// No vocabulary of this family is at hand, but a piece is at least one token, and digits are one
// each.
TEST(PreTokenizer, DeepSeekLlmAgreesWithItsVectorsAsFarAsPiecesTell) {
  const auto strings = vector_strings(read_file(data_path("deepseek-llm.inp")));
  std::istringstream expected(read_file(data_path("deepseek-llm.out")));
  const PreTokenizer pretokenizer(find_pretokenizer("deepseek-llm").patterns);
  for (const std::string& text : strings) {
    std::string line;
    std::getline(expected, line);
    const auto ids = static_cast<std::size_t>(std::count(line.begin(), line.end(), ' '));
    const std::size_t pieces = split(pretokenizer, text).size();
    EXPECT_LE(pieces, ids) << text;
    if (!text.empty() && text.find_first_not_of('3') == std::string::npos) {
      EXPECT_EQ(pieces, ids) << text;
    }
  }
}

// Anything quadratic would take hours here.
TEST(PreTokenizer, LongTextsTakeLinearTime) {
  constexpr std::size_t kLength = 1000000;
  std::vector<std::string> texts;
  for (const std::string unit :
       {"a", "A", " ", "\n", "7", "!", "\u0301", "\u4E16", "\x01", "'", "aA", " \n", "a ", "\t "}) {
    std::string text;
    while (text.size() < kLength) text += unit;
    texts.push_back(text);
    texts.push_back(text + "x");
  }
  for (const PreTokenizerRow& row : pretokenizer_rows()) {
    const PreTokenizer pretokenizer(row.patterns);
    for (const std::string& text : texts) {
      std::size_t size = 0;
      pretokenizer.split(text, [&](std::string_view piece) { size += piece.size(); });
      ASSERT_EQ(size, text.size()) << row.names[0];
    }
  }
}

// An expression that keeps a backtracking point a character outgrows the stack of compiled code.
TEST(PreTokenizer, DeepBacktrackingFallsBackToTheInterpreter) {
  const std::string_view patterns[] = {"(?:a|b)+c?"};
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "ab";
  EXPECT_THAT(split(PreTokenizer(patterns), text + "d" + text), ElementsAre(text, "d", text));
}

TEST(PreTokenizer, ManyThreadsMaySplitAtOnce) {
  const PreTokenizer pretokenizer(find_pretokenizer("deepseek-v3").patterns);
  const std::string text = "Thread safety: 12345 \u4E16\u754C, it's fine.\n";
  const Pieces expected = split(pretokenizer, text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) count += split(pretokenizer, text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

}  // namespace
}  // namespace strata::text
