// Real vocabularies against ids of other tokenizers: tests/data/tokenizer/README.md says whose.
#include "strata/gguf/file.hpp"
#include "strata/text/detokenizer.hpp"
#include "strata/text/tokenizer.hpp"
#include "strata/text/unicode.hpp"
#include "tests/text/test_vocab.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr EncodeOptions kSpecialNoBos{.parse_special = true, .add_bos = false};

// Random strings, ids of Hugging Face tokenizers.
void check_random(const Tokenizer& tokenizer, const std::string& name, bool nfc) {
  const auto strings = read_json_lines("random.strings.jsonl");
  const auto ids = read_json_lines("random." + name + ".ids.jsonl");
  ASSERT_EQ(strings.size(), ids.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto text = strings[i].get<std::string>();
    const Ids found = tokenizer.encode(text, kSpecialNoBos);
    EXPECT_EQ(found, ids[i].get<Ids>()) << strings[i];
    if (text.find("<unk>") == std::string::npos) {
      EXPECT_EQ(decode(tokenizer, found, {.show_control = true}), nfc ? to_nfc(text) : text);
    }
  }
}

// llama.cpp's strings and ids.
void check_strings(const Tokenizer& tokenizer, const std::string& name) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string text = read_file(data_path(name + ".inp"));
  std::istringstream lines(read_file(data_path(name + ".out")));
  std::size_t begin = 0;
  std::size_t count = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + kSeparator.size(), ++count) {
    end = text.find(kSeparator, begin);
    const std::string sample = text.substr(begin, end == std::string::npos ? end : end - begin);
    std::string line;
    std::getline(lines, line);
    std::istringstream numbers(line);
    const Ids expected{std::istream_iterator<std::int32_t>(numbers), {}};
    EXPECT_EQ(tokenizer.encode(sample), expected) << sample;
    if (end == std::string::npos) break;
  }
  EXPECT_GT(count, 40U);
}

// "EncodingName: E\nSample: S\nEncoded: [ids]\n\n", ids of OpenAI's tiktoken.
void check_tiktoken(const Tokenizer& tokenizer, const std::string& encoding) {
  constexpr std::string_view kSample = "\nSample: ", kEncoded = "\nEncoded: ";
  const std::string text = read_file(data_path("tiktoken-plans.txt"));
  const std::string head = "EncodingName: " + encoding + "\n";
  std::size_t count = 0;
  for (std::size_t at = text.find(head); at != std::string::npos;
       at = text.find(head, at + 1), ++count) {
    const std::size_t sample = text.find(kSample, at) + kSample.size();
    const std::size_t encoded = text.find(kEncoded, at);
    const auto expected = nlohmann::json::parse(text.substr(
        encoded + kEncoded.size(), text.find('\n', encoded + 1) - encoded - kEncoded.size()));
    const std::string string = text.substr(sample, encoded - sample);
    EXPECT_EQ(tokenizer.encode(string), expected.get<Ids>()) << string;
  }
  EXPECT_GT(count, 25U);
}

Tokenizer from_hf(const std::string& name, std::string_view pre) {
  return Tokenizer(
      vocab_from_hf(nlohmann::json::parse(read_xz(data_path(name + ".tokenizer.json.xz"))), pre));
}

void expect_ends(const Tokenizer& tokenizer, std::initializer_list<std::string_view> texts) {
  for (const std::string_view text : texts) {
    const auto id = tokenizer.find(text);
    EXPECT_TRUE(id && tokenizer.is_end(*id)) << text;
  }
}

TEST(TokenizerVectors, Qwen3) {
  const Tokenizer tokenizer = from_hf("qwen3", "qwen2");
  expect_ends(tokenizer, {"<|im_end|>", "<|endoftext|>"});
  check_strings(tokenizer, "qwen2");
  check_random(tokenizer, "qwen3", true);
}

TEST(TokenizerVectors, GptOss) {
  const Tokenizer tokenizer = from_hf("gpt-oss", "gpt-4o");
  expect_ends(tokenizer, {"<|return|>", "<|call|>", "<|endoftext|>"});
  EXPECT_FALSE(tokenizer.is_end(*tokenizer.find("<|end|>")));
  check_tiktoken(tokenizer, "o200k_base");
  check_random(tokenizer, "gpt-oss", false);
}

TEST(TokenizerVectors, Gpt2FromGguf) {
  const gguf::File file = gguf::File::open(data_path("gpt-2.vocab.gguf"));
  const Tokenizer tokenizer = Tokenizer::from_gguf(file);
  EXPECT_EQ(tokenizer.vocab_size(), 50257);
  EXPECT_EQ(tokenizer.pre(), "gpt-2");
  EXPECT_EQ(tokenizer.bos(), 50256);
  EXPECT_TRUE(tokenizer.is_end(50256));
  check_strings(tokenizer, "gpt-2");
  check_tiktoken(tokenizer, "r50k_base");
  check_random(tokenizer, "gpt-2", false);
}

TEST(TokenizerVectors, DemoFromGguf) {
  const gguf::File file = gguf::File::open(STRATA_SOURCE_DIR "/data/strata-demo.gguf");
  // The demo's tokenizer was trained without form C, which its file cannot say.
  const Tokenizer tokenizer = Tokenizer::from_gguf(file, {.nfc = false});
  EXPECT_EQ(tokenizer.vocab_size(), 8192);
  EXPECT_EQ(tokenizer.find("<|im_start|>"), 8190);
  EXPECT_TRUE(tokenizer.is_end(8191));
  EXPECT_FALSE(tokenizer.adds_bos());
  check_random(tokenizer, "demo", false);
  const std::string text = read_file(STRATA_SOURCE_DIR "/data/heldout.txt");
  EXPECT_EQ(decode(tokenizer, tokenizer.encode(text)), text);
}

TEST(TokenizerVectors, SentencePiece) {
  const auto json = nlohmann::json::parse(read_file(data_path("spm.tokenizer.json")));
  const Tokenizer tokenizer(vocab_from_hf(json, ""));
  EXPECT_TRUE(tokenizer.adds_space_prefix());
  const auto strings = read_json_lines("random.strings.jsonl");
  const auto ids = read_json_lines("random.spm.ids.jsonl");
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto text = strings[i].get<std::string>();
    const Ids found = tokenizer.encode(text, kSpecialNoBos);
    EXPECT_EQ(found, ids[i].get<Ids>()) << strings[i];
    // With special tokens inside, each stretch between them has a space of its own.
    const bool plain = text.find("<s>") == std::string::npos &&
                       text.find("</s>") == std::string::npos &&
                       text.find("<unk>") == std::string::npos;
    if (plain) {
      EXPECT_EQ(decode(tokenizer, found), text) << strings[i];
    }
  }
}

}  // namespace
}  // namespace strata::text
