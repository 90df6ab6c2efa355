// The tokenizer's rules on vocabularies small enough to see through. Real ones:
// tokenizer_vectors_test.cpp.
#include "strata/text/tokenizer.hpp"

#include "strata/base/error.hpp"
#include "tests/text/test_vocab.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace strata::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

constexpr EncodeOptions kSpecial{.parse_special = true};

template <class Call>
std::string error_of(const Call& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Tokenizer, MergesByRankThenLeftmost) {
  TinyVocab tiny;
  const auto bc = tiny.merge("b", "c");
  const auto ab = tiny.merge("a", "b");
  const auto aa = tiny.merge("a", "a");
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{TinyVocab::byte('a'), bc}));  // bc has the lower rank
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{ab}));
  EXPECT_EQ(tokenizer.encode("aaa"), (Ids{aa, TinyVocab::byte('a')}));
}

TEST(Tokenizer, LongPiecesMergeLikeShortOnes) {
  TinyVocab tiny;
  const auto aa = tiny.merge("a", "a");
  const auto a4 = tiny.merge("aa", "aa");
  const auto ab = tiny.merge("a", "b");
  const Tokenizer tokenizer(tiny.vocab);
  for (const std::size_t n : {1U, 7U, 30U, 47U, 48U, 49U, 50U, 51U, 103U, 1000U, 4099U}) {
    Ids expected(n / 4, a4);
    if (n % 4 >= 2) expected.push_back(aa);
    if (n % 2 != 0) expected.push_back(TinyVocab::byte('a'));
    EXPECT_EQ(tokenizer.encode(std::string(n, 'a')), expected) << n;
  }
  // Pairs from the left: (aa)(aa)...(ab) only where an odd a is left before the b.
  const Ids ids = tokenizer.encode(std::string(101, 'a') + "b");
  EXPECT_EQ(ids.back(), ab);
  EXPECT_EQ(ids.size(), 26U);
}

TEST(Tokenizer, TokenThatMergesDoNotReachIsOnlyUsedWhereMergesAreIgnored) {
  TinyVocab tiny;
  const auto abc = tiny.add("abc");
  tiny.merge("a", "b");
  tiny.vocab.pre = "qwen2";
  const Tokenizer plain(tiny.vocab);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(plain.encode("abc").size(), 2U);  // the second time from memory
  tiny.vocab.pre = "llama-bpe";
  EXPECT_EQ(Tokenizer(tiny.vocab).encode("abc"), (Ids{abc}));
}

// A merge list may pass through texts that are no tokens; what stays on the way falls apart into
// bytes.
TEST(Tokenizer, MergesMayPassThroughTextsWithoutToken) {
  TinyVocab tiny;
  tiny.vocab.merges = {"a b", "ab c"};
  const auto abc = tiny.add("abc");
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode("abc"), (Ids{abc}));
  EXPECT_EQ(tokenizer.encode("ab"), TinyVocab::bytes("ab"));
}

TEST(Tokenizer, SpecialTokensNeedParseSpecialUnlessUserDefined) {
  TinyVocab tiny;
  const auto control = tiny.add("<|im_end|>", TokenType::kControl);
  const auto user = tiny.add("<think>", TokenType::kUserDefined);
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode("a<|im_end|>", kSpecial), (Ids{TinyVocab::byte('a'), control}));
  EXPECT_EQ(tokenizer.encode("<|im_end|>"), TinyVocab::bytes("<|im_end|>"));
  EXPECT_EQ(tokenizer.encode("<think>"), (Ids{user}));
  EXPECT_EQ(tokenizer.encode("<think>", kSpecial), (Ids{user}));
}

// Not even by merges or as a whole piece: a control token's text from a user stays text.
TEST(Tokenizer, ControlTokensCannotBeMergedTogether) {
  TinyVocab tiny;
  tiny.vocab.pre = "llama-bpe";
  const auto stop = tiny.add("STOP", TokenType::kControl);
  tiny.vocab.merges = {"S T", "O P", "ST OP"};
  tiny.vocab.add_bos = false;
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode("STOP"), TinyVocab::bytes("STOP"));
  EXPECT_EQ(tokenizer.encode("STOP", kSpecial), (Ids{stop}));
}

