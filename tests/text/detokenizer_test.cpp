#include "strata/text/detokenizer.hpp"

#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"
#include "tests/text/test_vocab.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata::text {
namespace {

// One token a byte, at id = byte, and two control tokens.
class DetokenizerTest : public ::testing::Test {
 protected:
  static Vocab make_vocab() {
    Vocab vocab;
    vocab.model = VocabModel::kSpm;  // its byte tokens spell out what they are
    for (unsigned byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", byte);
      vocab.tokens.emplace_back(text);
      vocab.types.push_back(TokenType::kByte);
    }
    for (const char* text : {"<s>", "</s>"}) {
      vocab.tokens.emplace_back(text);
      vocab.types.push_back(TokenType::kControl);
    }
    vocab.tokens.emplace_back("\u2581word");
    vocab.types.push_back(TokenType::kNormal);
    vocab.scores.resize(vocab.tokens.size());
    vocab.add_bos = false;
    return vocab;
  }
  static constexpr std::int32_t kBos = 256, kWord = 258;

  static std::vector<std::int32_t> bytes(std::string_view text) {
    std::vector<std::int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<std::uint8_t>(c));
    return ids;
  }
  std::string stream(std::string_view text) {
    Detokenizer detokenizer(tokenizer_, {.at_text_start = false});
    std::string result;
    for (const std::int32_t id : bytes(text)) {
      const std::string part = detokenizer.feed(id);
      EXPECT_EQ(valid_utf8_prefix(part), part.size()) << "half a character";
      result += part;
    }
    return result + detokenizer.flush();
  }

  Tokenizer tokenizer_{make_vocab()};
};

TEST_F(DetokenizerTest, HoldsBytesBackUntilTheCharacterIsWhole) {
  Detokenizer detokenizer(tokenizer_);
  const auto ids = bytes("a\U0001F600b");
  EXPECT_EQ(detokenizer.feed(ids[0]), "a");
  EXPECT_EQ(detokenizer.feed(ids[1]), "");
  EXPECT_EQ(detokenizer.feed(ids[2]), "");
  EXPECT_EQ(detokenizer.feed(ids[3]), "");
  EXPECT_EQ(detokenizer.feed(ids[4]), "\U0001F600");
  EXPECT_EQ(detokenizer.feed(ids[5]), "b");
  EXPECT_EQ(detokenizer.flush(), "");
}

// As bytes.decode("utf-8", "replace") of Python.
TEST_F(DetokenizerTest, BrokenBytesBecomeReplacementCharacters) {
  const std::string r(kReplacement);
  EXPECT_EQ(stream("\xFF"), r);
  EXPECT_EQ(stream("a\xE2\x82"
                   "b"),
            "a" + r + "b");
  EXPECT_EQ(stream("\xE0\x80\x80"), r + r + r);
  EXPECT_EQ(stream("\xF0\x9F\x98"), r);
  EXPECT_EQ(stream("\xF0\x9F\xE2\x82\xAC"), r + "\u20AC");
  EXPECT_EQ(stream("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(stream("\xC3\xC3\xA9"), r + "\u00E9");
}

TEST_F(DetokenizerTest, InvalidBytesAreReportedAsSoonAsTheyAreKnown) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.feed(0xE2), "");
  EXPECT_EQ(detokenizer.feed('x'), std::string(kReplacement) + "x");
}

TEST_F(DetokenizerTest, FlushStartsAnew) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_EQ(detokenizer.feed(0xE2), "");
  EXPECT_EQ(detokenizer.flush(), kReplacement);
  EXPECT_EQ(detokenizer.flush(), "");
  EXPECT_EQ(detokenizer.feed(kWord), "word");
  EXPECT_EQ(detokenizer.feed(kWord), " word");
}

TEST_F(DetokenizerTest, ControlTokensAreHiddenOrShown) {
  const std::vector<std::int32_t> ids = {kBos, 'h', 'i', kBos + 1};
  EXPECT_EQ(decode(tokenizer_, ids), "hi");
  EXPECT_EQ(decode(tokenizer_, ids, {.show_control = true}), "<s>hi</s>");
}

TEST_F(DetokenizerTest, TheAddedSpaceIsTakenOffAtTheStartOnly) {
  const std::vector<std::int32_t> ids = {kBos, kWord, kWord};
  EXPECT_EQ(decode(tokenizer_, ids), "word word");
  EXPECT_EQ(decode(tokenizer_, ids, {.show_control = true}), "<s>word word");
  EXPECT_EQ(decode(tokenizer_, ids, {.at_text_start = false}), " word word");
  EXPECT_EQ(decode(tokenizer_, std::vector<std::int32_t>{' ', ' ', 'x'}),
            " x");  // one space, not all
  EXPECT_EQ(decode(tokenizer_, std::vector<std::int32_t>{'x', kWord}), "x word");
}

TEST_F(DetokenizerTest, UnknownIdIsAnError) {
  Detokenizer detokenizer(tokenizer_);
  EXPECT_THROW((void)detokenizer.feed(-1), Error);
  EXPECT_THROW((void)detokenizer.feed(tokenizer_.vocab_size()), Error);
}

}  // namespace
}  // namespace strata::text
