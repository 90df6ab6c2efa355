// Byte-level byte-pair encoding ("gpt2" models).
#pragma once

#include "src/text/merge.hpp"
#include "src/text/piece_coder.hpp"
#include "strata/text/pretokenizer.hpp"
#include "strata/text/vocab.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace strata::text {

class BpeEncoder {
 public:
  // `pieces` must outlive the encoder and stay where it is.
  BpeEncoder(const Vocab& vocab, const Pieces& pieces, const PreTokenizerRow& row, bool nfc);

  // Appends the ids of `text`, any bytes without special tokens.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;
  // The ordinary token of this text, or TokenIndex::kMissing.
  [[nodiscard]] std::int32_t find(std::string_view text) const noexcept {
    return index_.find(text);
  }

 private:
  static MergeTable build_merges(const Vocab& vocab, const TokenIndex& index,
                                 const std::array<std::int32_t, 256>& byte_symbols,
                                 std::int32_t first_extra);
  void encode_valid(std::string_view text, MergeScratch& scratch,
                    std::vector<std::int32_t>& ids) const;
  void encode_piece(std::string_view piece, MergeScratch& scratch,
                    std::vector<std::int32_t>& ids) const;
  void merge_piece(std::string_view piece, MergeScratch& scratch) const;

  PreTokenizer pretokenizer_;
  bool ignore_merges_;
  bool nfc_;
  std::int32_t token_count_;
  TokenIndex index_;
  ByteTokens bytes_;
  // What a piece starts from. A byte without a token of its own has an id past the vocabulary, as
  // have texts that only occur on the way to a token: they merge like tokens and fall back to bytes
  // when they remain.
  std::array<std::int32_t, 256> byte_symbols_;
  MergeTable merges_;
  WholeTokens whole_;
};

}  // namespace strata::text
