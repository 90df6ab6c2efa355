#include "src/text/grammar_vocab.hpp"

#include "src/text/grammar_utf8.hpp"
#include "strata/text/unicode.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace strata::text::grammar {
namespace {

// Longer tokens are never allowed: nothing writes them, and depths and counts have 16 bits.
constexpr std::size_t kLongestToken = std::numeric_limits<std::uint16_t>::max() - 1;

// How many characters, if all are plain.
std::optional<std::size_t> plain_length(std::string_view text) {
  std::size_t characters = 0;
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    if (next.status != Utf8Status::kValid || !plain_set().contains(next.code_point)) {
      return std::nullopt;
    }
    text.remove_prefix(next.size);
    ++characters;
  }
  return characters;
}

std::vector<std::int32_t> ids_where(std::span<const std::string> pieces, bool plain) {
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (!pieces[id].empty() && plain_length(pieces[id]).has_value() == plain) {
      ids.push_back(static_cast<std::int32_t>(id));
    }
  }
  return ids;
}

std::vector<std::string> without_odd_pieces(std::vector<std::string> pieces,
                                            const std::vector<std::int32_t>& ends) {
  for (const std::int32_t id : ends) pieces[static_cast<std::size_t>(id)].clear();
  for (std::string& piece : pieces) {
    if (piece.size() > kLongestToken) piece.clear();
  }
  return pieces;
}

std::vector<PlainTokens> plain_by_length(std::span<const std::string> pieces) {
  std::map<std::size_t, std::vector<std::size_t>> by_length;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].empty()) continue;
    if (const auto length = plain_length(pieces[id])) by_length[*length].push_back(id);
  }
  std::vector<PlainTokens> result;
  std::vector<std::uint64_t> bits((pieces.size() + 63) / 64);
  for (const auto& [length, ids] : by_length) {
    for (const std::size_t id : ids) bits[id / 64] |= std::uint64_t{1} << id % 64;
    result.push_back({length, bits});
  }
  return result;
}

}  // namespace

TokenTrie::TokenTrie(std::vector<std::int32_t> ids, std::span<const std::string> pieces) {
  const auto piece = [&](std::int32_t id) -> const std::string& {
    return pieces[static_cast<std::size_t>(id)];
  };
  std::sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
    return std::pair<const std::string&, std::int32_t>(piece(a), a) <
           std::pair<const std::string&, std::int32_t>(piece(b), b);
  });
  std::vector<std::uint32_t> path;  // the nodes of the last piece
  std::string_view last;
  const auto close = [&](std::size_t depth) {
    for (; path.size() > depth; path.pop_back()) {
      nodes[path.back()].end = static_cast<std::uint32_t>(nodes.size());
    }
  };
  for (const std::int32_t id : ids) {
    const std::string_view text = piece(id);
    const auto shared = std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first;
    close(static_cast<std::size_t>(shared - text.begin()));
    while (path.size() < text.size()) {
      const auto byte = static_cast<std::uint8_t>(text[path.size()]);
      path.push_back(static_cast<std::uint32_t>(nodes.size()));
      nodes.push_back({0, static_cast<std::uint32_t>(tokens.size()),
                       static_cast<std::uint16_t>(path.size()), byte});
    }
    tokens.push_back(id);
    last = text;
  }
  close(0);
  nodes.push_back({0, static_cast<std::uint32_t>(tokens.size()), 0, 0});
}

VocabIndex::VocabIndex(std::vector<std::string> texts, std::vector<std::int32_t> ends)
    : pieces(without_odd_pieces(std::move(texts), ends)),
      end_tokens(std::move(ends)),
      plain(ids_where(pieces, true), pieces),
      other(ids_where(pieces, false), pieces),
      plain_up_to(plain_by_length(pieces)) {
  for (const std::string& piece : pieces) longest = std::max(longest, piece.size());
}

}  // namespace strata::text::grammar
