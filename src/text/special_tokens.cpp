#include "src/text/special_tokens.hpp"

#include <algorithm>
#include <utility>

namespace strata::text {

SpecialTokens::SpecialTokens(std::vector<Entry> entries) : entries_(std::move(entries)) {
  // Of two tokens with one text the lower id stays.
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.text != b.text ? a.text < b.text : a.id < b.id;
  });
  entries_.erase(std::unique(entries_.begin(), entries_.end(),
                             [](const Entry& a, const Entry& b) { return a.text == b.text; }),
                 entries_.end());
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    Bucket& bucket = buckets_[static_cast<std::uint8_t>(entries_[i].text[0])];
    if (bucket.begin == bucket.end) bucket.begin = i;
    bucket.end = i + 1;
  }
}

const SpecialTokens::Entry* SpecialTokens::longest(std::string_view text,
                                                   std::size_t trusted) const {
  const Bucket bucket = buckets_[static_cast<std::uint8_t>(text[0])];
  auto low = entries_.begin() + bucket.begin;
  auto high = entries_.begin() + bucket.end;
  const Entry* best = nullptr;
  // Invariant: [low, high) are the entries that start with the first `depth` bytes of `text`; of
  // these the one that ends there sorts first.
  for (std::size_t depth = 1; low != high; ++depth) {
    if (low->text.size() == depth) {
      if (low->always || depth <= trusted) best = &*low;
      ++low;
    }
    if (depth == text.size()) break;
    const auto next = static_cast<std::uint8_t>(text[depth]);
    const auto byte_at = [depth](const Entry& entry) {
      return static_cast<std::uint8_t>(entry.text[depth]);
    };
    low = std::lower_bound(low, high, next,
                           [&](const Entry& entry, std::uint8_t b) { return byte_at(entry) < b; });
    high = std::upper_bound(low, high, next,
                            [&](std::uint8_t b, const Entry& entry) { return b < byte_at(entry); });
  }
  return best;
}

std::vector<SpecialTokens::Found> SpecialTokens::find_all(
    std::string_view text, std::span<const ByteRange> trusted) const {
  std::vector<Found> found;
  std::size_t range = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Bucket bucket = buckets_[static_cast<std::uint8_t>(text[at])];
    if (bucket.begin == bucket.end) {
      ++at;
      continue;
    }
    while (range < trusted.size() && trusted[range].end <= at) ++range;
    const bool inside = range < trusted.size() && trusted[range].begin <= at;
    const Entry* entry = longest(text.substr(at), inside ? trusted[range].end - at : 0);
    if (entry == nullptr) {
      ++at;
      continue;
    }
    found.push_back({at, entry->text.size(), entry->id});
    at += entry->text.size();
  }
  return found;
}

std::optional<std::int32_t> SpecialTokens::find(std::string_view text) const {
  const auto at = std::lower_bound(
      entries_.begin(), entries_.end(), text,
      [](const Entry& entry, std::string_view value) { return entry.text < value; });
  if (at == entries_.end() || at->text != text) return std::nullopt;
  return at->id;
}

}  // namespace strata::text
