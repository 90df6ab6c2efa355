#include "src/text/grammar_mask.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace strata::text::grammar {
namespace {

constexpr std::size_t kLargestCache = std::size_t{32} << 20;  // bytes, of one grammar's masks
constexpr std::uint64_t kBottomPart = ~std::uint64_t{0};

// Forgets at its end the frames that were added since its beginning.
class TemporaryFrames {
 public:
  explicit TemporaryFrames(Frames& frames) : frames_(frames), size_(frames.size()) {}
  ~TemporaryFrames() { frames_.truncate(size_); }
  TemporaryFrames(const TemporaryFrames&) = delete;
  TemporaryFrames& operator=(const TemporaryFrames&) = delete;

 private:
  Frames& frames_;
  std::size_t size_;
};

class Walk {
 public:
  Walk(Parser& parser, const VocabIndex& vocab)
      : parser_(parser),
        vocab_(vocab),
        levels_(vocab.longest + 1),
        rows_(std::make_unique_for_overwrite<Row[]>(kRows)),
        bits_((vocab.pieces.size() + 63) / 64) {
    for (std::size_t i = 0; i < kRows; ++i) rows_[i].node = kNowhere;
  }

  TokenSet run(const Place& place) {
    parser_.work = 0;
    if (!plain_by_length(place)) over(vocab_.plain, place);
    over(vocab_.other, place);
    return TokenSet(std::move(bits_));
  }

 private:
  // Takes the plain tokens whose length alone says that they may follow. True: the others may not.
  bool plain_by_length(const Place& place) {
    const Grammar& grammar = parser_.grammar();
    const Grammar::PlainRun run = grammar.nodes[place.node].plain_run;
    if (run == Grammar::PlainRun::kNone) return false;
    const std::uint32_t max = grammar.rule_of(place.node).max;
    const bool endless = run == Grammar::PlainRun::kForever || max == Grammar::kEndless;
    const std::size_t most = endless ? std::numeric_limits<std::size_t>::max() : max - place.count;
    const auto longer = std::upper_bound(
        vocab_.plain_up_to.begin(), vocab_.plain_up_to.end(), most,
        [](std::size_t length, const PlainTokens& tokens) { return length < tokens.characters; });
    if (longer != vocab_.plain_up_to.begin()) bits_ = std::prev(longer)->bits;
    return longer == vocab_.plain_up_to.end() || !plain_goes_on_after(place);
  }

  // Whether a plain token can begin where the counted rule around `place` ends.
  bool plain_goes_on_after(const Place& place) {
    const TemporaryFrames temporary(parser_.frames());
    parser_.lowest = std::min(parser_.lowest, parser_.frames().height(place.parent));
    if (place.parent == kBottom) return false;
    const Place next = parser_.frames().at(place.parent);
    const auto& nodes = vocab_.plain.nodes;
    for (std::size_t i = 0; i < vocab_.plain.size(); i = nodes[i].end) {
      parser_.step({&next, 1}, nodes[i].byte, levels_[1].places);
      if (!levels_[1].places.empty()) return true;
    }
    return false;
  }

  void over(const TokenTrie& trie, const Place& place) {
    const TemporaryFrames temporary(parser_.frames());
    const std::size_t limit = parser_.grammar().limits.max_mask_steps;
    levels_[0].places.assign(1, place);
    settle(levels_[0]);
    for (std::size_t i = 0; i < trie.size();) {
      const TokenTrie::Node& node = trie.nodes[i];
      if (!step(levels_[node.depth - 1U], node.byte, levels_[node.depth])) {
        i = node.end;
        continue;
      }
      for (const std::int32_t token : trie.tokens_of(i)) {
        const auto id = static_cast<std::size_t>(token);
        bits_[id / 64] |= std::uint64_t{1} << id % 64;
      }
      ++i;
      if (parser_.work > limit) {
        fail(ErrorKind::kUsage,
             "the grammar is too ambiguous: more than {} steps to find the next tokens "
             "(max_mask_steps)",
             limit);
      }
    }
  }

  // Where a text of so many bytes leads.
  struct Level {
    bool single = false;  // to `place` only, and its node only reads: nearly always
    Place place;
    std::vector<Place> places;  // otherwise
    std::size_t frames = 0;     // that there are then
  };

  // False: nowhere.
  bool step(const Level& from, std::uint8_t byte, Level& to) {
    if (from.single) {
      ++parser_.work;
      const std::uint32_t target = row(from.place.node).to[byte];
      if (target == kNowhere) return false;
      if ((target & kNotSingle) == 0) {
        to.single = true;
        to.place = {target, from.place.count, from.place.parent};
        to.frames = from.frames;
        return true;
      }
    }
    parser_.frames().truncate(from.frames);
    if (from.single) {
      parser_.step({&from.place, 1}, byte, to.places);
    } else {
      parser_.step(from.places, byte, to.places);
    }
    if (to.places.empty()) return false;
    settle(to);
    return true;
  }

  void settle(Level& level) {
    level.frames = parser_.frames().size();
    level.single =
        level.places.size() == 1 && parser_.grammar().nodes[level.places[0].node].reads_only;
    if (level.single) level.place = level.places[0];
  }

