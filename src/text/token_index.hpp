// The two hash tables of the tokenizer: token texts to ids, and pairs of symbols to what they merge
// into. Open addressing with linear probing over flat arrays; built once, then only read.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text {

// The bytes every token stands for, one after the other in one allocation.
class Pieces {
 public:
  void push_back(std::string_view piece) {
    bytes_ += piece;
    ends_.push_back(bytes_.size());
  }
  [[nodiscard]] std::string_view operator[](std::size_t id) const noexcept {
    const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(bytes_).substr(begin, ends_[id] - begin);
  }
  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// Not keyed against chosen collisions: the entries come from the model file, texts only look them
// up.
inline std::uint64_t hash_bytes(std::string_view text) noexcept {
  constexpr std::uint64_t kA = 0x9E3779B97F4A7C15U, kB = 0xD6E8FEB86659FD93U;
  std::uint64_t hash = kA ^ text.size();
  const char* data = text.data();
  std::size_t left = text.size();
  for (; left >= 8; left -= 8, data += 8) {
    std::uint64_t word;
    std::memcpy(&word, data, 8);
    hash = mix(hash ^ word, kB);
  }
  std::uint64_t tail = 0;
  if (left != 0) std::memcpy(&tail, data, left);
  return mix(hash ^ tail, kB ^ kA);
}

// Slots for `entries` at a load of at most one half.
inline std::size_t slots_for(std::size_t entries) noexcept {
  std::size_t slots = 16;
  while (slots < entries * 2) slots *= 2;
  return slots;
}

class TokenIndex {
 public:
  static constexpr std::int32_t kMissing = -1;

  TokenIndex() = default;
  // `pieces` must outlive the index and stay where it is.
  TokenIndex(const Pieces& pieces, std::size_t expected)
      : pieces_(&pieces), slots_(slots_for(expected)) {}

  // Of two tokens with the same text the first inserted stays. At most `expected` insertions.
  void insert(std::int32_t id) {
    const std::string_view text = (*pieces_)[static_cast<std::size_t>(id)];
    Slot& slot = slots_[locate(text)];
    if (slot.id == kMissing) slot = {static_cast<std::uint32_t>(hash_bytes(text)), id};
    longest_ = text.size() > longest_ ? text.size() : longest_;
  }
  [[nodiscard]] std::int32_t find(std::string_view text) const noexcept {
    return text.size() > longest_ ? kMissing : slots_[locate(text)].id;
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::int32_t id = kMissing;
  };

  [[nodiscard]] std::size_t locate(std::string_view text) const noexcept {
    const std::uint64_t hash = hash_bytes(text);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = (hash >> 32) & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.id == kMissing) return at;
      if (slot.hash == static_cast<std::uint32_t>(hash) &&
          (*pieces_)[static_cast<std::size_t>(slot.id)] == text) {
        return at;
      }
    }
  }

  const Pieces* pieces_ = nullptr;
  std::vector<Slot> slots_ = std::vector<Slot>(1);
  std::size_t longest_ = 0;
};

struct Merge {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t rank = kNone;  // lower merges first
  std::int32_t id = 0;         // of the merged symbol
};

class MergeTable {
 public:
  explicit MergeTable(std::size_t expected) : slots_(slots_for(expected)) {}

  // The first entry for a pair stays. At most `expected` insertions.
  void insert(std::int32_t left, std::int32_t right, Merge merge) {
    Slot& slot = slots_[locate(key_of(left, right))];
    if (slot.merge.rank == Merge::kNone) slot = {key_of(left, right), merge};
  }
  [[nodiscard]] Merge find(std::int32_t left, std::int32_t right) const noexcept {
    return slots_[locate(key_of(left, right))].merge;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;
  };

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t locate(std::uint64_t key) const noexcept {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = mix(key ^ 0x9E3779B97F4A7C15U, 0xD6E8FEB86659FD93U) & mask;;
         at = (at + 1) & mask) {
      if (slots_[at].merge.rank == Merge::kNone || slots_[at].key == key) return at;
    }
  }

  std::vector<Slot> slots_;
};

}  // namespace strata::text
