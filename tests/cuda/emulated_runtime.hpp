// What a test can have go wrong on the emulated GPU.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace strata::cuda::emulated {

struct Faults {
  // After so many more, allocations of the device's or pinned memory, streams and events are
  // refused as when memory is short; negative: never.
  std::atomic<std::int64_t> allocations_left{-1};
  // After so many more calls all fail, as on a GPU that is lost; negative: never.
  std::atomic<std::int64_t> calls_left{-1};
  // Of device memory that this process may have; what it says is free, and what it gives.
  std::atomic<std::size_t> memory{std::size_t{1} << 30};
  // What another process takes of it once somebody has asked how much is free.
  std::atomic<std::size_t> taken_after_asking{0};
};
[[nodiscard]] Faults& faults() noexcept;

// Allocations, streams and events that have not been freed, and bytes of device memory among them.
[[nodiscard]] std::int64_t live_objects() noexcept;
[[nodiscard]] std::size_t live_bytes() noexcept;
// Allocations so far, those refused among them.
[[nodiscard]] std::int64_t allocations() noexcept;
// Calls so far that a lost GPU would refuse.
[[nodiscard]] std::int64_t calls() noexcept;

}  // namespace strata::cuda::emulated
