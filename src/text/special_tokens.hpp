// Finds the texts of special tokens in a text, leftmost first and of those the longest, as Hugging
// Face tokenizers do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

struct ByteRange {
  std::size_t begin, end;
};

class SpecialTokens {
 public:
  struct Entry {
    std::string text;  // not empty
    std::int32_t id;
    bool always;  // also outside trusted ranges
  };
  struct Found {
    std::size_t begin, size;
    std::int32_t id;
  };

  explicit SpecialTokens(std::vector<Entry> entries);

  // `trusted` ranges are in order and do not touch each other. Time: O(text * longest special
  // token) at worst; a byte that starts none costs one look at a table.
  [[nodiscard]] std::vector<Found> find_all(std::string_view text,
                                            std::span<const ByteRange> trusted) const;
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view text) const;

 private:
  // The longest entry at the front of `text` that is `always` or at most `trusted` bytes long.
  [[nodiscard]] const Entry* longest(std::string_view text, std::size_t trusted) const;

  std::vector<Entry> entries_;  // sorted by text
  struct Bucket {
    std::uint32_t begin = 0, end = 0;
  };
  std::array<Bucket, 256> buckets_;  // the entries of each first byte
};

}  // namespace strata::text
