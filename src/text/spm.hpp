// SentencePiece's BPE ("llama" models): characters merge by score, and what has no token falls back
// to bytes.
#pragma once

#include "src/text/merge.hpp"
#include "src/text/piece_coder.hpp"
#include "strata/text/vocab.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace strata::text {

// SentencePiece writes a space as U+2581. Here texts and pieces have the space itself.
[[nodiscard]] std::string spaces_restored(std::string_view text);

class SpmEncoder {
 public:
  // `pieces`, spaces restored, must outlive the encoder and stay where they are.
  SpmEncoder(const Vocab& vocab, const Pieces& pieces, bool add_space_prefix);

  // Appends the ids of `text`, any bytes without special tokens. Empty text gives nothing.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;
  [[nodiscard]] std::int32_t find(std::string_view text) const noexcept {
    return index_.find(text);
  }

 private:
  void encode_word(std::string_view word, MergeScratch& scratch,
                   std::vector<std::int32_t>& ids) const;

  bool add_space_prefix_;
  TokenIndex index_;
  ByteTokens bytes_;
  std::vector<std::uint32_t>
      ranks_;  // by id: position in the order of falling scores, equal scores alike
  // No token has a space after something else: merges never cross the start of a word, so words
  // merge one by one.
  bool spaces_only_lead_;
  WholeTokens whole_;
};

}  // namespace strata::text