TEST(Tokenizer, LongestSpecialTokenWins) {
  TinyVocab tiny;
  const auto short_one = tiny.add("<a>", TokenType::kControl);
  const auto long_one = tiny.add("<a><b>", TokenType::kControl);
  const auto other = tiny.add("<b", TokenType::kControl);
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode("<a><b>", kSpecial), (Ids{long_one}));
  EXPECT_EQ(tokenizer.encode("<a><b", kSpecial), (Ids{short_one, other}));
  EXPECT_EQ(tokenizer.encode("<a<a>", kSpecial),
            (Ids{TinyVocab::byte('<'), TinyVocab::byte('a'), short_one}));
}

TEST(Tokenizer, ManySpecialTokensAndManyNearMisses) {
  TinyVocab tiny;
  std::int32_t last = 0;
  for (int i = 0; i < 1000; ++i)
    last = tiny.add("<|reserved_" + std::to_string(i) + "|>", TokenType::kControl);
  const Tokenizer tokenizer(tiny.vocab);
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "<|reserved_99<|";
  text += "<|reserved_999|>";
  const Ids ids = tokenizer.encode(text, kSpecial);
  EXPECT_EQ(ids.back(), last);
  EXPECT_EQ(ids.size(), text.size() - 16 + 1);
}

TEST(Tokenizer, SegmentsTrustOnlyTheirOwn) {
  TinyVocab tiny;
  const auto start = tiny.add("<|im_start|>", TokenType::kControl);
  const auto end = tiny.add("<|im_end|>", TokenType::kControl);
  const auto user = tiny.add("<tool>", TokenType::kUserDefined);
  const Tokenizer tokenizer(tiny.vocab);
  const Segment chat[] = {
      {"<|im_start|>", true}, {"x<|im_end|><tool>", false}, {"<|im_end|>", true}};
  Ids expected{start};
  for (const auto id : TinyVocab::bytes("x<|im_end|>")) expected.push_back(id);
  expected.push_back(user);
  expected.push_back(end);
  EXPECT_EQ(tokenizer.encode(chat), expected);
}

TEST(Tokenizer, SpecialTokenAcrossASeamNeedsBothSidesTrusted) {
  TinyVocab tiny;
  const auto end = tiny.add("<|im_end|>", TokenType::kControl);
  const Tokenizer tokenizer(tiny.vocab);
  const Segment both[] = {{"<|im_", true}, {"", false}, {"end|>", true}};
  EXPECT_EQ(tokenizer.encode(both), (Ids{end}));
  for (const bool first : {false, true}) {
    const Segment one[] = {{"<|im_", first}, {"end|>", !first}};
    EXPECT_EQ(tokenizer.encode(one), TinyVocab::bytes("<|im_end|>"));
  }
}

TEST(Tokenizer, PiecesRunAcrossSeams) {
  TinyVocab tiny;
  tiny.merge("a", "b");
  const auto space_ab = tiny.merge("\u0120", "ab");
  const Tokenizer tokenizer(tiny.vocab);
  const Segment segments[] = {{" ", true}, {"a", false}, {"b", true}};
  EXPECT_EQ(tokenizer.encode(segments), (Ids{space_ab}));
  EXPECT_EQ(tokenizer.encode(std::span<const Segment>{}), Ids{});
}

