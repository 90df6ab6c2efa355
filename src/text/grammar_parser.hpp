// Follows all readings of a text through a grammar, byte by byte.
//
// A reading is a stack: the node it stands at, and for every rule it is inside of the node to go on
// at when that rule ends. Stacks share their lower parts, and equal ones are one.
#pragma once

#include "src/text/grammar_rules.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace strata::text::grammar {

using FrameId = std::uint32_t;
inline constexpr FrameId kBottom = 0;  // below the root

struct Place {
  Grammar::Id node;
  std::uint32_t count;  // how often the rule around `node` was repeated, if it is a counted one
  FrameId parent;       // where to go on when that rule ends
  bool operator==(const Place&) const = default;
};

// The frames of all stacks, each kept once. The last ones added can be taken back.
class Frames {
 public:
  Frames() { clear(); }
  [[nodiscard]] FrameId push(const Place& place);
  [[nodiscard]] const Place& at(FrameId id) const noexcept { return frames_[id].place; }
  // How many frames stand on top of one another down to kBottom, whose height is 0.
  [[nodiscard]] std::uint32_t height(FrameId id) const noexcept { return frames_[id].height; }
  [[nodiscard]] std::size_t size() const noexcept { return frames_.size(); }
  void truncate(std::size_t size) noexcept;
  void clear();

 private:
  struct Frame {
    Place place;
    std::uint32_t height;
  };
  [[nodiscard]] std::size_t slot_of(const Place& place) const noexcept;
  void grow();

  std::vector<Frame> frames_;
  std::vector<FrameId> table_;  // open addressing; kBottom marks a free slot
};

class Parser {
 public:
  explicit Parser(std::shared_ptr<const Grammar> grammar);

  // One reading for each; none: the text cannot go on.
  [[nodiscard]] const std::vector<Place>& places() const noexcept { return places_; }
  // Reads on. False, and nothing changes, where no reading can. Error(kUsage) for max_depth and
  // max_parses; nothing changes then either.
  [[nodiscard]] bool read(std::string_view bytes);
  [[nodiscard]] bool is_complete() const;

  // For trying bytes from one place without reading them. `to` gets the places after `byte`.
  // Error(kUsage) for max_parses.
  void step(std::span<const Place> from, std::uint8_t byte, std::vector<Place>& to);
  [[nodiscard]] const Grammar& grammar() const noexcept { return *grammar_; }
  [[nodiscard]] Frames& frames() noexcept { return frames_; }
  // Steps add to `work`, and lower `lowest` to the height of the lowest frame they look at.
  std::size_t work = 0;
  std::uint32_t lowest = std::numeric_limits<std::uint32_t>::max();

 private:
  void enter(const Place& place);
  void leave(const Place& place);
  void follow(const Place& place, std::uint8_t byte, std::vector<Place>& to);
  void arrive(Place place, std::vector<Place>& to);
  [[nodiscard]] const Grammar::ByteEdge* edge(Grammar::Id node, std::uint8_t byte) const noexcept;
  [[nodiscard]] bool can_end(Place place) const;
  void check_depth(const std::vector<Place>& places) const;
  void drop_unused_frames();

  std::shared_ptr<const Grammar> grammar_;
  Frames frames_;
  std::vector<Place> places_;
  std::vector<Place> entered_;  // of the step under way: reached without a byte
  std::size_t frames_kept_ = 0;
};

}  // namespace strata::text::grammar
