#include "strata/text/vocab.hpp"

#include "strata/base/error.hpp"
#include "strata/gguf/file.hpp"

#include <cmath>
#include <limits>
#include <string_view>
#include <variant>

namespace strata::text {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";

VocabModel read_model(const gguf::File& file) {
  const auto name = file.get_string("tokenizer.ggml.model");
  if (!name) {
    fail(ErrorKind::kInput,
         "{}: no tokenizer.ggml.model: the file has no tokenizer, convert the model with one",
         file.path().string());
  }
  if (*name == "gpt2") return VocabModel::kBpe;
  if (*name == "llama") return VocabModel::kSpm;
  fail(ErrorKind::kInput,
       "{}: tokenizer.ggml.model is '{}'; known are 'gpt2' (byte-level BPE) and 'llama' "
       "(SentencePiece)",
       file.path().string(), *name);
}

void check_length(const gguf::File& file, std::string_view key, std::size_t found,
                  std::size_t tokens) {
  if (found == tokens) return;
  fail(ErrorKind::kInput, "{}: {} has {} entries but {} has {}", file.path().string(), key, found,
       kTokensKey, tokens);
}

std::vector<std::string> read_tokens(const gguf::File& file) {
  const gguf::StringArray* tokens = file.get_strings(kTokensKey);
  if (tokens == nullptr || tokens->empty()) {
    fail(ErrorKind::kInput, "{}: {} is missing or empty", file.path().string(), kTokensKey);
  }
  if (tokens->size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    fail(ErrorKind::kInput, "{}: {} has {} entries, ids are 32-bit", file.path().string(),
         kTokensKey, tokens->size());
  }
  return {tokens->begin(), tokens->end()};
}

std::vector<TokenType> read_types(const gguf::File& file, std::size_t tokens) {
  const gguf::IntArray* stored = file.get_ints(kTypesKey);
  if (stored == nullptr) return {};
  check_length(file, kTypesKey, stored->size(), tokens);
  std::vector<TokenType> types;
  types.reserve(stored->size());
  for (const std::int64_t value : *stored) {
    if (value < 1 || value > 6) {
      fail(ErrorKind::kInput, "{}: {}[{}] is {}; types are 1 to 6", file.path().string(), kTypesKey,
           types.size(), value);
    }
    types.push_back(static_cast<TokenType>(value));
  }
  return types;
}

std::vector<float> read_scores(const gguf::File& file, std::size_t tokens) {
  const gguf::Value* value = file.find(kScoresKey);
  if (value == nullptr) {
    fail(ErrorKind::kInput, "{}: {} is missing; a 'llama' tokenizer needs it", file.path().string(),
         kScoresKey);
  }
  if (const auto* integers =
          std::get_if<gguf::IntArray>(value)) {  // some writers store whole scores
    check_length(file, kScoresKey, integers->size(), tokens);
    return {integers->begin(), integers->end()};
  }
  const gguf::FloatArray* stored = file.get_floats(kScoresKey);
  check_length(file, kScoresKey, stored->size(), tokens);
  std::vector<float> scores;
  scores.reserve(stored->size());
  for (const double score : *stored) {
    if (std::isnan(score)) {
      fail(ErrorKind::kInput, "{}: {}[{}] is not a number", file.path().string(), kScoresKey,
           scores.size());
    }
    scores.push_back(static_cast<float>(score));
  }
  return scores;
}

// Writers store "none" as a missing key or as all ones.
std::optional<std::int32_t> read_id(const gguf::File& file, std::string_view key,
                                    std::size_t tokens) {
  const auto id = file.get_int(key);
  if (!id || *id < 0 || *id == std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  if (static_cast<std::uint64_t>(*id) >= tokens) {
    fail(ErrorKind::kInput, "{}: {} is {} but the vocabulary has {} tokens", file.path().string(),
         key, *id, tokens);
  }
  return static_cast<std::int32_t>(*id);
}

}  // namespace

Vocab vocab_from_gguf(const gguf::File& file) {
  Vocab vocab;
  vocab.model = read_model(file);
  vocab.tokens = read_tokens(file);
  const std::size_t count = vocab.tokens.size();
  vocab.types = read_types(file, count);
  if (vocab.model == VocabModel::kBpe) {
    const gguf::StringArray* merges = file.get_strings(kMergesKey);
    if (merges == nullptr) {
      fail(ErrorKind::kInput, "{}: {} is missing; a 'gpt2' tokenizer needs it",
           file.path().string(), kMergesKey);
    }
    vocab.merges.assign(merges->begin(), merges->end());
    vocab.pre = file.get_string("tokenizer.ggml.pre").value_or("");
  } else {
    vocab.scores = read_scores(file, count);
  }
  vocab.bos = read_id(file, "tokenizer.ggml.bos_token_id", count);
  vocab.eos = read_id(file, "tokenizer.ggml.eos_token_id", count);
  vocab.eot = read_id(file, "tokenizer.ggml.eot_token_id", count);
  vocab.eom = read_id(file, "tokenizer.ggml.eom_token_id", count);
  vocab.unknown = read_id(file, "tokenizer.ggml.unknown_token_id", count);
  for (const std::string_view key :
       {"tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.fim_rep_token_id",
        "tokenizer.ggml.fim_sep_token_id"}) {
    if (const auto id = read_id(file, key, count)) vocab.fim_ends.push_back(*id);
  }
  vocab.add_bos = file.get_bool("tokenizer.ggml.add_bos_token");
  vocab.add_eos = file.get_bool("tokenizer.ggml.add_eos_token");
  vocab.add_space_prefix = file.get_bool("tokenizer.ggml.add_space_prefix");
  return vocab;
}

}  // namespace strata::text
