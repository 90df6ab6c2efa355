// kernels/cuda/runtime.hpp over plain host memory, where launch() runs a kernel as a loop over its
// blocks and threads. All is done when a call returns.
#include "kernels/cuda/runtime.hpp"

#include "strata/base/error.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

struct CUstream_st {};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
};

namespace strata::cuda {
namespace {

// Filled with NaN, as the device's memory comes filled with anything.
void* allocate(std::size_t bytes) {
  void* memory = ::operator new (bytes, std::align_val_t{256});
  std::memset(memory, 0xff, bytes);
  return memory;
}

void release(void* memory) noexcept { ::operator delete (memory, std::align_val_t{256}); }

}  // namespace

RuntimeStatus runtime_status(int index) {
  RuntimeStatus status;
  status.usable = index == 0;
  status.driver = status.runtime = 13000;
  status.gpus.push_back(gpu_info(0));
  if (!status.usable) status.reason = fmt::format("there is no GPU {}", index);
  return status;
}

void select_gpu(int) {}
Gpu gpu_info(int index) { return {index, "emulated GPU", 9, 0, 4, std::size_t{1} << 30}; }
std::size_t free_device_bytes() { return std::size_t{1} << 30; }
void* allocate_device(std::size_t bytes) { return allocate(bytes); }
void free_device(void* memory) noexcept { release(memory); }
void* allocate_pinned(std::size_t bytes) { return allocate(bytes); }
void free_pinned(void* memory) noexcept { release(memory); }
Stream create_stream() { return new CUstream_st; }
void destroy_stream(Stream stream) noexcept { delete stream; }
void synchronize(Stream) {}
void copy(Stream, void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
void fill_zero(Stream, void* memory, std::size_t bytes) { std::memset(memory, 0, bytes); }
Event create_event() { return new CUevent_st; }
void destroy_event(Event event) noexcept { delete event; }
void record(Event event, Stream) { event->time = std::chrono::steady_clock::now(); }
float elapsed_ms(Event from, Event to) {
  return std::chrono::duration<float, std::milli>(to->time - from->time).count();
}
void check_launch(const char*) {}

}  // namespace strata::cuda