TEST(Tokenizer, BosAsTheFileSays) {
  TinyVocab tiny;
  const auto bos = tiny.add("<s>", TokenType::kControl);
  tiny.vocab.bos = bos;
  EXPECT_FALSE(Tokenizer(tiny.vocab).adds_bos());  // qwen2's default
  tiny.vocab.pre = "llama-bpe";
  EXPECT_TRUE(Tokenizer(tiny.vocab).adds_bos());
  tiny.vocab.add_bos = false;
  EXPECT_FALSE(Tokenizer(tiny.vocab).adds_bos());
  tiny.vocab.add_bos = true;
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode("a"), (Ids{bos, TinyVocab::byte('a')}));
  EXPECT_EQ(tokenizer.encode("<s>a", kSpecial), (Ids{bos, TinyVocab::byte('a')}));  // not twice
  EXPECT_EQ(tokenizer.encode(""), (Ids{bos}));
  EXPECT_EQ(tokenizer.encode("a", {.add_bos = false}), TinyVocab::bytes("a"));
}

TEST(Tokenizer, EosWhenAskedFor) {
  TinyVocab tiny;
  const auto eos = tiny.add("</s>", TokenType::kControl);
  tiny.vocab.eos = eos;
  EXPECT_EQ(Tokenizer(tiny.vocab).encode("a", {.add_eos = true}), (Ids{TinyVocab::byte('a'), eos}));
  tiny.vocab.add_eos = true;
  EXPECT_EQ(Tokenizer(tiny.vocab).encode("a"), (Ids{TinyVocab::byte('a'), eos}));
}

TEST(Tokenizer, MissingBosOrEosIsAnError) {
  TinyVocab tiny;
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_THAT(error_of([&] { (void)tokenizer.encode("a", {.add_bos = true}); }, ErrorKind::kUsage),
              HasSubstr("BOS"));
  EXPECT_THAT(error_of([&] { (void)tokenizer.encode("a", {.add_eos = true}); }, ErrorKind::kUsage),
              HasSubstr("EOS"));
  tiny.vocab.add_bos = true;
  EXPECT_THAT(error_of([&] { Tokenizer{tiny.vocab}; }, ErrorKind::kInput),
              HasSubstr("bos_token_id"));
  tiny.vocab.add_bos.reset();
  tiny.vocab.pre = "llama-bpe";  // adds one by default, when there is one
  EXPECT_FALSE(Tokenizer(tiny.vocab).adds_bos());
}

TEST(Tokenizer, BytesThatAreNotUtf8BecomeByteTokens) {
  TinyVocab tiny;
  const auto c3 = tiny.add("\u00C3");  // byte 0xC3
  const auto a9 = tiny.add("\u00A9");  // byte 0xA9
  const auto ff = tiny.add("\u00FF");  // byte 0xFF
  const auto e_acute = tiny.merge("\u00C3", "\u00A9");
  tiny.vocab.unknown = tiny.add("<unk>", TokenType::kUnknown);
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode("\u00E9"), (Ids{e_acute}));
  EXPECT_EQ(tokenizer.encode("\xFF"), (Ids{ff}));
  EXPECT_EQ(tokenizer.encode("\xA9\xC3"), (Ids{a9, c3}));
  EXPECT_EQ(tokenizer.encode("a\xC3"
                             "b\xC3\xA9"),
            (Ids{TinyVocab::byte('a'), c3, TinyVocab::byte('b'), e_acute}));
}

TEST(Tokenizer, ByteWithoutTokenIsUnknownOrAnError) {
  TinyVocab tiny;
  EXPECT_THAT(error_of([&] { (void)Tokenizer(tiny.vocab).encode("a\n"); }, ErrorKind::kInput),
              HasSubstr("0x0A"));
  const auto unknown = tiny.add("<unk>", TokenType::kUnknown);
  tiny.vocab.unknown = unknown;
  EXPECT_EQ(Tokenizer(tiny.vocab).encode("a\n"), (Ids{TinyVocab::byte('a'), unknown}));
}

