// Pre-tokenizers: how a byte-level BPE vocabulary cuts text into pieces that merges never cross.
//
// A pre-tokenizer is a row of a table: names as tokenizer.ggml.pre spells them, regular expressions
// as the model's own tokenizer.json has them, and the flags that go with the name. Supporting
// another one means adding a row. Expressions run through PCRE2 with Unicode properties, compiled
// to machine code where the system allows it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace strata::text {

struct PreTokenizerRow {
  std::span<const std::string_view> names;
  // Applied in turn: each cuts every piece of the one before into its matches and the text between
  // them.
  std::span<const std::string_view> patterns;
  bool ignore_merges =
      false;  // a piece that is a token as a whole is that token, whatever the merges say
  bool add_bos = false;  // when the file does not say
  bool nfc = false;      // text is brought to Unicode normalisation form C first
};

// All rows; for messages, documentation and tests.
[[nodiscard]] std::span<const PreTokenizerRow> pretokenizer_rows() noexcept;

// The row of that name. Error(kInput), listing every known name, when there is none.
[[nodiscard]] const PreTokenizerRow& find_pretokenizer(std::string_view name);

// The compiled expressions of a row. Immutable: any number of threads may split at once.
class PreTokenizer {
 public:
  explicit PreTokenizer(std::span<const std::string_view> patterns);
  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  // Calls piece(std::string_view) for the pieces of `text` from left to right; together they are
  // `text`. `text` must be well-formed UTF-8. Time is linear in its length for every row of the
  // table.
  template <class Piece>
  void split(std::string_view text, Piece&& piece) const {
    run(
        text, [](void* object, std::string_view found) { (*static_cast<Piece*>(object))(found); },
        &piece);
  }

 private:
  using Sink = void (*)(void* object, std::string_view piece);
  void run(std::string_view text, Sink sink, void* object) const;

  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace strata::text
