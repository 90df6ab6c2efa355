// A vocabulary as it is walked with a grammar: tries of the tokens' bytes.
#pragma once

#include "strata/text/grammar_matcher.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text::grammar {

// Nodes in the order of a walk that goes down first. The root is left out.
struct TokenTrie {
  struct Node {
    std::uint32_t end;          // the first node after this one's subtree
    std::uint32_t first_token;  // tokens that end here, up to those of the next node
    std::uint16_t depth;        // bytes so far, at least 1
    std::uint8_t byte;          // the last of them
  };
  std::vector<Node> nodes;  // and one more, where the last one's tokens end
  std::vector<std::int32_t> tokens;

  // `ids` need not be in order. Pieces are not empty.
  TokenTrie(std::vector<std::int32_t> ids, std::span<const std::string> pieces);
  [[nodiscard]] std::size_t size() const noexcept { return nodes.size() - 1; }
  [[nodiscard]] std::span<const std::int32_t> tokens_of(std::size_t node) const noexcept {
    return {tokens.data() + nodes[node].first_token, tokens.data() + nodes[node + 1].first_token};
  }
};

// The plain tokens of at most this many characters.
struct PlainTokens {
  std::size_t characters;
  std::vector<std::uint64_t> bits;  // one a token of the vocabulary
};

struct VocabIndex {
  VocabIndex(std::vector<std::string> texts, std::vector<std::int32_t> ends);

  std::vector<std::string> pieces;  // empty: never allowed
  std::vector<std::int32_t> end_tokens;
  std::size_t longest = 0;  // bytes
  // Plain tokens are of whole characters that a JSON string holds as they are. Inside of a string
  // their length decides, so there they are not walked.
  TokenTrie plain;
  TokenTrie other;
  std::vector<PlainTokens> plain_up_to;  // one for each length that occurs, ascending
};

}  // namespace strata::text::grammar
