#include "strata/core/expert_cache.hpp"

#include "strata/base/error.hpp"
#include "strata/core/fetch.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace strata::core {

std::size_t ExpertCache::slot_bytes(const quant::ExpertLayout& layout) noexcept {
  constexpr std::size_t kAlign = 64;  // what vector loads and DMA like
  return (layout.bytes() + kAlign - 1) / kAlign * kAlign;
}

ExpertCache::ExpertCache(device::Device& device, const ExpertStore& store, int experts,
                         std::span<const int> quotas, int staging)
    : device_(device),
      store_(store),
      experts_(experts),
      quotas_(quotas.begin(), quotas.end()),
      held_(quotas.size()),
      resident_(quotas.size()),
      table_(quotas.size() * index(experts), kNotResident),
      promised_(table_.size()) {
  std::size_t offset = 0;
  for (int layer = 0; layer < layers(); ++layer) {
    if (quota(layer) < 0 || quota(layer) > experts) {
      fail(ErrorKind::kUsage, "expert cache: layer {} is given {} slots; it has {} experts", layer,
           quota(layer), experts);
    }
    const std::size_t bytes = slot_bytes(store.layout(layer));
    auto c = std::ranges::find(classes_, bytes, &SizeClass::bytes);
    if (c == classes_.end()) c = classes_.insert(c, SizeClass{bytes, {}, {}});
    const auto size_class = static_cast<int>(c - classes_.begin());
    class_of_layer_.push_back(size_class);
    for (int i = 0; i < quota(layer); ++i, offset += bytes) slots_.push_back({offset, size_class});
  }
  resident_slots_ = all_slots();
  bytes_ = offset;
  // The free list hands out low slots first.
  for (std::int32_t s = resident_slots_ - 1; s >= 0; --s)
    classes_[index(slots_[index(s)].size_class)].free.push_back(s);
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    const int count = staging == kFetchStaging ? fetch_slots(classes_[c].bytes) : staging;
    for (int i = 0; i < count; ++i, offset += classes_[c].bytes) {
      classes_[c].staging.push_back(all_slots());
      slots_.push_back({offset, static_cast<int>(c), State::kStaging});
    }
  }
  if (offset > 0) arena_ = device.allocate(offset);
}

ExpertCache::Fill ExpertCache::promise(std::int32_t slot, ExpertId newcomer) {
  Slot& s = slots_[index(slot)];
  s.state = State::kFilling;
  s.owner = newcomer;
  promised_[flat(newcomer)] = 1;
  ++held_[index(newcomer.layer)];
  return {slot, newcomer, store_.blob(newcomer.layer, newcomer.expert), arena_->data() + s.offset,
          store_.layout(newcomer.layer).bytes()};
}

ExpertCache::Fill ExpertCache::begin(ExpertId newcomer) {
  assert(slot_of(newcomer) == kNotResident && !is_promised(newcomer));
  assert(held(newcomer.layer) < quota(newcomer.layer));
  std::vector<std::int32_t>& free = classes_[index(class_of_layer_[index(newcomer.layer)])].free;
  assert(!free.empty());  // quotas of a class sum up to its slots
  const std::int32_t slot = free.back();
  free.pop_back();
  return promise(slot, newcomer);
}

ExpertCache::Fill ExpertCache::begin(ExpertId newcomer, ExpertId victim) {
  assert(newcomer.layer == victim.layer && slot_of(newcomer) == kNotResident &&
         !is_promised(newcomer));
  const std::int32_t slot = slot_of(victim);
  assert(slot != kNotResident);
  set_slot(victim, kNotResident);
  --resident_[index(victim.layer)];
  --held_[index(victim.layer)];
  return promise(slot, newcomer);
}

void ExpertCache::finish(std::int32_t slot) {
  Slot& s = slots_[index(slot)];
  assert(s.state == State::kFilling);
  promised_[flat(s.owner)] = 0;
  become_resident(slot);
}

void ExpertCache::become_resident(std::int32_t slot) {
  Slot& s = slots_[index(slot)];
  s.state = State::kResident;
  set_slot(s.owner, slot);
  ++resident_[index(s.owner.layer)];
}

ExpertCache::Fill ExpertCache::stage(ExpertId expert) {
  assert(slot_of(expert) == kNotResident);
  SizeClass& size_class = classes_[index(class_of_layer_[index(expert.layer)])];
  const std::int32_t slot = size_class.staging[size_class.next];
  size_class.next = (size_class.next + 1) % size_class.staging.size();
  Slot& s = slots_[index(slot)];
  s.owner = expert;
  return {slot, expert, store_.blob(expert.layer, expert.expert), arena_->data() + s.offset,
          store_.layout(expert.layer).bytes()};
}

void ExpertCache::staged(std::vector<std::pair<std::int32_t, ExpertId>>& out) const {
  for (const SizeClass& c : classes_) {
    for (const std::int32_t slot : c.staging) {
      const ExpertId owner = slots_[index(slot)].owner;
      if (owner.layer >= 0) out.emplace_back(slot, owner);
    }
  }
}

void ExpertCache::forget_staged() noexcept {
  for (const SizeClass& c : classes_) {
    for (const std::int32_t slot : c.staging) slots_[index(slot)].owner = {-1, -1};
  }
}

void ExpertCache::become_staging(std::int32_t slot, std::int32_t in_place_of) {
  Slot& s = slots_[index(slot)];
  s.state = State::kStaging;
  s.owner = {-1, -1};
  std::ranges::replace(classes_[index(s.size_class)].staging, in_place_of, slot);
}

void ExpertCache::adopt(std::int32_t slot) {
  const ExpertId expert = slots_[index(slot)].owner;
  assert(slot_of(expert) == kNotResident && !is_promised(expert));
  assert(held(expert.layer) < quota(expert.layer));
  std::vector<std::int32_t>& free = classes_[index(slots_[index(slot)].size_class)].free;
  assert(!free.empty());  // quotas of a class sum up to its resident slots
  become_staging(free.back(), slot);
  free.pop_back();
  ++held_[index(expert.layer)];
  become_resident(slot);
}

void ExpertCache::adopt(std::int32_t slot, ExpertId victim) {
  [[maybe_unused]] const ExpertId expert = slots_[index(slot)].owner;
  assert(expert.layer == victim.layer && slot_of(expert) == kNotResident && !is_promised(expert));
  const std::int32_t left = slot_of(victim);
  assert(left != kNotResident);
  set_slot(victim, kNotResident);
  --resident_[index(victim.layer)];
  become_staging(left, slot);
  become_resident(slot);
}

void ExpertCache::abandon(std::int32_t slot) {
  Slot& s = slots_[index(slot)];
  assert(s.state == State::kFilling);
  promised_[flat(s.owner)] = 0;
  --held_[index(s.owner.layer)];
  classes_[index(s.size_class)].free.push_back(slot);
  s.state = State::kFree;
  s.owner = {-1, -1};
}

bool ExpertCache::verify(const ExpertStore& store, std::int32_t slot) const {
  const Slot& s = slots_[index(slot)];
  if (s.state != State::kResident) return false;
  std::vector<std::byte> bytes(store.layout(s.owner.layer).bytes());
  device_.copy_to_host(bytes.data(), blob(slot), bytes.size());
  return std::memcmp(bytes.data(), store.blob(s.owner.layer, s.owner.expert), bytes.size()) == 0;
}

}  // namespace strata::core
