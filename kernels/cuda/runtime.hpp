// The few calls of a GPU runtime that the CUDA device is made of; no CUDA header is needed to use
// them. kernels/cuda/runtime.cpp has them over CUDA, tests/cuda/emulated_runtime.cpp over plain
// host memory. Every function but those marked noexcept throws strata::Error, which names the call,
// what the runtime said and what to do: kResource when memory is short, kUnsupported when no GPU
// can be used, kInternal for everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#ifdef STRATA_HIP
struct ihipStream_t;
struct ihipEvent_t;
struct hipGraphExec;
#else
struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;
#endif

namespace strata::cuda {

#ifdef STRATA_HIP
using Stream = ihipStream_t*;  // hipStream_t
using Event = ihipEvent_t*;    // hipEvent_t
using Graph = hipGraphExec*;   // hipGraphExec_t
#else
using Stream = CUstream_st*;    // cudaStream_t
using Event = CUevent_st*;      // cudaEvent_t
using Graph = CUgraphExec_st*;  // cudaGraphExec_t
#endif

struct Gpu {
  int index = 0;
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory = 0;  // bytes in all
  // Whether the kernels for many tokens work, dot_tiles() and attention() of wide tiles: tensor
  // cores that multiply bytes, 96 KiB of shared memory a block.
  bool int8_tiles = false;
  bool graphs = false;  // whether what is put on a stream can be captured
};

struct RuntimeStatus {
  bool usable = false;
  std::string reason;  // when not usable: what is missing and what to do
  int driver = 0;   // the CUDA version that the driver supports, 1000 * major + 10 * minor; 0: none
  int runtime = 0;  // the CUDA version that this program was built with
  std::vector<Gpu> gpus;
};
// Asks the driver, runs a kernel on GPU `index`. Never throws for what it finds.
[[nodiscard]] RuntimeStatus runtime_status(int index);

// The calling thread's further calls go to this GPU.
void select_gpu(int index);
[[nodiscard]] Gpu gpu_info(int index);
[[nodiscard]] std::size_t free_device_bytes();

[[nodiscard]] void* allocate_device(std::size_t bytes);
void free_device(void* memory) noexcept;
// Host memory that the GPU reads and writes at the same address.
[[nodiscard]] void* allocate_pinned(std::size_t bytes);
void free_pinned(void* memory) noexcept;

// Makes host memory of others such memory; the bytes stay where they are.
void pin(const void* memory, std::size_t bytes);
void unpin(const void* memory) noexcept;

[[nodiscard]] Stream create_stream();
void destroy_stream(Stream stream) noexcept;
// Waits until all that was put on the stream is done; errors of its kernels come out here.
void synchronize(Stream stream);
// Copies between any two places; asynchronous between the device and pinned memory.
void copy(Stream stream, void* to, const void* from, std::size_t bytes);
void fill_zero(Stream stream, void* memory, std::size_t bytes);

[[nodiscard]] Event create_event();
void destroy_event(Event event) noexcept;
void record(Event event, Stream stream);
// What is put on the stream from now on waits for the event as it was last recorded.
void wait_for(Stream stream, Event event);
// Milliseconds between two recorded events of a synchronised stream.
[[nodiscard]] float elapsed_ms(Event from, Event to);

// What is put on the stream from now on is noted, not done, until the end: then it is a graph,
// which can be launched again and again. Events recorded meanwhile are recorded by each launch.
void begin_capture(Stream stream);
[[nodiscard]] Graph end_capture(Stream stream);
void abandon_capture(Stream stream) noexcept;
void launch_graph(Graph graph, Stream stream);
void destroy_graph(Graph graph) noexcept;
// Whether all that was put on the stream is done; errors of its kernels come out here.
[[nodiscard]] bool is_done(Stream stream);

// For launch() of a compiler that is not a GPU's (tests/cuda): does the work in the stream's order.
void emulate(Stream stream, std::function<void()> work);

// For launch() in simt.cuh: a grid of that many blocks can be launched; the last launch went well.
void check_grid(const char* kernel, std::int64_t blocks);
void check_launch(const char* kernel);
// Throws Error(kUnsupported): the kernel cannot do what is asked for, "experts 4096".
[[noreturn]] void refuse(const char* kernel, const char* what, std::int64_t value);

}  // namespace strata::cuda
