// What a file's metadata must look like to become a vocabulary.
#include "strata/text/vocab.hpp"

#include "strata/base/error.hpp"
#include "strata/gguf/file.hpp"
#include "strata/gguf/writer.hpp"
#include "strata/text/tokenizer.hpp"
#include "tests/gguf/temp_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strata::text {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The metadata of a file, entry by entry, so that a test can change one.
class VocabTest : public ::testing::Test {
 protected:
  using Add = std::function<void(gguf::Writer&, std::string_view key)>;

  template <class T>
  static Add scalar(T value) {
    return [value](gguf::Writer& writer, std::string_view key) { writer.add(key, value); };
  }
  template <class T>
  static Add array(std::vector<T> values) {
    return [values](gguf::Writer& writer, std::string_view key) { writer.add_array(key, values); };
  }
  void set(const std::string& key, Add add) { entries_["tokenizer.ggml." + key] = std::move(add); }
  void drop(const std::string& key) { entries_.erase("tokenizer.ggml." + key); }

  void set_bpe() {
    set("model", scalar<std::string_view>("gpt2"));
    set("pre", scalar<std::string_view>("qwen2"));
    set("tokens", array<std::string>({"a", "b", "ab", "<s>"}));
    set("token_type", array<std::int32_t>({1, 1, 1, 3}));
    set("merges", array<std::string>({"a b"}));
  }
  void set_spm() {
    set("model", scalar<std::string_view>("llama"));
    set("tokens", array<std::string>({"<unk>", "a", "b", "ab"}));
    set("token_type", array<std::int32_t>({2, 1, 1, 1}));
    set("scores", array<float>({0, -2, -3, -1}));
  }

