#include "src/text/bpe.hpp"

#include "src/text/byte_alphabet.hpp"
#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"

#include <string>
#include <unordered_map>

namespace strata::text {
namespace {

ByteTokens build_bytes(const Vocab& vocab, const TokenIndex& index) {
  ByteTokens bytes(vocab.unknown);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    bytes.set(static_cast<std::uint8_t>(byte), index.find({&text, 1}));
  }
  return bytes;
}

std::array<std::int32_t, 256> build_byte_symbols(const ByteTokens& bytes,
                                                 std::int32_t token_count) {
  std::array<std::int32_t, 256> symbols;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::int32_t id = bytes.get(static_cast<std::uint8_t>(byte));
    symbols[byte] = id >= 0 ? id : token_count + static_cast<std::int32_t>(byte);
  }
  return symbols;
}

struct Pair {
  std::string left, right;
};

Pair parse_merge(const Vocab& vocab, std::size_t rank) {
  const std::string_view text = vocab.merges[rank];
  const std::size_t space = text.find(' ', 1);
  if (space != std::string_view::npos) {
    auto left = bytes_of_alphabet(text.substr(0, space));
    auto right = bytes_of_alphabet(text.substr(space + 1));
    if (left && right && !left->empty() && !right->empty())
      return {std::move(*left), std::move(*right)};
  }
  fail(ErrorKind::kInput,
       "tokenizer.ggml.merges[{}] is '{}'; expected two texts in the byte alphabet with a space "
       "between",
       rank, text);
}

}  // namespace

BpeEncoder::BpeEncoder(const Vocab& vocab, const Pieces& pieces, const PreTokenizerRow& row,
                       bool nfc)
    : pretokenizer_(row.patterns),
      ignore_merges_(row.ignore_merges),
      nfc_(nfc),
      token_count_(static_cast<std::int32_t>(vocab.tokens.size())),
      index_(index_of_normal_tokens(vocab, pieces)),
      bytes_(build_bytes(vocab, index_)),
      byte_symbols_(build_byte_symbols(bytes_, token_count_)),
      merges_(build_merges(vocab, index_, byte_symbols_, token_count_ + 256)),
      whole_(vocab.tokens.size()) {}

MergeTable BpeEncoder::build_merges(const Vocab& vocab, const TokenIndex& index,
                                    const std::array<std::int32_t, 256>& byte_symbols,
                                    std::int32_t first_extra) {
  MergeTable table(vocab.merges.size());
  std::unordered_map<std::string, std::int32_t> extras;
  const auto symbol = [&](const std::string& text) {
    if (text.size() == 1) return byte_symbols[static_cast<std::uint8_t>(text[0])];
    if (const std::int32_t id = index.find(text); id != TokenIndex::kMissing) return id;
    return extras.try_emplace(text, first_extra + static_cast<std::int32_t>(extras.size()))
        .first->second;
  };
  for (std::size_t rank = 0; rank < vocab.merges.size(); ++rank) {
    const Pair pair = parse_merge(vocab, rank);
    table.insert(symbol(pair.left), symbol(pair.right),
                 {static_cast<std::uint32_t>(rank), symbol(pair.left + pair.right)});
  }
  return table;
}

void BpeEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  MergeScratch scratch;
  while (!text.empty()) {
    const std::size_t valid = valid_utf8_prefix(text);
    if (valid != 0) encode_valid(text.substr(0, valid), scratch, ids);
    text.remove_prefix(valid);
    if (!text.empty()) {
      bytes_.emit(text.substr(0, 1), ids);
      text.remove_prefix(1);
    }
  }
}

void BpeEncoder::encode_valid(std::string_view text, MergeScratch& scratch,
                              std::vector<std::int32_t>& ids) const {
  std::string normal;
  if (nfc_ && may_need_nfc(text)) {
    normal = to_nfc(text);
    text = normal;
  }
  pretokenizer_.split(text, [&](std::string_view piece) { encode_piece(piece, scratch, ids); });
}

void BpeEncoder::encode_piece(std::string_view piece, MergeScratch& scratch,
                              std::vector<std::int32_t>& ids) const {
  const std::int32_t id = index_.find(piece);
  if (id != TokenIndex::kMissing && (ignore_merges_ || whole_.knows(id))) {
    ids.push_back(id);
    return;
  }
  merge_piece(piece, scratch);
  if (id != TokenIndex::kMissing && scratch.symbols.size() == 1) whole_.learn(id);
  for (const Symbol& symbol : scratch.symbols) {
    if (symbol.id < token_count_) {
      ids.push_back(symbol.id);
    } else {
      bytes_.emit(piece.substr(symbol.begin, symbol.size), ids);
    }
  }
}

void BpeEncoder::merge_piece(std::string_view piece, MergeScratch& scratch) const {
  scratch.symbols.clear();
  for (std::uint32_t i = 0; i < piece.size(); ++i) {
    scratch.symbols.push_back({byte_symbols_[static_cast<std::uint8_t>(piece[i])], i, 1});
  }
  merge_symbols(scratch, [this](const Symbol& left, const Symbol& right) {
    return merges_.find(left.id, right.id);
  });
}

}  // namespace strata::text
