#include "strata/core/window_exchange.hpp"

#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"

#include <atomic>
#include <limits>

namespace strata::core {
namespace {

constexpr std::size_t kLine = 128;  // the words are polled from both sides: lines of their own

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

WindowExchange::WindowExchange(device::Device& device, int layers, int experts, int used,
                               std::int64_t width, double patience_s)
    : device_(device), width_(width), patience_s_(patience_s) {
  const auto size = [](auto n) { return static_cast<std::size_t>(n); };
  const std::size_t choices = size(device::kProgramRows) * size(used);
  const std::size_t of_layers = 4 * size(layers) * choices;
  const std::size_t row = sizeof(float) * size(width);
  shared_ = device.allocate_host(3 * kLine + 2 * of_layers + row * size(device::kProgramRows) +
                                 row * choices);
  std::byte* at = shared_->data();
  const auto take = [&at](std::size_t bytes) {
    std::byte* here = at;
    at += bytes;
    return here;
  };
  exchange_.posted = reinterpret_cast<std::uint64_t*>(take(kLine));
  exchange_.replied = reinterpret_cast<std::uint64_t*>(take(kLine));
  exchange_.gave_up = reinterpret_cast<std::uint64_t*>(take(kLine));
  exchange_.x = reinterpret_cast<float*>(take(row * size(device::kProgramRows)));
  exchange_.parts = reinterpret_cast<float*>(take(row * choices));
  exchange_.ids = reinterpret_cast<std::int32_t*>(take(of_layers));
  exchange_.weights = reinterpret_cast<float*>(take(of_layers));
  exchange_.layers = layers;
  exchange_.experts = experts;
  exchange_.used = used;
  const std::size_t table = sizeof(std::byte*) * size(layers) * size(experts);
  table_ = device.allocate(table);
  table_on_way_ = device.allocate_host(table);
  exchange_.blobs = reinterpret_cast<const std::byte* const*>(table_->data());
}

WindowExchange::~WindowExchange() { release(); }

void WindowExchange::publish(const ExpertCache* cache) {
  window_ = device_.window_number();
  // All earlier windows are over; a release() ends with them.
  std::atomic_ref(*exchange_.replied)
      .store(exchange_.step_of(window_, 0) - 1, std::memory_order_release);
  const std::uint64_t version = cache == nullptr ? 0 : cache->version();
  if (published_ == version) return;
  auto** blob = reinterpret_cast<const std::byte**>(table_on_way_->data());
  for (int layer = 0; layer < exchange_.layers; ++layer) {
    for (int e = 0; e < exchange_.experts; ++e) {
      const std::int32_t slot = cache == nullptr ? kNotResident : cache->slot_of({layer, e});
      *blob++ = slot == kNotResident ? nullptr : cache->blob(slot);
    }
  }
  // The host changes it again only after a later window has been waited for.
  device_.copy_from_host_later(table_->data(), table_on_way_->data(), table_->size());
  published_ = version;
}

WindowExchange::Choice WindowExchange::wait(int layer, int rows) {
  constexpr int kSpins = 20000;              // under a millisecond
  constexpr double kAskAfterSeconds = 0.05;  // then the device is asked how it is
  const std::uint64_t step = exchange_.step_of(window_, layer);
  const std::atomic_ref posted(*exchange_.posted);
  const auto is_posted = [&] { return posted.load(std::memory_order_acquire) >= step; };
  const Stopwatch watch;
  for (int spin = 0; !is_posted(); relax()) {
    if (++spin < kSpins) continue;
    spin = 0;
    const double seconds = watch.seconds();
    if (seconds < kAskAfterSeconds) continue;
    if (device_.is_done() && !is_posted()) {
      fail(ErrorKind::kInternal, "the device ended a window before layer {}", layer);
    }
    if (seconds > patience_s_) {
      fail(ErrorKind::kInternal, "the device has not come to layer {} of a window in {} s", layer,
           patience_s_);
    }
  }
  const auto choices = static_cast<std::size_t>(rows * exchange_.used);
  return {{exchange_.ids_of(layer), choices}, {exchange_.weights_of(layer), choices}};
}

void WindowExchange::reply(int layer) noexcept {
  std::atomic_ref(*exchange_.replied)
      .store(exchange_.step_of(window_, layer), std::memory_order_release);
}

void WindowExchange::check() {
  const std::atomic_ref gave_up(*exchange_.gave_up);
  if (gave_up.exchange(0, std::memory_order_acq_rel) == 0) return;
  fail(ErrorKind::kInternal,
       "the device waited for the CPU's experts until it gave up: does a debugger or profiler keep "
       "launches from returning before they are done?");
}

void WindowExchange::release() noexcept {
  std::atomic_ref(*exchange_.replied)
      .store(std::numeric_limits<std::uint64_t>::max(), std::memory_order_release);
}

}  // namespace strata::core