TEST(Tokenizer, FormCFollowsTheRowUnlessTold) {
  TinyVocab tiny;
  tiny.add("\u00C3");
  tiny.add("\u00A9");
  tiny.vocab.unknown = tiny.add("<unk>", TokenType::kUnknown);
  const auto e_acute = tiny.merge("\u00C3", "\u00A9");
  const std::string decomposed = "e\u0301";
  EXPECT_EQ(Tokenizer(tiny.vocab).encode(decomposed), (Ids{e_acute}));
  EXPECT_EQ(Tokenizer(tiny.vocab, {.nfc = false}).encode(decomposed).size(), 3U);
  tiny.vocab.pre = "gpt-2";
  EXPECT_EQ(Tokenizer(tiny.vocab).encode(decomposed).size(), 3U);
  EXPECT_EQ(Tokenizer(tiny.vocab, {.nfc = true}).encode(decomposed), (Ids{e_acute}));
}

TEST(Tokenizer, PiecesAndFind) {
  TinyVocab tiny;
  const auto ab = tiny.merge("a", "b");
  const auto space = TinyVocab::byte(' ');
  const auto control = tiny.add("<|im_end|>", TokenType::kControl);
  const auto padding = tiny.add("[PAD97]", TokenType::kUnused);
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.piece(ab), "ab");
  EXPECT_EQ(tokenizer.piece(space), " ");
  EXPECT_EQ(tokenizer.piece(control), "<|im_end|>");
  EXPECT_EQ(tokenizer.piece(padding), "[PAD97]");
  EXPECT_EQ(tokenizer.find("ab"), ab);
  EXPECT_EQ(tokenizer.find(" "), space);
  EXPECT_EQ(tokenizer.find("<|im_end|>"), control);
  EXPECT_EQ(tokenizer.find("[PAD97]"), std::nullopt);
  EXPECT_EQ(tokenizer.find(""), std::nullopt);
  EXPECT_EQ(tokenizer.vocab_size(), static_cast<std::int32_t>(tiny.vocab.tokens.size()));
  for (const std::int32_t id : {-1, tokenizer.vocab_size()}) {
    EXPECT_THAT(error_of([&] { (void)tokenizer.piece(id); }, ErrorKind::kUsage),
                HasSubstr(std::to_string(id)));
    error_of([&] { (void)tokenizer.is_end(id); }, ErrorKind::kUsage);
  }
}

TEST(Tokenizer, EndTokens) {
  TinyVocab tiny;
  const auto im_end = tiny.add("<|im_end|>", TokenType::kControl);
  const auto strike = tiny.add("</s>");  // an ordinary token: text of a web page, not an end
  const auto user_turn = tiny.add("<|user|>", TokenType::kControl);
  const auto observation = tiny.add("<|observation|>", TokenType::kControl);
  const auto fim = tiny.add("<fim-thing>", TokenType::kControl);
  const auto eos = tiny.add("<|stop|>", TokenType::kControl);
  tiny.vocab.eos = eos;
  tiny.vocab.eot = user_turn;
  tiny.vocab.eom = observation;
  tiny.vocab.fim_ends = {fim};
  const Tokenizer tokenizer(tiny.vocab);
  for (const auto id : {im_end, eos, user_turn, observation, fim})
    EXPECT_TRUE(tokenizer.is_end(id)) << id;
  EXPECT_FALSE(tokenizer.is_end(strike));
  EXPECT_FALSE(tokenizer.is_end(0));
  EXPECT_TRUE(tokenizer.is_control(im_end));
  EXPECT_FALSE(tokenizer.is_visible(im_end));
  EXPECT_FALSE(tokenizer.is_control(strike));
}

