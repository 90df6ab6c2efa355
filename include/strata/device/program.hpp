// Windows as programs: a device that can notes the calls of a whole window once and then runs them
// again and again without the host, which meanwhile computes the experts that the device lacks.
//
// What changes from window to window is data that the noted calls read: the rows of begin_window(),
// the table of held experts, and what the host replies. Device and host number the hand-overs of
// all layers and windows alike (step_of); numbers only rise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::device {

// Noted calls; of the device that made it, before which it must go.
class Program {
 public:
  virtual ~Program() = default;
  // Seconds between two mark()s that were made while the calls were noted, as the last run had
  // them. The run must be done.
  [[nodiscard]] virtual double seconds(int from, int to) const = 0;
};

// Rows of a window that can be noted.
inline constexpr int kProgramRows = 8;
inline constexpr int kProgramChoices = 256;  // rows x experts a row

// What the device and the host hand to one another, in memory of allocate_host() but for `blobs`.
struct Exchange {
  const std::byte* const* blobs = nullptr;  // [layers][experts], the device's: null: not held
  std::uint64_t* posted = nullptr;          // by the device: the last step it has asked for
  std::uint64_t* replied = nullptr;         // by the host: the last step it has answered
  std::uint64_t* gave_up = nullptr;         // by the device: a step it waited for too long, or 0
  std::int32_t* ids = nullptr;              // [layers][kProgramRows * used]: the window's choices
  float* weights = nullptr;                 // the same of their weights
  float* x = nullptr;      // [kProgramRows][width]: of the posted step, if an expert is not held
  float* parts = nullptr;  // [kProgramRows * used][width]: the host's rows of the step
  int layers = 0;
  int experts = 0;
  int used = 0;

  [[nodiscard]] const std::byte* const* blobs_of(int layer) const noexcept {
    return blobs + static_cast<std::ptrdiff_t>(layer) * experts;
  }
  [[nodiscard]] std::int32_t* ids_of(int layer) const noexcept {
    return ids + static_cast<std::ptrdiff_t>(layer) * kProgramRows * used;
  }
  [[nodiscard]] float* weights_of(int layer) const noexcept {
    return weights + static_cast<std::ptrdiff_t>(layer) * kProgramRows * used;
  }
  [[nodiscard]] std::uint64_t step_of(std::uint64_t window, int layer) const noexcept {
    return window * static_cast<std::uint64_t>(layers) + static_cast<std::uint64_t>(layer) + 1;
  }
};

}  // namespace strata::device
