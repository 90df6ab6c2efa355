// kernels/cuda/runtime.hpp over plain host memory, where launch() runs a kernel as a loop over its
// blocks and threads. All is done when a call returns, but for a graph: a thread runs it beside the
// host, which it may wait for. Tests can have calls fail (emulated_runtime.hpp).
#include "tests/cuda/emulated_runtime.hpp"

#include "kernels/cuda/runtime.hpp"
#include "strata/base/error.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

using Work = std::vector<std::function<void()>>;
struct CUgraphExec_st {
  Work work;
};
struct CUstream_st {
  std::unique_ptr<Work> captured;  // while capturing
  std::thread graph;               // runs the last that was launched, after those before it
  std::atomic<int> running{0};     // graphs
  void wait() {
    if (graph.joinable()) graph.join();
  }
};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
};

namespace strata::cuda {
namespace {

// The GPU: one a process, as the emulated driver's.
struct Card {
  emulated::Faults faults;
  std::atomic<std::int64_t> live{0}, allocations{0}, calls{0};
  std::mutex mutex;
  std::size_t used = 0;                           // of device memory
  std::unordered_map<void*, std::size_t> blocks;  // of device memory
};
Card& card() {
  static Card card;
  return card;
}

// Counts down to nothing; false once there.
bool spend(std::atomic<std::int64_t>& left) {
  std::int64_t now = left.load();
  while (now > 0 && !left.compare_exchange_weak(now, now - 1)) {
  }
  return now != 0;
}

void call(const char* name) {
  ++card().calls;
  if (!spend(card().faults.calls_left)) fail(ErrorKind::kInternal, "{}: the GPU is lost", name);
}

void count_allocation(const char* name) {
  ++card().allocations;
  if (!spend(card().faults.allocations_left))
    fail(ErrorKind::kResource, "{}: out of memory, as the test wants it", name);
  ++card().live;
}

// Filled with NaN, as the device's memory comes filled with anything.
void* allocate(std::size_t bytes) {
  void* memory = ::operator new (bytes, std::align_val_t{256});
  std::memset(memory, 0xff, bytes);
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  --card().live;
  ::operator delete (memory, std::align_val_t{256});
}

}  // namespace

namespace emulated {

Faults& faults() noexcept { return card().faults; }
std::int64_t live_objects() noexcept { return card().live; }
std::int64_t allocations() noexcept { return card().allocations; }
std::int64_t calls() noexcept { return card().calls; }
std::size_t live_bytes() noexcept {
  const std::lock_guard lock(card().mutex);
  return card().used;
}

}  // namespace emulated

RuntimeStatus runtime_status(int index) {
  RuntimeStatus status;
  status.usable = index == 0;
  status.driver = status.runtime = 13000;
  status.gpus.push_back(gpu_info(0));
  if (!status.usable) status.reason = fmt::format("there is no GPU {}", index);
  return status;
}

void select_gpu(int) { call("cudaSetDevice"); }
Gpu gpu_info(int index) {
  return {index, "emulated GPU", 9, 0, 4, std::size_t{1} << 30, true, true};
}

std::size_t free_device_bytes() {
  call("cudaMemGetInfo");
  const std::lock_guard lock(card().mutex);
  const std::size_t memory = card().faults.memory;
  const std::size_t free = memory > card().used ? memory - card().used : 0;
  card().faults.memory = memory - std::min(card().faults.taken_after_asking.exchange(0), memory);
  return free;
}

void* allocate_device(std::size_t bytes) {
  call("cudaMalloc");
  count_allocation("cudaMalloc");
  const std::lock_guard lock(card().mutex);
  if (card().used + bytes > card().faults.memory) {
    --card().live;
    fail(ErrorKind::kResource, "cudaMalloc of {} bytes: out of memory", bytes);
  }
  void* memory = allocate(bytes);
  card().used += bytes;
  card().blocks[memory] = bytes;
  return memory;
}

void free_device(void* memory) noexcept {
  {
    const std::lock_guard lock(card().mutex);
    const auto block = card().blocks.find(memory);
    if (block == card().blocks.end()) std::abort();  // freed twice, or not ours
    card().used -= block->second;
    card().blocks.erase(block);
  }
  release(memory);
}

void* allocate_pinned(std::size_t bytes) {
  call("cudaHostAlloc");
  count_allocation("cudaHostAlloc");
  return allocate(bytes);
}
void free_pinned(void* memory) noexcept { release(memory); }

void pin(const void*, std::size_t) {
  call("cudaHostRegister");
  count_allocation("cudaHostRegister");
}
void unpin(const void*) noexcept { --card().live; }

Stream create_stream() {
  call("cudaStreamCreate");
  count_allocation("cudaStreamCreate");
  return new CUstream_st;
}
void destroy_stream(Stream stream) noexcept {
  stream->wait();
  --card().live;
  delete stream;
}
void synchronize(Stream stream) {
  call("cudaStreamSynchronize");
  if (stream != nullptr) stream->wait();
}
void emulate(Stream stream, std::function<void()> work) {
  if (stream != nullptr && stream->captured) {
    stream->captured->push_back(std::move(work));
    return;
  }
  if (stream != nullptr) stream->wait();
  work();
}
void copy(Stream stream, void* to, const void* from, std::size_t bytes) {
  call("cudaMemcpyAsync");
  emulate(stream, [=] { std::memcpy(to, from, bytes); });
}
void fill_zero(Stream stream, void* memory, std::size_t bytes) {
  call("cudaMemsetAsync");
  emulate(stream, [=] { std::memset(memory, 0, bytes); });
}

void begin_capture(Stream stream) {
  call("cudaStreamBeginCapture");
  stream->captured = std::make_unique<Work>();
}
Graph end_capture(Stream stream) {
  const std::unique_ptr<Work> work = std::exchange(stream->captured, nullptr);
  call("cudaStreamEndCapture");
  count_allocation("cudaGraphInstantiate");
  return new CUgraphExec_st{std::move(*work)};
}
void abandon_capture(Stream stream) noexcept { stream->captured.reset(); }
void launch_graph(Graph graph, Stream stream) {
  call("cudaGraphLaunch");
  ++stream->running;
  stream->graph = std::thread([graph, stream, before = std::move(stream->graph)]() mutable {
    if (before.joinable()) before.join();
    for (const auto& work : graph->work) work();
    --stream->running;
  });
}
void destroy_graph(Graph graph) noexcept {
  --card().live;
  delete graph;
}
bool is_done(Stream stream) {
  call("cudaStreamQuery");
  return stream->running == 0;
}

Event create_event() {
  call("cudaEventCreate");
  count_allocation("cudaEventCreate");
  return new CUevent_st;
}
void destroy_event(Event event) noexcept {
  --card().live;
  delete event;
}
void record(Event event, Stream stream) {
  call("cudaEventRecord");
  emulate(stream, [event] { event->time = std::chrono::steady_clock::now(); });
}
void wait_for(Stream, Event) { call("cudaStreamWaitEvent"); }
float elapsed_ms(Event from, Event to) {
  call("cudaEventElapsedTime");
  return std::chrono::duration<float, std::milli>(to->time - from->time).count();
}
void check_launch(const char* kernel) { call(kernel); }

}  // namespace strata::cuda
