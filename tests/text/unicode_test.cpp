#include "strata/text/unicode.hpp"

#include <gtest/gtest.h>

#include <string>

namespace strata::text {
namespace {

Utf8Status status_of(std::string_view text) { return decode_utf8(text).status; }

TEST(Unicode, DecodesEveryLength) {
  EXPECT_EQ(decode_utf8("A").code_point, U'A');
  EXPECT_EQ(decode_utf8("\u00E9").code_point, U'\u00E9');
  EXPECT_EQ(decode_utf8("\u4E16").code_point, U'\u4E16');
  EXPECT_EQ(decode_utf8("\U0001F600").code_point, U'\U0001F600');
  EXPECT_EQ(decode_utf8("\U0001F600x").size, 4);
}

TEST(Unicode, RoundTripsEveryScalarValue) {
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text;
    append_utf8(text, code);
    const Utf8Char next = decode_utf8(text);
    ASSERT_EQ(next.status, Utf8Status::kValid) << static_cast<std::uint32_t>(code);
    ASSERT_EQ(next.code_point, code);
    ASSERT_EQ(next.size, text.size());
  }
}

TEST(Unicode, RefusesWhatIsNotUtf8) {
  for (const std::string_view text :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x82("}) {
    EXPECT_EQ(status_of(text), Utf8Status::kInvalid) << ::testing::PrintToString(text);
  }
}

TEST(Unicode, TellsIncompleteFromInvalid) {
  for (const std::string_view text : {"\xC3", "\xE2", "\xE2\x82", "\xF0\x9F", "\xF0\x9F\x98"}) {
    const Utf8Char next = decode_utf8(text);
    EXPECT_EQ(next.status, Utf8Status::kIncomplete);
    EXPECT_EQ(next.size, text.size());
  }
}

TEST(Unicode, MaximalSubpartOfAnIllFormedSequence) {
  EXPECT_EQ(decode_utf8("\xE2\x82(").size, 2);
  EXPECT_EQ(decode_utf8("\xE0\x80\x80").size, 1);
  EXPECT_EQ(decode_utf8("\xF0\x9F\x98(").size, 3);
}

TEST(Unicode, ValidPrefix) {
  EXPECT_EQ(valid_utf8_prefix(""), 0U);
  EXPECT_EQ(valid_utf8_prefix("abcdefghijklmnop\u00E9"), 18U);
  EXPECT_EQ(valid_utf8_prefix("abcdefghij\xFFklm"), 10U);
  EXPECT_EQ(valid_utf8_prefix("ab\xE2\x82"), 2U);
}

// Expected values: unicodedata.normalize("NFC", ...).
TEST(Unicode, ComposesToFormC) {
  EXPECT_EQ(to_nfc("Cafe\u0301"), "Caf\u00E9");
  EXPECT_EQ(to_nfc("\u212B"), "\u00C5");               // singleton
  EXPECT_EQ(to_nfc("a\u0323\u0306"), "\u1EB7");        // two steps
  EXPECT_EQ(to_nfc("a\u0306\u0323"), "\u1EB7");        // reordered first
  EXPECT_EQ(to_nfc("\u1100\u1161\u11A8"), "\uAC01");   // Hangul L V T
  EXPECT_EQ(to_nfc("\uAC00\u11A8"), "\uAC01");         // Hangul LV T
  EXPECT_EQ(to_nfc("\uAC01\u11A8"), "\uAC01\u11A8");   // LVT takes no further T
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093C");         // composition exclusion
  EXPECT_EQ(to_nfc("e\u0327\u0301"), "\u0229\u0301");  // the second mark is left over
  EXPECT_EQ(to_nfc("a\u0315\u0300\u05AE\u0062"), "\u00E0\u05AE\u0315\u0062");
  EXPECT_EQ(to_nfc("a\u0301\u0301"), "\u00E1\u0301");       // equal classes block
  EXPECT_EQ(to_nfc("\u0301"), "\u0301");                    // no starter
  EXPECT_EQ(to_nfc("\U000110A5\U000110BA"), "\U000110AB");  // beyond the BMP
  EXPECT_EQ(to_nfc("\u03B1\u0345\u0313\u0301"), "\u1F84");
}

TEST(Unicode, FormCIsLeftAlone) {
  for (const std::string text : {"plain ASCII", "Caf\u00E9", "\u4E16\u754C", "\uD55C\uAE00",
                                 "\U0001F469\u200D\U0001F467", "q\u0301"}) {
    EXPECT_EQ(to_nfc(text), text);
  }
  EXPECT_FALSE(may_need_nfc("Caf\u00E9 \u4E16\u754C \uD55C\uAE00"));
  EXPECT_TRUE(may_need_nfc("Cafe\u0301"));
}

TEST(Unicode, FormCIsStableForEveryCharacter) {
  for (char32_t code = 0x80; code < 0x30000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    std::string text = "a";
    append_utf8(text, code);
    text += "\u0323\u0301";
    const std::string once = to_nfc(text);
    ASSERT_EQ(to_nfc(once), once) << static_cast<std::uint32_t>(code);
  }
}

// A run of a million marks is one run to be sorted: quadratic sorting would not return.
TEST(Unicode, LongRunsOfMarks) {
  std::string marks, sorted;
  for (int i = 0; i < 250000; ++i) marks += "\u0301\u0323";
  for (int i = 0; i < 250000; ++i) sorted += "\u0323";
  for (int i = 0; i < 250000; ++i) sorted += "\u0301";
  EXPECT_EQ(to_nfc("q" + marks), "q" + sorted);
}

}  // namespace
}  // namespace strata::text
