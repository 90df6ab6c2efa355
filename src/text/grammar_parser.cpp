#include "src/text/grammar_parser.hpp"

#include <algorithm>
#include <utility>

namespace strata::text::grammar {
namespace {

constexpr std::size_t kFirstTableSize = 64;  // a power of two

// A counted rule without a largest count need not count beyond its smallest, but for one that tells
// it from a rule just entered.
std::uint32_t next_count(const Grammar::Rule& rule, std::uint32_t count) noexcept {
  return rule.max == Grammar::kEndless ? std::min(count + 1, std::max(rule.min, 1U)) : count + 1;
}

void add_unless_there(std::vector<Place>& places, const Place& place) {
  if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
}

}  // namespace

void Frames::clear() {
  frames_.assign(1, Frame{});
  table_.assign(kFirstTableSize, kBottom);
}

std::size_t Frames::slot_of(const Place& place) const noexcept {
  std::uint64_t hash = (std::uint64_t{place.node} << 32 | place.parent) ^
                       std::uint64_t{place.count} * 0xC2B2AE3D27D4EB4FU;
  hash *= 0x9E3779B97F4A7C15U;
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = hash >> 32 & mask;
  while (table_[slot] != kBottom && frames_[table_[slot]].place != place) slot = (slot + 1) & mask;
  return slot;
}

FrameId Frames::push(const Place& place) {
  std::size_t slot = slot_of(place);
  if (table_[slot] != kBottom) return table_[slot];
  if (2 * frames_.size() > table_.size()) {
    grow();
    slot = slot_of(place);
  }
  const auto id = static_cast<FrameId>(frames_.size());
  frames_.push_back({place, frames_[place.parent].height + 1});
  table_[slot] = id;
  return id;
}

void Frames::grow() {
  table_.assign(2 * table_.size(), kBottom);
  for (FrameId id = 1; id < frames_.size(); ++id) table_[slot_of(frames_[id].place)] = id;
}

// Frames leave in the reverse order of their coming, or of grow()'s, which is the same: no slot
// that is searched past for another frame becomes free before that frame is gone.
void Frames::truncate(std::size_t size) noexcept {
  while (frames_.size() > size) {
    table_[slot_of(frames_.back().place)] = kBottom;
    frames_.pop_back();
  }
}

Parser::Parser(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), places_{{grammar_->rules[0].start, 0, kBottom}} {}

bool Parser::read(std::string_view bytes) {
  const std::size_t mark = frames_.size();
  std::vector<Place> now = places_;
  std::vector<Place> next;
  try {
    for (const char c : bytes) {
      step(now, static_cast<std::uint8_t>(c), next);
      std::swap(now, next);
      if (now.empty()) break;
    }
    check_depth(now);
  } catch (...) {
    frames_.truncate(mark);
    throw;
  }
  if (now.empty()) {
    frames_.truncate(mark);
    return false;
  }
  places_ = std::move(now);
  drop_unused_frames();
  return true;
}

void Parser::step(std::span<const Place> from, std::uint8_t byte, std::vector<Place>& to) {
  to.clear();
  if (from.size() == 1 && grammar_->nodes[from[0].node].reads_only) {  // most steps
    ++work;
    if (const Grammar::ByteEdge* found = edge(from[0].node, byte)) {
      arrive({found->to, from[0].count, from[0].parent}, to);
    }
    return;
  }
  entered_.clear();
  for (const Place& place : from) enter(place);
  for (std::size_t i = 0; i < entered_.size(); ++i) {
    const Place place = entered_[i];
    follow(place, byte, to);
    leave(place);
  }
}

void Parser::enter(const Place& place) {
  work += entered_.size() + 1;
  add_unless_there(entered_, place);
  if (entered_.size() > grammar_->limits.max_parses) {
    fail(ErrorKind::kUsage,
         "the grammar is too ambiguous: the text has more than {} readings (max_parses)",
         grammar_->limits.max_parses);
  }
}

const Grammar::ByteEdge* Parser::edge(Grammar::Id node, std::uint8_t byte) const noexcept {
  for (const Grammar::ByteEdge& edge : grammar_->bytes_of(node)) {
    if (byte <= edge.last) return byte >= edge.first ? &edge : nullptr;
  }
  return nullptr;
}

// Inwards: through the node's own edges and into the rules it calls.
void Parser::follow(const Place& place, std::uint8_t byte, std::vector<Place>& to) {
  const Grammar::Rule& rule = grammar_->rule_of(place.node);
  if (rule.counted && place.node == rule.start && place.count == rule.max) return;
  if (const Grammar::ByteEdge* found = edge(place.node, byte)) {
    arrive({found->to, place.count, place.parent}, to);
  }
  for (const Grammar::CallEdge& call : grammar_->calls_of(place.node)) {
    // Where nothing is left to do after the call, the caller's caller goes on.
    const bool last = grammar_->nodes[call.to].leaf && !rule.counted;
    enter({grammar_->rules[call.rule].start, 0,
           last ? place.parent : frames_.push({call.to, place.count, place.parent})});
  }
}

// Outwards: to what follows the rule, or its next repetition. A rule that was only just entered
// cannot be left: whoever calls one that may be empty can go past it, too.
void Parser::leave(const Place& place) {
  const Grammar::Node& node = grammar_->nodes[place.node];
  const Grammar::Rule& rule = grammar_->rules[node.rule];
  if (place.node == rule.start) {
    if (!rule.counted || place.count == 0 || place.count < rule.min) return;
  } else if (!node.accepting) {
    return;
  } else if (rule.counted) {
    enter({rule.start, next_count(rule, place.count), place.parent});
    return;
  }
  lowest = std::min(lowest, frames_.height(place.parent));
  if (place.parent != kBottom) enter(frames_.at(place.parent));
}

void Parser::arrive(Place place, std::vector<Place>& to) {
  while (grammar_->nodes[place.node].leaf) {
    const Grammar::Rule& rule = grammar_->rule_of(place.node);
    if (rule.counted) {
      place = {rule.start, next_count(rule, place.count), place.parent};
      break;
    }
    lowest = std::min(lowest, frames_.height(place.parent));
    if (place.parent == kBottom) break;
    place = frames_.at(place.parent);
  }
  add_unless_there(to, place);
}

bool Parser::is_complete() const {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const Place& place) { return can_end(place); });
}

