// What the two encoders share: the symbols a piece starts from differ, what becomes of them does
// not.
#pragma once

#include "src/text/token_index.hpp"
#include "strata/text/vocab.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace strata::text {

// The tokens that merging can give. Only ordinary ones: the text of a control token must not turn
// into it by way of merges. `pieces` must outlive the index and stay where they are.
[[nodiscard]] TokenIndex index_of_normal_tokens(const Vocab& vocab, const Pieces& pieces);

// The tokens whose text merges into the token itself, as far as they have been met. Most words of a
// text are such tokens and need no merging again. Relaxed atomics suffice: a thread that misses
// another's find makes its own.
class WholeTokens {
 public:
  explicit WholeTokens(std::size_t tokens) : known_(new std::atomic<bool>[tokens]()) {}
  [[nodiscard]] bool knows(std::int32_t id) const noexcept {
    return known_[static_cast<std::size_t>(id)].load(std::memory_order_relaxed);
  }
  void learn(std::int32_t id) const noexcept {
    known_[static_cast<std::size_t>(id)].store(true, std::memory_order_relaxed);
  }

 private:
  std::unique_ptr<std::atomic<bool>[]> known_;
};

// The tokens of single bytes, for text that no other token covers.
class ByteTokens {
 public:
  explicit ByteTokens(std::optional<std::int32_t> unknown) : unknown_(unknown) { ids_.fill(-1); }
  void set(std::uint8_t byte, std::int32_t id) noexcept { ids_[byte] = id; }
  [[nodiscard]] std::int32_t get(std::uint8_t byte) const noexcept { return ids_[byte]; }

  // A byte without a token becomes the unknown token; Error(kInput) when there is none.
  void emit(std::string_view bytes, std::vector<std::int32_t>& ids) const;

 private:
  std::array<std::int32_t, 256> ids_;
  std::optional<std::int32_t> unknown_;
};

}  // namespace strata::text
