#include "src/text/spm.hpp"

#include "strata/base/error.hpp"
#include "strata/text/unicode.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace strata::text {
namespace {

constexpr std::string_view kSpaceSymbol = "\xE2\x96\x81";  // U+2581

ByteTokens build_bytes(const Vocab& vocab, const Pieces& pieces) {
  ByteTokens bytes(vocab.unknown);
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.type(id) == TokenType::kByte) {
      bytes.set(static_cast<std::uint8_t>(pieces[id][0]), static_cast<std::int32_t>(id));
    }
  }
  return bytes;
}

std::vector<std::uint32_t> build_ranks(const Vocab& vocab) {
  std::vector<std::uint32_t> order(vocab.tokens.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return vocab.scores[a] > vocab.scores[b]; });
  std::vector<std::uint32_t> ranks(order.size());
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i != 0 && vocab.scores[order[i]] != vocab.scores[order[i - 1]])
      rank = static_cast<std::uint32_t>(i);
    ranks[order[i]] = rank;
  }
  return ranks;
}

bool starts_word(std::string_view text, std::size_t at) {
  return text[at] == ' ' && at != 0 && text[at - 1] != ' ';
}

bool only_lead(const Vocab& vocab, const Pieces& pieces) {
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    if (vocab.type(id) != TokenType::kNormal) continue;
    for (std::size_t at = 1; at < pieces[id].size(); ++at) {
      if (starts_word(pieces[id], at)) return false;
    }
  }
  return true;
}

}  // namespace

std::string spaces_restored(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const bool space = text.substr(at, kSpaceSymbol.size()) == kSpaceSymbol;
    result.push_back(space ? ' ' : text[at]);
    at += space ? kSpaceSymbol.size() : 1;
  }
  return result;
}

SpmEncoder::SpmEncoder(const Vocab& vocab, const Pieces& pieces, bool add_space_prefix)
    : add_space_prefix_(add_space_prefix),
      index_(index_of_normal_tokens(vocab, pieces)),
      bytes_(build_bytes(vocab, pieces)),
      ranks_(build_ranks(vocab)),
      spaces_only_lead_(only_lead(vocab, pieces)),
      whole_(vocab.tokens.size()) {}

void SpmEncoder::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  if (text.empty()) return;
  std::string changed;
  if (add_space_prefix_ || text.find(kSpaceSymbol) != std::string_view::npos) {
    if (add_space_prefix_) changed = " ";
    changed += spaces_restored(text);
    text = changed;
  }
  MergeScratch scratch;
  std::size_t begin = 0;
  for (std::size_t at = 1; spaces_only_lead_ && at < text.size(); ++at) {
    if (!starts_word(text, at)) continue;
    encode_word(text.substr(begin, at - begin), scratch, ids);
    begin = at;
  }
  encode_word(text.substr(begin), scratch, ids);
}

void SpmEncoder::encode_word(std::string_view word, MergeScratch& scratch,
                             std::vector<std::int32_t>& ids) const {
  const std::int32_t id = index_.find(word);
  if (id != TokenIndex::kMissing && whole_.knows(id)) {
    ids.push_back(id);
    return;
  }
  auto& symbols = scratch.symbols;
  symbols.clear();
  for (std::uint32_t at = 0; at < word.size();) {
    const Utf8Char next = decode_utf8(word.substr(at));
    const std::uint32_t size = next.status == Utf8Status::kValid ? next.size : 1;
    symbols.push_back({index_.find(word.substr(at, size)), at, size});
    at += size;
  }
  merge_symbols(scratch, [&](const Symbol& left, const Symbol& right) {
    const std::int32_t merged = index_.find(word.substr(left.begin, left.size + right.size));
    if (merged == TokenIndex::kMissing) return Merge{};
    return Merge{ranks_[static_cast<std::size_t>(merged)], merged};
  });
  if (id != TokenIndex::kMissing && symbols.size() == 1) whole_.learn(id);
  for (const Symbol& symbol : symbols) {
    if (symbol.id != TokenIndex::kMissing) {
      ids.push_back(symbol.id);
    } else {
      bytes_.emit(word.substr(symbol.begin, symbol.size), ids);
    }
  }
}

}  // namespace strata::text
