#include "src/text/piece_coder.hpp"

#include "strata/base/error.hpp"

namespace strata::text {

TokenIndex index_of_normal_tokens(const Vocab& vocab, const Pieces& pieces) {
  TokenIndex index(pieces, vocab.tokens.size());
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.type(id) == TokenType::kNormal && !pieces[id].empty()) {
      index.insert(static_cast<std::int32_t>(id));
    }
  }
  return index;
}

void ByteTokens::emit(std::string_view bytes, std::vector<std::int32_t>& ids) const {
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    const std::int32_t id = ids_[byte] >= 0 ? ids_[byte] : unknown_.value_or(-1);
    if (id < 0) {
      fail(ErrorKind::kInput, "the vocabulary has no token for byte 0x{:02X} and no unknown token",
           byte);
    }
    ids.push_back(id);
  }
}

}  // namespace strata::text
