// Finds the tokens that may come next at one place, and remembers them.
#pragma once

#include "src/text/grammar_parser.hpp"
#include "src/text/grammar_vocab.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace strata::text::grammar {

// Tokens as bits, or as a list where they are few.
class TokenSet {
 public:
  explicit TokenSet(std::vector<std::uint64_t> bits);
  void add_to(std::span<std::uint64_t> mask) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return bits_.empty() && ids_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  std::vector<std::uint64_t> bits_;
  std::vector<std::uint32_t> ids_;
};

// Which tokens may come next depends on the node a reading stands at and on as many of the frames
// below as some token can see. The key of a mask is just that: the node, then frames downwards.
// Thread-safe.
class MaskCache {
 public:
  explicit MaskCache(std::size_t longest_token) : longest_token_(longest_token) {}

  // Null: not known.
  [[nodiscard]] std::shared_ptr<const TokenSet> find(Parser& parser, const Place& place) const;
  // `lowest`: the height of the lowest frame that was looked at to find the mask.
  void insert(Parser& parser, const Place& place, std::uint32_t lowest,
              const std::shared_ptr<const TokenSet>& mask);

 private:
  using Key = std::vector<std::uint64_t>;
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  [[nodiscard]] std::uint64_t part(const Grammar& grammar, const Place& place) const noexcept;

  std::size_t longest_token_;
  mutable std::mutex mutex_;
  // Null: there are masks for keys that go on from this one.
  std::unordered_map<Key, std::shared_ptr<const TokenSet>, KeyHash> masks_;
  std::size_t bytes_ = 0;
};

// The tokens that may follow at `place`. Error(kUsage) for max_mask_steps and max_parses.
[[nodiscard]] std::shared_ptr<const TokenSet> allowed_at(Parser& parser, const Place& place,
                                                         const VocabIndex& vocab, MaskCache& cache);

}  // namespace strata::text::grammar