  // Where each byte leads from a node that only reads.
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};
  static constexpr std::uint32_t kNotSingle = std::uint32_t{1} << 31;  // not to such a node
  static constexpr std::size_t kRows = 32;
  struct Row {
    std::uint32_t node;
    std::array<std::uint32_t, 256> to;
  };
  const Row& row(Grammar::Id node) {
    Row& row = rows_[node % kRows];
    if (row.node == node) return row;
    const Grammar& grammar = parser_.grammar();
    row.node = node;
    row.to.fill(kNowhere);
    for (const Grammar::ByteEdge& edge : grammar.bytes_of(node)) {
      const std::uint32_t target =
          grammar.nodes[edge.to].reads_only ? edge.to : edge.to | kNotSingle;
      std::fill(row.to.begin() + edge.first, row.to.begin() + edge.last + 1, target);
    }
    return row;
  }

  Parser& parser_;
  const VocabIndex& vocab_;
  std::vector<Level> levels_;
  std::unique_ptr<Row[]> rows_;  // the last ones used
  std::vector<std::uint64_t> bits_;
};

}  // namespace

TokenSet::TokenSet(std::vector<std::uint64_t> bits) {
  std::size_t count = 0;
  for (const std::uint64_t word : bits) count += static_cast<std::size_t>(std::popcount(word));
  if (count > bits.size()) {
    bits_ = std::move(bits);
    return;
  }
  ids_.reserve(count);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    for (std::uint64_t word = bits[i]; word != 0; word &= word - 1) {
      ids_.push_back(static_cast<std::uint32_t>(64 * i) +
                     static_cast<std::uint32_t>(std::countr_zero(word)));
    }
  }
}

void TokenSet::add_to(std::span<std::uint64_t> mask) const noexcept {
  for (std::size_t i = 0; i < bits_.size(); ++i) mask[i] |= bits_[i];
  for (const std::uint32_t id : ids_) mask[id / 64] |= std::uint64_t{1} << id % 64;
}

std::size_t TokenSet::bytes() const noexcept {
  return sizeof(TokenSet) + 8 * bits_.capacity() + 4 * ids_.capacity();
}

std::size_t MaskCache::KeyHash::operator()(const Key& key) const noexcept {
  std::uint64_t hash = key.size();
  for (const std::uint64_t part : key) {
    hash = (hash ^ part) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
  }
  return hash;
}

// Counts matter only as far as one token can reach: how many repetitions are still needed, and how
// many there may be.
std::uint64_t MaskCache::part(const Grammar& grammar, const Place& place) const noexcept {
  const Grammar::Rule& rule = grammar.rule_of(place.node);
  std::uint64_t needed = 0;
  std::uint64_t left = 0;
  if (rule.counted) {
    needed = std::min<std::uint64_t>(rule.min - std::min(rule.min, place.count), longest_token_);
    left = std::min<std::uint64_t>(rule.max - std::min(rule.max, place.count), longest_token_);
    if (place.count == 0) needed = left = longest_token_ + 1;  // cannot be left yet
  }
  return std::uint64_t{place.node} << 32 | needed << 16 | left;
}

std::shared_ptr<const TokenSet> MaskCache::find(Parser& parser, const Place& place) const {
  const std::lock_guard lock(mutex_);
  Key key = {part(parser.grammar(), place)};
  for (FrameId frame = place.parent;; frame = parser.frames().at(frame).parent) {
    const auto found = masks_.find(key);
    if (found == masks_.end() || found->second != nullptr) {
      return found == masks_.end() ? nullptr : found->second;
    }
    if (frame == kBottom) {
      key.push_back(kBottomPart);
      const auto last = masks_.find(key);
      return last == masks_.end() ? nullptr : last->second;
    }
    key.push_back(part(parser.grammar(), parser.frames().at(frame)));
  }
}

void MaskCache::insert(Parser& parser, const Place& place, std::uint32_t lowest,
                       const std::shared_ptr<const TokenSet>& mask) {
  const std::lock_guard lock(mutex_);
  if (bytes_ > kLargestCache) {
    masks_.clear();
    bytes_ = 0;
  }
  Key key = {part(parser.grammar(), place)};
  FrameId frame = place.parent;
  // Frames from the parent's height down to `lowest` were looked at.
  while (parser.frames().height(frame) >= lowest) {
    masks_.try_emplace(key, nullptr);
    bytes_ += 64 + 8 * key.size();
    if (frame == kBottom) {
      key.push_back(kBottomPart);
      break;
    }
    key.push_back(part(parser.grammar(), parser.frames().at(frame)));
    frame = parser.frames().at(frame).parent;
  }
  bytes_ += 64 + 8 * key.size() + mask->bytes();
  masks_.insert_or_assign(std::move(key), mask);
}

std::shared_ptr<const TokenSet> allowed_at(Parser& parser, const Place& place,
                                           const VocabIndex& vocab, MaskCache& cache) {
  if (auto known = cache.find(parser, place)) return known;
  parser.lowest = std::numeric_limits<std::uint32_t>::max();
  auto mask = std::make_shared<const TokenSet>(Walk(parser, vocab).run(place));
  cache.insert(parser, place, parser.lowest, mask);
  return mask;
}

}  // namespace strata::text::grammar
