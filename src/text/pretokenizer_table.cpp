// The table of pre-tokenizers. Expressions are those of the models' own tokenizer.json files;
// llama.cpp's names for them are what GGUF files carry.
#include "strata/base/error.hpp"
#include "strata/text/pretokenizer.hpp"

#include <algorithm>
#include <string>

namespace strata::text {
namespace {

using Strings = std::string_view[];

constexpr Strings kQwen2 = {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)re"
                            R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

constexpr Strings kQwen35 = {
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

constexpr Strings kLlama3 = {
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

constexpr Strings kSeedCoder = {
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|)re"
    R"re( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

constexpr Strings kBailing = {R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)re"
                              R"re( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)re"};

constexpr Strings kO200k = {
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)re"
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)re"
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)re"
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)re"
    R"re(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

constexpr Strings kTekken = {
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)re"
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)re"
    R"re(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

// Kimi writes "[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]". PCRE2 has no class intersection, so
// the classes here name everything else: the other categories, and Han. ("sc:" because its bare
// \p{Han} means script extensions.)
constexpr Strings kKimi = {
    R"re([\p{sc:Han}]+|)re"
    R"re([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*)re"
    R"re([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)re"
    R"re([^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+)re"
    R"re([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)re"
    R"re(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

constexpr std::string_view kGpt2Pattern =
    R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";
constexpr Strings kGpt2 = {kGpt2Pattern};
constexpr Strings kDigitsGpt2 = {R"re(\p{N})re", kGpt2Pattern};

constexpr Strings kDeepSeekV3 = {
    R"re(\p{N}{1,3})re", R"re([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re",
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)re"
    R"re( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"};

// The second expression lists the cased letters of an older Unicode version, range by range.
// The fourth is `\s+$` in tokenizer.json: the same matches, without trying every space of a long
// run.
constexpr Strings kDeepSeekLlm = {
    R"re([\r\n])re",
    R"re(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})re"
    R"re(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})re"
    R"re(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})re"
    R"re(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})re"
    R"re(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})re"
    R"re(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})re"
    R"re(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})re"
    R"re(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})re"
    R"re(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})re"
    R"re(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})re"
    R"re(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})re"
    R"re(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})re"
    R"re(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})re"
    R"re(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})re"
    R"re(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})re"
    R"re(\x{1E900}-\x{1E943}]+)re",
    R"re(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)re",
    R"re((?<!\s)\s++\z)re",
    R"re([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)re",
    R"re(\p{N})re"};

constexpr Strings kQwen2Names = {"qwen2", "hunyuan"};
constexpr Strings kQwen2PlainNames = {"deepseek-r1-qwen", "grok-2", "solar-open"};
constexpr Strings kQwen35Names = {"qwen35"};
constexpr Strings kLlama3Names = {"llama-bpe", "llama3", "llama-v3", "lfm2"};
constexpr Strings kCl100kNames = {"glm4", "chatglm-bpe", "dbrx", "smaug-bpe"};
constexpr Strings kO200kNames = {"gpt-4o", "llama4", "kanana2"};
constexpr Strings kMiniMaxNames = {"minimax-m2"};
constexpr Strings kTekkenNames = {"tekken"};
constexpr Strings kKimiNames = {"kimi-k2"};
constexpr Strings kBailingNames = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr Strings kSeedCoderNames = {"seed-coder"};
constexpr Strings kGpt2Names = {"gpt-2", "phi-2", "gigachat"};
constexpr Strings kOlmoNames = {"olmo"};
constexpr Strings kRefactNames = {"refact", "starcoder", "smollm", "codeshell"};
constexpr Strings kCommandRNames = {"command-r"};
constexpr Strings kDeepSeekV3Names = {"deepseek-v3"};
constexpr Strings kDeepSeekLlmNames = {"deepseek-llm"};

constexpr PreTokenizerRow kRows[] = {
    {.names = kQwen2Names, .patterns = kQwen2, .nfc = true},
    {.names = kQwen2PlainNames, .patterns = kQwen2},
    {.names = kQwen35Names, .patterns = kQwen35, .nfc = true},
    {.names = kLlama3Names, .patterns = kLlama3, .ignore_merges = true, .add_bos = true},
    {.names = kCl100kNames, .patterns = kLlama3},
    {.names = kO200kNames, .patterns = kO200k, .ignore_merges = true},
    {.names = kMiniMaxNames, .patterns = kO200k},
    {.names = kTekkenNames, .patterns = kTekken, .ignore_merges = true, .add_bos = true},
    {.names = kKimiNames, .patterns = kKimi, .ignore_merges = true},
    {.names = kBailingNames, .patterns = kBailing},
    {.names = kSeedCoderNames, .patterns = kSeedCoder},
    {.names = kGpt2Names, .patterns = kGpt2},
    {.names = kOlmoNames, .patterns = kGpt2, .nfc = true},
    {.names = kRefactNames, .patterns = kDigitsGpt2},
    {.names = kCommandRNames, .patterns = kDigitsGpt2, .nfc = true},
    {.names = kDeepSeekV3Names, .patterns = kDeepSeekV3},
    {.names = kDeepSeekLlmNames, .patterns = kDeepSeekLlm},
};

}  // namespace

std::span<const PreTokenizerRow> pretokenizer_rows() noexcept { return kRows; }

const PreTokenizerRow& find_pretokenizer(std::string_view name) {
  std::string known;
  for (const PreTokenizerRow& row : kRows) {
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return row;
    for (const std::string_view other : row.names) {
      if (!known.empty()) known += ", ";
      known += other;
    }
  }
  if (name.empty()) {
    fail(ErrorKind::kInput,
         "tokenizer.ggml.pre is missing, so how to cut text into pieces is unknown; convert the "
         "model again with "
         "a converter that writes it (one of: {})",
         known);
  }
  fail(ErrorKind::kInput,
       "tokenizer.ggml.pre is '{}', a pre-tokenizer Strata does not have; it has {}", name, known);
}

}  // namespace strata::text
