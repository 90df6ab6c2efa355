// Text to token ids and back to bytes, as the model file's metadata say.
//
// encode(): special tokens are cut out first; the text between them is brought to form C where the
// model's tokenizer does so, cut into pieces (strata/text/pretokenizer.hpp) and merged. Results
// equal Hugging Face tokenizers'; docs/tokenizer.md states the rules and the few deliberate
// differences.
//
// Thread-safety: all const members may be called from any number of threads at once.
#pragma once

#include "strata/text/vocab.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace strata::text {

struct TokenizerOptions {
  // Bring text to Unicode normalisation form C first; nullopt: as the pre-tokenizer's row says.
  // GGUF cannot say.
  std::optional<bool> nfc = std::nullopt;
};

struct EncodeOptions {
  // Recognise the texts of control tokens such as <|im_start|>. Only for text that the application
  // wrote itself: a user's text could forge a turn. Tokens of type user-defined are recognised
  // always.
  bool parse_special = false;
  std::optional<bool> add_bos = std::nullopt;  // as the file says
  std::optional<bool> add_eos = std::nullopt;
};

// A stretch of a longer text, for prompts that mix an application's template with users' words.
struct Segment {
  std::string_view text;
  bool parse_special;
};

class Tokenizer {
 public:
  // What is needed is copied: the file may be closed afterwards.
  // Error(kInput) as vocab_from_gguf says, for an unknown pre-tokenizer, and for merges that are
  // not merges.
  [[nodiscard]] static Tokenizer from_gguf(const gguf::File& file,
                                           const TokenizerOptions& options = {});
  explicit Tokenizer(const Vocab& vocab, const TokenizerOptions& options = {});
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Any bytes are accepted: each byte that is not part of well-formed UTF-8 becomes its single-byte
  // token. A BOS is not added in front of a text that already starts with one. Error(kUsage):
  // add_bos or add_eos asked for and the file has no such token, or a text of 2 GiB and more.
  // Error(kInput): a character that the vocabulary has neither a token, nor bytes, nor an unknown
  // token for.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 const EncodeOptions& options = {}) const;

  // The segments as one text, pieces run across their seams. The text of a control token is
  // recognised only where it lies wholly in neighbouring segments with parse_special.
  [[nodiscard]] std::vector<std::int32_t> encode(std::span<const Segment> segments,
                                                 std::optional<bool> add_bos = std::nullopt,
                                                 std::optional<bool> add_eos = std::nullopt) const;

  // The bytes a token stands for: not always whole characters. A control token's are its own text.
  // Valid while the Tokenizer lives. Error(kUsage) for an id outside the vocabulary, here and
  // below.
  [[nodiscard]] std::string_view piece(std::int32_t id) const;
  // The token of exactly this text, a special one before an ordinary one.
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view text) const;

  [[nodiscard]] bool is_control(std::int32_t id) const;  // type control or unknown
  // What a reader should see. False for control tokens, but for those that structure gpt-oss's
  // answers.
  [[nodiscard]] bool is_visible(std::int32_t id) const;
  // Generation stops after this token: eos, eot, eom, and the known end tokens by their text.
  [[nodiscard]] bool is_end(std::int32_t id) const;

  [[nodiscard]] std::optional<std::int32_t> bos() const noexcept;
  [[nodiscard]] std::optional<std::int32_t> eos() const noexcept;
  [[nodiscard]] bool adds_bos() const noexcept;  // when encode() is not told
  [[nodiscard]] bool adds_eos() const noexcept;
  // The first piece of a text carries a space that is not the text's (SentencePiece).
  [[nodiscard]] bool adds_space_prefix() const noexcept;
  [[nodiscard]] std::int32_t vocab_size() const noexcept;
  [[nodiscard]] std::string_view pre()
      const noexcept;  // the pre-tokenizer's name, "spm" for SentencePiece

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace strata::text
