// A tokenizer's vocabulary as GGUF metadata describe it: plain data, filled from a file or by hand.
// Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md ("tokenizer.ggml.*").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::gguf {
class File;
}

namespace strata::text {

enum class VocabModel : std::uint8_t {
  kBpe,  // "gpt2": byte-level byte-pair encoding, texts in GPT-2's byte alphabet
  kSpm,  // "llama": SentencePiece BPE with scores and byte fallback, spaces as U+2581
};

// Values as stored in tokenizer.ggml.token_type.
enum class TokenType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct Vocab {
  VocabModel model = VocabModel::kBpe;
  std::string pre;                  // name of the pre-tokenizer; not used by kSpm
  std::vector<std::string> tokens;  // as stored; the index is the id
  std::vector<TokenType> types;     // one a token, or empty: all are normal
  std::vector<std::string> merges;  // kBpe: "left right", best first
  std::vector<float> scores;        // kSpm: one a token, higher merges first

  std::optional<std::int32_t> bos, eos, eot, eom, unknown;
  std::vector<std::int32_t> fim_ends;  // fill-in-the-middle pad, repository and file separators
  std::optional<bool> add_bos, add_eos, add_space_prefix;

  [[nodiscard]] TokenType type(std::size_t id) const {
    return types.empty() ? TokenType::kNormal : types[id];
  }
};

// Copies the tokenizer out of `file`. Error(kInput), naming the key, when it is missing, of another
// model than "gpt2" or "llama", or inconsistent: array lengths that differ, an id outside the
// vocabulary, an unknown type.
[[nodiscard]] Vocab vocab_from_gguf(const gguf::File& file);

}  // namespace strata::text
