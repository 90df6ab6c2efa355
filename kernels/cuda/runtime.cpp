#include "kernels/cuda/runtime.hpp"

#include "kernels/cuda/gpu_runtime.hpp"
#include "kernels/cuda/kernels.hpp"
#include "strata/base/error.hpp"

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace strata::cuda {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

// Throws for anything but success. `call` names the call with its arguments, as a person would.
template <class... Args>
void check(cudaError_t error, fmt::format_string<Args...> call, Args&&... args) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // an error that can be survived is not reported again
  const std::string what = fmt::format(call, std::forward<Args>(args)...);
  if (error == cudaErrorMemoryAllocation) {
    std::size_t free = 0;
    std::size_t total = 0;
    const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
    const std::string left =
        known ? fmt::format("; {:.0f} of {:.0f} MiB of the GPU's memory are free",
                            static_cast<double>(free) / kMiB, static_cast<double>(total) / kMiB)
              : std::string();
    fail(ErrorKind::kResource,
         "{}: out of memory{}. Use a smaller expert cache or context, or end other programs that "
         "use the GPU",
         what, left);
  }
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorUnsupportedPtxVersion) {
    fail(ErrorKind::kUnsupported,
         "{}: this build has no kernels for this GPU; name its architecture with -D{}", what,
         kArchitectures);
  }
  fail(ErrorKind::kInternal,
       "{}: {} ({}). If the GPU was lost, `{}` and the kernel log say why; nothing of this "
       "process's GPU memory can be used any more",
       what, cudaGetErrorString(error), cudaGetErrorName(error), kMonitor);
}

// Runs a kernel and reads its result: what a driver, a build or a broken card refuses shows here.
std::string try_gpu(int index) {
  std::int32_t value = 0;
  try {
    select_gpu(index);
    void* answer = allocate_device(sizeof value);
    trial(nullptr, static_cast<std::int32_t*>(answer));
    copy(nullptr, &value, answer, sizeof value);
    synchronize(nullptr);
    free_device(answer);
  } catch (const Error& e) {
    return fmt::format("GPU {} runs no kernel: {}", index, e.what());
  }
  return value == kTrialAnswer
             ? ""
             : fmt::format("GPU {} computed {} where {} was due", index, value, kTrialAnswer);
}

}  // namespace

RuntimeStatus runtime_status(int index) {
  RuntimeStatus status;
  static_cast<void>(cudaRuntimeGetVersion(&status.runtime));
  static_cast<void>(cudaDriverGetVersion(&status.driver));
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (status.driver == 0) {
    status.reason =
        fmt::format("no {} driver was found: install one, then check that `{}` lists the GPU",
                    kVendor, kMonitor);
  } else if (error == cudaErrorInsufficientDriver) {
    status.reason = fmt::format(
        "the {} driver supports version {}, this program needs {}: install a newer driver", kVendor,
        version_text(status.driver), version_text(status.runtime));
  } else if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0)) {
    status.reason =
        fmt::format("the {} driver sees no GPU; is {} set to hide it?", kVendor, kHidden);
  } else if (error != cudaSuccess) {
    status.reason = fmt::format("cudaGetDeviceCount: {} ({})", cudaGetErrorString(error),
                                cudaGetErrorName(error));
  }
  static_cast<void>(cudaGetLastError());
  if (!status.reason.empty()) return status;
  for (int i = 0; i < count; ++i) status.gpus.push_back(gpu_info(i));
  if (index < 0 || index >= count) {
    status.reason =
        fmt::format("there is no GPU {}: the driver lists {}, numbered from 0", index, count);
    return status;
  }
  const Gpu& gpu = status.gpus[static_cast<std::size_t>(index)];
  if (10 * gpu.major + gpu.minor < kLeastCapability) {
    status.reason =
        fmt::format("GPU {} ({}) has compute capability {}.{}, and {}.{} or newer is needed", index,
                    gpu.name, gpu.major, gpu.minor, kLeastCapability / 10, kLeastCapability % 10);
    return status;
  }
  status.reason = try_gpu(index);
  status.usable = status.reason.empty();
  return status;
}

void select_gpu(int index) { check(cudaSetDevice(index), "cudaSetDevice({})", index); }