  Vocab load() {
    const gguf::File file = write();
    return vocab_from_gguf(file);
  }
  gguf::File write() {
    gguf::Writer writer;
    for (const auto& [key, add] : entries_) add(writer, key);
    writer.write(folder_.path() / "vocab.gguf");
    return gguf::File::open(folder_.path() / "vocab.gguf");
  }
  std::string error() {
    try {
      (void)load();
    } catch (const Error& caught) {
      EXPECT_EQ(caught.kind(), ErrorKind::kInput);
      EXPECT_THAT(caught.what(), HasSubstr("vocab.gguf"));
      return caught.what();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

 private:
  gguf::test::TempFolder folder_;
  std::map<std::string, Add> entries_;
};

TEST_F(VocabTest, Bpe) {
  set_bpe();
  set("bos_token_id", scalar<std::uint32_t>(3));
  set("eos_token_id", scalar<std::uint32_t>(3));
  set("add_bos_token", scalar(true));
  set("fim_pad_token_id", scalar<std::uint32_t>(1));
  const Vocab vocab = load();
  EXPECT_EQ(vocab.model, VocabModel::kBpe);
  EXPECT_EQ(vocab.pre, "qwen2");
  EXPECT_THAT(vocab.tokens, ElementsAre("a", "b", "ab", "<s>"));
  EXPECT_THAT(vocab.merges, ElementsAre("a b"));
  EXPECT_EQ(vocab.types[3], TokenType::kControl);
  EXPECT_EQ(vocab.bos, 3);
  EXPECT_EQ(vocab.eos, 3);
  EXPECT_EQ(vocab.eot, std::nullopt);
  EXPECT_EQ(vocab.add_bos, true);
  EXPECT_EQ(vocab.add_eos, std::nullopt);
  EXPECT_THAT(vocab.fim_ends, ElementsAre(1));
  EXPECT_THAT(Tokenizer::from_gguf(write()).encode("ab<s>", {.parse_special = true}),
              ElementsAre(3, 2, 3));
}

TEST_F(VocabTest, Spm) {
  set_spm();
  set("unknown_token_id", scalar<std::uint32_t>(0));
  set("add_space_prefix", scalar(false));
  const Vocab vocab = load();
  EXPECT_EQ(vocab.model, VocabModel::kSpm);
  EXPECT_THAT(vocab.scores, ElementsAre(0, -2, -3, -1));
  EXPECT_EQ(vocab.add_space_prefix, false);
  EXPECT_THAT(Tokenizer::from_gguf(write()).encode("abc"), ElementsAre(3, 0));
}

TEST_F(VocabTest, ScoresMayBeIntegers) {
  set_spm();
  set("scores", array<std::int32_t>({0, -2, -3, -1}));
  EXPECT_THAT(load().scores, ElementsAre(0, -2, -3, -1));
}

TEST_F(VocabTest, TokenTypesMayBeMissing) {
  set_bpe();
  drop("token_type");
  EXPECT_TRUE(load().types.empty());
  EXPECT_THAT(Tokenizer::from_gguf(write()).encode("ab"), ElementsAre(2));
}

TEST_F(VocabTest, AllOnesMeansNoToken) {
  set_bpe();
  set("bos_token_id", scalar(std::numeric_limits<std::uint32_t>::max()));
  set("eos_token_id", scalar<std::int32_t>(-1));
  const Vocab vocab = load();
  EXPECT_EQ(vocab.bos, std::nullopt);
  EXPECT_EQ(vocab.eos, std::nullopt);
}

TEST_F(VocabTest, WhatIsMissingIsNamed) {
  for (const std::string key : {"model", "tokens", "merges"}) {
    set_bpe();
    drop(key);
    EXPECT_THAT(error(), HasSubstr("tokenizer.ggml." + key));
  }
}

TEST_F(VocabTest, SpmNeedsScores) {
  set_spm();
  drop("scores");
  EXPECT_THAT(error(), HasSubstr("tokenizer.ggml.scores"));
}

TEST_F(VocabTest, UnknownModel) {
  set_bpe();
  set("model", scalar<std::string_view>("rwkv"));
  EXPECT_THAT(error(), AllOf(HasSubstr("'rwkv'"), HasSubstr("'gpt2'"), HasSubstr("'llama'")));
}

TEST_F(VocabTest, UnknownPreTokenizer) {
  set_bpe();
  set("pre", scalar<std::string_view>("qwen9"));
  try {
    (void)Tokenizer::from_gguf(write());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("vocab.gguf"), HasSubstr("'qwen9'"), HasSubstr("qwen35")));
  }
}

TEST_F(VocabTest, LengthsMustAgree) {
  set_bpe();
  set("token_type", array<std::int32_t>({1, 1, 1}));
  EXPECT_THAT(error(), AllOf(HasSubstr("token_type has 3"), HasSubstr("tokens has 4")));
  set_spm();
  set("scores", array<float>({0, -1, -2, -3, -4}));
  EXPECT_THAT(error(), HasSubstr("scores has 5"));
}

TEST_F(VocabTest, ValuesMustMakeSense) {
  set_bpe();
  set("token_type", array<std::int32_t>({1, 1, 7, 3}));
  EXPECT_THAT(error(), HasSubstr("token_type[2] is 7"));
  set_spm();
  set("scores", array<float>({0, std::nanf(""), -3, -1}));
  EXPECT_THAT(error(), HasSubstr("scores[1]"));
  set_bpe();
  set("eos_token_id", scalar<std::uint32_t>(4));
  EXPECT_THAT(error(), AllOf(HasSubstr("eos_token_id is 4"), HasSubstr("4 tokens")));
  set("eos_token_id", scalar<std::string_view>("</s>"));
  EXPECT_THAT(error(), HasSubstr("eos_token_id"));
}

TEST_F(VocabTest, EmptyVocabulary) {
  set_bpe();
  set("tokens", array<std::string>({}));
  EXPECT_THAT(error(), HasSubstr("tokenizer.ggml.tokens"));
}

}  // namespace
}  // namespace strata::text