TEST(Tokenizer, GptOssEndsMessagesWithATokenThatEndsOtherModelsAnswers) {
  TinyVocab tiny;
  const auto end = tiny.add("<|end|>", TokenType::kControl);
  const auto channel = tiny.add("<|channel|>", TokenType::kControl);
  EXPECT_TRUE(Tokenizer(tiny.vocab).is_end(end));
  EXPECT_FALSE(Tokenizer(tiny.vocab).is_visible(channel));
  const auto ret = tiny.add("<|return|>", TokenType::kControl);
  const auto call = tiny.add("<|call|>", TokenType::kControl);
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_FALSE(tokenizer.is_end(end));
  EXPECT_TRUE(tokenizer.is_end(ret));
  EXPECT_TRUE(tokenizer.is_end(call));
  EXPECT_TRUE(tokenizer.is_visible(end));
  EXPECT_TRUE(tokenizer.is_visible(channel));
  EXPECT_FALSE(tokenizer.is_visible(ret));
  EXPECT_TRUE(tokenizer.is_control(channel));  // so a user cannot write it
  EXPECT_EQ(tokenizer.encode("<|channel|>"), TinyVocab::bytes("<|channel|>"));
}

TEST(Tokenizer, BrokenVocabulariesAreErrors) {
  const auto broken = [](const auto& change) {
    TinyVocab tiny;
    change(tiny.vocab);
    return error_of([&] { Tokenizer{tiny.vocab}; }, ErrorKind::kInput);
  };
  EXPECT_THAT(broken([](Vocab& v) { v.merges = {"ab"}; }), HasSubstr("merges[0]"));
  EXPECT_THAT(broken([](Vocab& v) { v.merges = {"a b", "a "}; }), HasSubstr("merges[1]"));
  EXPECT_THAT(broken([](Vocab& v) { v.merges = {"a \u4E16"}; }), HasSubstr("merges[0]"));
  EXPECT_THAT(broken([](Vocab& v) { v.types.pop_back(); }), HasSubstr("types"));
  EXPECT_THAT(broken([](Vocab& v) { v.tokens.clear(), v.types.clear(); }), HasSubstr("0 tokens"));
  EXPECT_THAT(broken([](Vocab& v) { v.pre = "no-such"; }), HasSubstr("no-such"));
  EXPECT_THAT(broken([](Vocab& v) { v.model = VocabModel::kSpm; }), HasSubstr("scores"));
  EXPECT_THAT(broken([](Vocab& v) {
                v.model = VocabModel::kSpm;
                v.scores.resize(v.tokens.size());
                v.types[3] = TokenType::kByte;
              }),
              HasSubstr("tokens[3]"));
}

TEST(Tokenizer, AMegabyteOfOneLetterTakesNLogN) {
  TinyVocab tiny;
  std::string text = "a";
  for (int i = 0; i < 6; ++i) {
    tiny.merge(text, text);
    text += text;
  }
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), std::size_t{1} << 14);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'b')).size(), std::size_t{1} << 20);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, ' ')).size(), std::size_t{1} << 20);
}

TEST(Tokenizer, ManyThreadsMayEncodeAtOnce) {
  TinyVocab tiny;
  tiny.merge("a", "b");
  tiny.merge("ab", "c");
  tiny.merge("d", "e");
  const Tokenizer tokenizer(tiny.vocab);
  const std::string text = "abc de abd ed abcde abc";
  const Ids expected = Tokenizer(tiny.vocab).encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) count += tokenizer.encode(text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

// ---- SentencePiece ----

struct TinySpm {
  Vocab vocab;

  TinySpm() {
    vocab.model = VocabModel::kSpm;
    vocab.unknown = add("<unk>", 0, TokenType::kUnknown);
    vocab.bos = add("<s>", 0, TokenType::kControl);
    for (unsigned byte = 0; byte < 256; ++byte) {
      char text[8];
      std::snprintf(text, sizeof text, "<0x%02X>", byte);
      add(text, 0, TokenType::kByte);
    }
    vocab.add_bos = false;
  }
  std::int32_t add(const std::string& text, float score, TokenType type = TokenType::kNormal) {
    vocab.tokens.push_back(text);
    vocab.scores.push_back(score);
    vocab.types.push_back(type);
    return static_cast<std::int32_t>(vocab.tokens.size()) - 1;
  }
  static std::int32_t byte(unsigned value) { return 2 + static_cast<std::int32_t>(value); }
};

TEST(SpmTokenizer, MergesByScoreAndFallsBackToBytes) {
  TinySpm tiny;
  const auto space = tiny.add("\u2581", -10);
  const auto a = tiny.add("a", -11);
  const auto b = tiny.add("b", -12);
  const auto ab = tiny.add("ab", -2);
  const auto space_a = tiny.add("\u2581a", -1);
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode("ab"), (Ids{space_a, b}));  // the added space; its merge scores higher
  EXPECT_EQ(tokenizer.encode("bab"), (Ids{space, b, ab}));
  EXPECT_EQ(tokenizer.encode("\u00E9a"), (Ids{space, TinySpm::byte(0xC3), TinySpm::byte(0xA9), a}));
  EXPECT_EQ(tokenizer.encode("\xFF"), (Ids{space, TinySpm::byte(0xFF)}));
  EXPECT_EQ(tokenizer.encode(""), Ids{});
}