Gpu gpu_info(int index) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties of GPU {}", index);
#ifdef STRATA_HIP
  const bool int8_tiles = false;  // not written for its matrix cores: the plain kernels, same bits
  const bool graphs = false;      // not tried
#else
  const bool int8_tiles = p.major >= 8;
  // With this set a launch returns when all is done; a graph that waits for the host never is.
  const char* const blocking = std::getenv("CUDA_LAUNCH_BLOCKING");
  const bool graphs = blocking == nullptr || std::string_view(blocking) == "0";
#endif
  return {index,      p.name, p.major, p.minor, p.multiProcessorCount, p.totalGlobalMem,
          int8_tiles, graphs};
}

std::size_t free_device_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

void* allocate_device(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc of {:.1f} MiB", static_cast<double>(bytes) / kMiB);
  return memory;
}

void free_device(void* memory) noexcept { static_cast<void>(cudaFree(memory)); }

void* allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
        "cudaHostAlloc of {:.1f} MiB of host memory", static_cast<double>(bytes) / kMiB);
  return memory;
}

void free_pinned(void* memory) noexcept { static_cast<void>(cudaFreeHost(memory)); }

void pin(const void* memory, std::size_t bytes) {
  const cudaError_t error = cudaHostRegister(const_cast<void*>(memory), bytes,
                                             cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  fail(ErrorKind::kResource, "cudaHostRegister of {:.1f} MiB of host memory: {} ({})",
       static_cast<double>(bytes) / kMiB, cudaGetErrorString(error), cudaGetErrorName(error));
}
void unpin(const void* memory) noexcept {
  static_cast<void>(cudaHostUnregister(const_cast<void*>(memory)));
}

Stream create_stream() {
  Stream stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

void destroy_stream(Stream stream) noexcept { static_cast<void>(cudaStreamDestroy(stream)); }

void synchronize(Stream stream) { check(cudaStreamSynchronize(stream), "cudaStreamSynchronize"); }

void copy(Stream stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync of {} bytes",
        bytes);
}

void fill_zero(Stream stream, void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync of {} bytes", bytes);
}

Event create_event() {
  Event event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}

void destroy_event(Event event) noexcept { static_cast<void>(cudaEventDestroy(event)); }

void record(Event event, Stream stream) {
#ifndef STRATA_HIP
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  if (status == cudaStreamCaptureStatusActive) {  // a node of the graph, not an order of its nodes
    check(cudaEventRecordWithFlags(event, stream, cudaEventRecordExternal),
          "cudaEventRecordWithFlags");
    return;
  }
#endif
  check(cudaEventRecord(event, stream), "cudaEventRecord");
}

void wait_for(Stream stream, Event event) {
  check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
}

float elapsed_ms(Event from, Event to) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, from, to), "cudaEventElapsedTime");
  return ms;
}

#ifdef STRATA_HIP
void begin_capture(Stream) { fail(ErrorKind::kUnsupported, "graphs are not used with HIP"); }
Graph end_capture(Stream) { return nullptr; }
void abandon_capture(Stream) noexcept {}
void launch_graph(Graph, Stream) {}
void destroy_graph(Graph) noexcept {}
#else
// Relaxed: other threads' copies go on, and what a scratch still lacks can be allocated.
void begin_capture(Stream stream) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
}

Graph end_capture(Stream stream) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  Graph program = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&program, graph, 0);
  static_cast<void>(cudaGraphDestroy(graph));
  check(error, "cudaGraphInstantiate");
  return program;
}

void abandon_capture(Stream stream) noexcept {
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(stream, &graph) == cudaSuccess && graph != nullptr) {
    static_cast<void>(cudaGraphDestroy(graph));
  }
  static_cast<void>(cudaGetLastError());
}

void launch_graph(Graph graph, Stream stream) {
  check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
}

void destroy_graph(Graph graph) noexcept { static_cast<void>(cudaGraphExecDestroy(graph)); }
#endif

bool is_done(Stream stream) {
  const cudaError_t error = cudaStreamQuery(stream);
  if (error == cudaErrorNotReady) return false;
  check(error, "cudaStreamQuery");
  return true;
}

void check_launch(const char* kernel) { check(cudaGetLastError(), "kernel {}", kernel); }

}  // namespace strata::cuda
