// The arena of expert slots in an accelerator's memory, and the table of what is resident.
//
// The arena is budgeted in bytes. Layers whose blobs have the same size form a class and share its
// slots; each layer may hold as many as its quota. The residency table is int32[layers][experts]: a
// slot, or kNotResident. It changes only between windows, in two steps: begin() takes a slot away
// from its victim at once and promises it to the newcomer, finish() makes the newcomer resident
// when its bytes have landed. Nothing that a running window reads is ever written.
//
// Not thread-safe: one thread owns it. Copies may run elsewhere, into slots between begin() and
// finish().
//
// Besides, each class may have staging slots for experts that are fetched for one layer of one
// window. They are nobody's residents; between windows adopt() makes a staged expert one, and the
// slot it takes the place of becomes a staging slot: nothing is copied twice.
#pragma once

#include "strata/core/expert_store.hpp"
#include "strata/device/device.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace strata::core {

inline constexpr std::int32_t kNotResident = -1;
inline constexpr int kFetchStaging = -1;

struct ExpertId {
  int layer;
  int expert;
  friend bool operator==(ExpertId, ExpertId) = default;
};

class ExpertCache {
 public:
  // quotas[l]: slots layer l may hold, 0 to experts. The bytes they need are allocated on the
  // device at once: Error(kResource) when it refuses, Error(kUsage) when quotas do not match the
  // store's layers.
  // `staging`: staging slots of each class; kFetchStaging: fetch_slots() of its size.
  ExpertCache(device::Device& device, const ExpertStore& store, int experts,
              std::span<const int> quotas, int staging = 0);

  // What one expert of a layer takes in the arena.
  [[nodiscard]] static std::size_t slot_bytes(const quant::ExpertLayout& layout) noexcept;

  [[nodiscard]] int layers() const noexcept { return static_cast<int>(quotas_.size()); }
  [[nodiscard]] int experts() const noexcept { return experts_; }
  // Of the residents; the arena has the staging slots besides.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] int slots() const noexcept { return resident_slots_; }
  // Slots are numbered 0 to all_slots() - 1, staging ones among them.
  [[nodiscard]] int all_slots() const noexcept { return static_cast<int>(slots_.size()); }
  [[nodiscard]] std::span<const int> quotas() const noexcept { return quotas_; }
  [[nodiscard]] int quota(int layer) const noexcept { return quotas_[index(layer)]; }
  // Slots of the layer that are resident or promised.
  [[nodiscard]] int held(int layer) const noexcept { return held_[index(layer)]; }
  [[nodiscard]] int resident(int layer) const noexcept { return resident_[index(layer)]; }

  // The residency table; row `layer` of experts() entries.
  [[nodiscard]] std::span<const std::int32_t> table(int layer) const noexcept {
    return std::span(table_).subspan(index(layer) * static_cast<std::size_t>(experts_),
                                     static_cast<std::size_t>(experts_));
  }
  [[nodiscard]] std::int32_t slot_of(ExpertId id) const noexcept {
    return table(id.layer)[index(id.expert)];
  }
  [[nodiscard]] const std::byte* blob(std::int32_t slot) const noexcept {
    return arena_->data() + slots_[index(slot)].offset;
  }
  // Rises whenever the table changes.
  [[nodiscard]] std::uint64_t version() const noexcept { return version_; }
  // True from begin() until finish() or abandon() of the expert.
  [[nodiscard]] bool is_promised(ExpertId id) const noexcept { return promised_[flat(id)] != 0; }

  struct Fill {
    std::int32_t slot;
    ExpertId id;
    const std::byte* from;  // the blob in the store
    std::byte* to;          // its place in the arena
    std::size_t bytes;
  };
  // Promises a free slot of the layer's class to `newcomer`. The layer must be below its quota, the
  // expert neither resident nor promised.
  [[nodiscard]] Fill begin(ExpertId newcomer);
  // The same with the slot of `victim`, resident in the same layer, which stops being resident at
  // once.
  [[nodiscard]] Fill begin(ExpertId newcomer, ExpertId victim);
  // The bytes are in the slot: its expert is resident from now on.
  void finish(std::int32_t slot);
  // The copy failed or is not wanted any more: the slot is free again.
  void abandon(std::int32_t slot);
  // Staging slots that the layer can use.
  [[nodiscard]] int staging(int layer) const noexcept {
    return static_cast<int>(class_of(layer).staging.size());
  }
  // The layer's next staging slot, in turn, for an expert that is not resident. What it held is
  // forgotten: no call that reads it may be under way.
  [[nodiscard]] Fill stage(ExpertId expert);
  // Appends the experts that staging slots hold, each with its slot.
  void staged(std::vector<std::pair<std::int32_t, ExpertId>>& out) const;
  // A staged expert, neither resident nor promised, becomes resident: in place of `victim`, or
  // below its layer's quota without one.
  void adopt(std::int32_t slot);
  void adopt(std::int32_t slot, ExpertId victim);
  // Staging slots hold nothing any more.
  void forget_staged() noexcept;

  // Reads a slot back: does it hold its expert's bytes? For tests, audits and the check of a new
  // device.
  [[nodiscard]] bool verify(const ExpertStore& store, std::int32_t slot) const;

 private:
  enum class State : std::uint8_t { kFree, kFilling, kResident, kStaging };
  struct Slot {
    std::size_t offset;  // in the arena
    int size_class;
    State state = State::kFree;
    ExpertId owner{-1, -1};
  };
  struct SizeClass {
    std::size_t bytes;
    std::vector<std::int32_t> free;
    std::vector<std::int32_t> staging;
    std::size_t next = 0;  // in staging
  };
  template <class T>
  static std::size_t index(T i) noexcept {
    return static_cast<std::size_t>(i);
  }
  [[nodiscard]] std::size_t flat(ExpertId id) const noexcept {
    return index(id.layer) * index(experts_) + index(id.expert);
  }
  [[nodiscard]] const SizeClass& class_of(int layer) const noexcept {
    return classes_[index(class_of_layer_[index(layer)])];
  }
  void set_slot(ExpertId id, std::int32_t slot) noexcept {
    table_[flat(id)] = slot;
    ++version_;
  }
  Fill promise(std::int32_t slot, ExpertId newcomer);
  void become_resident(std::int32_t slot);
  void become_staging(std::int32_t slot, std::int32_t in_place_of);

  device::Device& device_;
  const ExpertStore& store_;
  int experts_;
  int resident_slots_ = 0;
  std::size_t bytes_ = 0;
  std::uint64_t version_ = 1;
  std::vector<int> quotas_, held_, resident_;  // by layer
  std::vector<int> class_of_layer_;
  std::vector<SizeClass> classes_;
  std::vector<Slot> slots_;
  std::vector<std::int32_t> table_;     // [layers][experts]
  std::vector<std::uint8_t> promised_;  // [layers][experts]
  std::unique_ptr<device::Memory> arena_;
};

}  // namespace strata::core