bool Parser::can_end(Place place) const {
  for (;;) {
    const Grammar::Node& node = grammar_->nodes[place.node];
    const Grammar::Rule& rule = grammar_->rules[node.rule];
    const bool repeated = rule.counted && place.node == rule.start;
    if (rule.counted) {
      const std::uint32_t count = repeated ? place.count : next_count(rule, place.count);
      if ((!repeated && !node.accepting) || count < rule.min) return false;
    } else if (!node.accepting) {
      return false;
    }
    if (place.parent == kBottom) return true;
    place = frames_.at(place.parent);
  }
}

void Parser::check_depth(const std::vector<Place>& places) const {
  for (const Place& place : places) {
    if (frames_.height(place.parent) > grammar_->limits.max_depth) {
      fail(ErrorKind::kUsage, "the text nests more than {} rules of the grammar (max_depth)",
           grammar_->limits.max_depth);
    }
  }
}

// Now and then, so that it costs nothing much.
void Parser::drop_unused_frames() {
  constexpr std::size_t kSlack = 1024;
  if (frames_.size() < 2 * frames_kept_ + kSlack) return;
  Frames kept;
  std::vector<FrameId> path;
  for (Place& place : places_) {
    path.clear();
    for (FrameId id = place.parent; id != kBottom; id = frames_.at(id).parent) path.push_back(id);
    FrameId parent = kBottom;
    for (auto id = path.rbegin(); id != path.rend(); ++id) {
      parent = kept.push({frames_.at(*id).node, frames_.at(*id).count, parent});
    }
    place.parent = parent;
  }
  frames_ = std::move(kept);
  frames_kept_ = frames_.size();
}

}  // namespace strata::text::grammar
