// The host's side of a window that its device runs as a program (device/program.hpp): what is
// resident, what the router chose, and the rows of the experts that the device lacks.
//
//   host:   publish(cache); device.start(program)
//           for each layer: choice = wait(layer, rows); ...misses into parts()...; reply(layer)
//   device: for each layer: posts the choice, computes the hits, waits for the reply, adds both up
//
// Whatever happens, neither side waits for ever: wait() ends with an Error when the device has
// ended, failed or been silent too long; release() lets the device go on, and so does the
// destructor.
//
// Not thread-safe: one thread, beside the device.
#pragma once

#include "strata/core/expert_cache.hpp"
#include "strata/device/device.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace strata::core {

class WindowExchange {
 public:
  // `used`: experts of a token; `width`: of its activations. `patience_s`: how long wait() believes
  // in a silent device.
  WindowExchange(device::Device& device, int layers, int experts, int used, std::int64_t width,
                 double patience_s = 20.0);
  ~WindowExchange();
  WindowExchange(const WindowExchange&) = delete;
  WindowExchange& operator=(const WindowExchange&) = delete;

  // For Device::experts_held() and combine_held().
  [[nodiscard]] const device::Exchange& exchange() const noexcept { return exchange_; }

  // After the device's begin_window(), before start(): what the cache holds is held from now on;
  // null: nothing is.
  void publish(const ExpertCache* cache);

  struct Choice {  // [rows][used] each; stays until the next window
    std::span<const std::int32_t> ids;
    std::span<const float> weights;
  };
  // Blocks until the device has posted the layer. Error(kInternal): see above.
  [[nodiscard]] Choice wait(int layer, int rows);
  // What the posted layer's experts compute with, where one is missing; and where their rows go.
  [[nodiscard]] device::Rows x(int rows) const noexcept { return {exchange_.x, rows, width_}; }
  [[nodiscard]] device::Rows parts(int rows) const noexcept {
    return {exchange_.parts, rows * exchange_.used, width_};
  }
  void reply(int layer) noexcept;
  // After a window: Error(kInternal) when the device stopped waiting for a reply.
  void check();
  // After an error: the running program waits for nothing any more, and its results are worthless.
  void release() noexcept;

 private:
  device::Device& device_;
  std::int64_t width_;
  double patience_s_;
  std::uint64_t window_ = 0;
  std::optional<std::uint64_t> published_;        // the cache's version
  std::unique_ptr<device::Memory> shared_;        // the words, choices, x and parts
  std::unique_ptr<device::Memory> table_;         // exchange_.blobs
  std::unique_ptr<device::Memory> table_on_way_;  // the host's copy of it
  device::Exchange exchange_;
};

}  // namespace strata::core