TEST(SpmTokenizer, EqualScoresMergeFromTheLeft) {
  TinySpm tiny;
  tiny.vocab.add_space_prefix = false;
  tiny.add("a", -10);
  const auto aa = tiny.add("aa", -1);
  const Tokenizer tokenizer(tiny.vocab);
  const Ids ids = tokenizer.encode("aaa");
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_EQ(ids[0], aa);
}

TEST(SpmTokenizer, SpaceIsAddedAtTheStartAndAfterSpecialTokens) {
  TinySpm tiny;
  const auto space_a = tiny.add("\u2581a", -1);
  tiny.add("\u2581", -2);
  const auto a = tiny.add("a", -3);
  const auto bos = *tiny.vocab.bos;
  EXPECT_EQ(Tokenizer(tiny.vocab).encode("a<s>a", kSpecial), (Ids{space_a, bos, space_a}));
  tiny.vocab.add_space_prefix = false;
  EXPECT_EQ(Tokenizer(tiny.vocab).encode("a<s>a", kSpecial), (Ids{a, bos, a}));
  EXPECT_EQ(Tokenizer(tiny.vocab).encode("a\u2581a"),
            (Ids{a, space_a}));  // the symbol itself is a space too
}

TEST(SpmTokenizer, BosIsAddedUnlessTheFileSaysNo) {
  TinySpm tiny;
  tiny.vocab.add_bos.reset();
  EXPECT_TRUE(Tokenizer(tiny.vocab).adds_bos());
  tiny.vocab.add_bos = false;
  EXPECT_FALSE(Tokenizer(tiny.vocab).adds_bos());
}

// Words are merged one by one only where no token has a space inside.
TEST(SpmTokenizer, TokensMayHaveSpacesInside) {
  TinySpm tiny;
  tiny.vocab.add_space_prefix = false;
  tiny.add("a", -10);
  tiny.add("\u2581", -11);
  tiny.add("a\u2581", -3);
  const auto phrase = tiny.add("a\u2581a", -2);
  EXPECT_EQ(Tokenizer(tiny.vocab).encode("a a"), (Ids{phrase}));
}

TEST(SpmTokenizer, PiecesAreBytes) {
  TinySpm tiny;
  const auto space_a = tiny.add("\u2581a", -1);
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.piece(space_a), " a");
  EXPECT_EQ(tokenizer.piece(TinySpm::byte(0)), std::string_view("\0", 1));
  EXPECT_EQ(tokenizer.piece(TinySpm::byte(0xE2)), "\xE2");
  EXPECT_EQ(tokenizer.find(" a"), space_a);
  EXPECT_EQ(tokenizer.pre(), "spm");
}

TEST(SpmTokenizer, AMegabyteTakesNLogN) {
  TinySpm tiny;
  tiny.add("a", -10);
  tiny.add("aa", -1);
  const Tokenizer tokenizer(tiny.vocab);
  EXPECT_EQ(tokenizer.encode(std::string(1 << 20, 'a')).size(), (std::size_t{1} << 19) + 1);
}

}  // namespace
}  // namespace strata::text
