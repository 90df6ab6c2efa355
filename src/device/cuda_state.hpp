// The CUDA device and what it owns on its GPU.
#pragma once

#include "kernels/cuda/kernels.hpp"
#include "strata/device/cuda_device.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace strata::device {

// Device memory, or pinned host memory, that is freed with its owner.
class CudaBlock {
 public:
  CudaBlock() = default;
  CudaBlock(std::size_t bytes, bool pinned);
  CudaBlock(CudaBlock&& other) noexcept { swap(other); }
  CudaBlock& operator=(CudaBlock&& other) noexcept {
    swap(other);
    return *this;
  }
  ~CudaBlock();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  void swap(CudaBlock& other) noexcept;

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool pinned_ = false;
};

class CudaStream {
 public:
  CudaStream() : stream_(cuda::create_stream()) {}
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() { cuda::destroy_stream(stream_); }
  operator cuda::Stream() const noexcept { return stream_; }

 private:
  cuda::Stream stream_;
};

class CudaEvent {
 public:
  CudaEvent() : event_(cuda::create_event()) {}
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~CudaEvent() {
    if (event_ != nullptr) cuda::destroy_event(event_);
  }
  operator cuda::Event() const noexcept { return event_; }

 private:
  cuda::Event event_;
};

// Device memory that grows to the largest use: no allocation on the token path.
class CudaScratch {
 public:
  // A block that a program was given stays for it, also when a larger one takes its place.
  [[nodiscard]] std::byte* get(std::size_t bytes);
  void set_recording(bool recording) noexcept { recording_ = recording; }
  [[nodiscard]] float* floats(std::int64_t count) {
    return reinterpret_cast<float*>(get(sizeof(float) * static_cast<std::size_t>(count)));
  }

 private:
  CudaBlock block_;
  std::vector<CudaBlock> kept_;
  bool recording_ = false;
  bool in_program_ = false;
};

// Brings small arrays of the host to the device, in one copy an operation: a pinned ring and its
// image on the device. The host waits when it comes round; the device's side is kept in order by
// the stream.
class CudaStaging {
 public:
  explicit CudaStaging(cuda::Stream stream) : stream_(stream) {}
  // Room for arrays of `bytes` in all, `arrays` of them, that are put until send().
  void begin(std::size_t bytes, int arrays);
  // Where the array will be on the device once sent.
  template <class T>
  [[nodiscard]] const T* put(std::span<const T> values) {
    if (!values.empty()) std::memcpy(host_.data() + end_, values.data(), values.size_bytes());
    const auto* there = reinterpret_cast<const T*>(device_.data() + end_);
    end_ += (values.size_bytes() + kAlign - 1) / kAlign * kAlign;
    return there;
  }
  void send();
  // The same to another place on the device, where arrays lie from 16 to 16 bytes.
  void send_to(std::byte* device);
  // All in one, of a single array.
  template <class T>
  [[nodiscard]] const T* bring(std::span<const T> values) {
    begin(values.size_bytes(), 1);
    const T* there = put(values);
    send();
    return there;
  }

 private:
  static constexpr std::size_t kAlign = 16;
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  cuda::Stream stream_;
  CudaBlock host_, device_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const cuda::Gpu& gpu);
  ~CudaDevice() override;

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] bool is_host_memory() const noexcept override { return false; }
  void copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void copy_from_host(std::byte* to, const std::byte* from, std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Pinned> pin(std::span<const std::byte> memory) override;
  [[nodiscard]] std::unique_ptr<Copier> make_copier() override;
  void copy_from_host_later(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void copy_to_host_later(std::byte* to, const std::byte* from, std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Memory> allocate_host(std::size_t bytes) override;
  void synchronize() override;
  int mark() override;
  [[nodiscard]] double seconds(int from, int to) const override;
  void clear_marks() override;
  [[nodiscard]] std::optional<std::size_t> free_bytes() const override;
  [[nodiscard]] std::unique_ptr<Memory> allocate(std::size_t bytes) override;
  [[nodiscard]] std::unique_ptr<Memory> upload(Buffer&& host) override;
  void begin_window(std::span<const WindowRow> rows) override;
  void embed(const Linear& table, Rows out) override;
  void rms_norm(Rows x, const float* weight, float eps, Rows out) override;
  void linear(Rows x, std::span<const LinearOutput> outputs) override;
  void keep_rows(Rows x, std::span<const std::int32_t> kept) override;
  void rope(Rows x, int head_dim, const Rope& rope) override;
  void kv_append(Rows k, Rows v, int layer, const AttentionShape& shape) override;
  void prepare_heads(Rows q, Rows k, Rows v, const HeadNorms& norms, const Rope& rope, int layer,
                     const AttentionShape& shape) override;
  void attention(Rows q, int layer, const AttentionShape& shape, Rows out) override;
  void route(Rows logits, const RouterShape& shape, std::int32_t* ids, float* weights) override;
  void experts(Rows x, const quant::ExpertLayout& layout, std::span<const ExpertWork> work,
               Rows parts) override;
  void combine(Rows parts, const float* weights, int ranks, Rows x) override;
  [[nodiscard]] bool can_record() const noexcept override;
  void begin_recording() override;
  [[nodiscard]] std::unique_ptr<Program> end_recording() override;
  void abandon_recording() noexcept override;
  [[nodiscard]] int window_kind() const noexcept override;
  [[nodiscard]] std::uint64_t window_number() const noexcept override;
  void start(Program& program) override;
  [[nodiscard]] bool is_done() override;
  void experts_held(Rows x, const quant::ExpertLayout& layout, const std::int32_t* ids,
                    const float* weights, const Exchange& exchange, int layer, Rows parts) override;
  void combine_held(Rows parts, const float* weights, const Exchange& exchange, int layer,
                    Rows x) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] inline cuda::Place to_place(const WindowRow& r) noexcept {
  using cuda::Cells;
  const Cells cells = r.cache.type == KvType::kF16   ? Cells::kF16
                      : r.cache.type == KvType::kF32 ? Cells::kF32
                                                     : Cells::kQ8;
  const KvLayer first = r.cache.layer(0);
  return {first.keys, first.values, 2 * r.cache.layer_bytes, cells, r.cache.capacity, r.position,
          0};
}

// The rows of the calls that follow, as kernels read them. Those of a window that can be noted lie
// where they lie in every such window.
struct CudaWindow {
  CudaBlock few;     // kProgramRows
  CudaScratch many;  // more
  const std::uint64_t* number = nullptr;
  const std::int32_t* tokens = nullptr;
  const cuda::Place* places = nullptr;
  const cuda::QueryRows* single = nullptr;  // each row for itself; only of a few
  std::uint64_t begun = 0;                  // the last window's number
  int rows = 0;
  int chunks = 0;  // of attention, of the row with most
};

// A graph, and the events of the marks in it.
class CudaProgram final : public Program {
 public:
  CudaProgram(cuda::Graph graph, std::vector<CudaEvent>&& events)
      : graph_(graph), events_(std::move(events)) {}
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;
  ~CudaProgram() override { cuda::destroy_graph(graph_); }
  [[nodiscard]] double seconds(int from, int to) const override {
    const auto event = [this](int mark) -> cuda::Event {
      return events_[static_cast<std::size_t>(mark)];
    };
    return cuda::elapsed_ms(event(from), event(to)) * 1e-3;
  }
  [[nodiscard]] cuda::Graph graph() const noexcept { return graph_; }

 private:
  cuda::Graph graph_;
  std::vector<CudaEvent> events_;
};

// Jobs of at most 1, 2, 4 and 8 columns, and of more, for tensor cores.
inline constexpr int kJobWidths = 5;

struct CudaDevice::State {
  explicit State(const cuda::Gpu& g) : gpu(g) {}

  // Any thread may make the next call: it has to name the GPU.
  [[nodiscard]] cuda::Stream use() const {
    cuda::select_gpu(gpu.index);
    return stream;
  }

  // Whether many columns of a type are multiplied on tensor cores. The bits are the same.
  [[nodiscard]] bool in_tiles(gguf::Type type) const noexcept {
    return gpu.int8_tiles && !quant::is_float(type);
  }
  // x quantised as panels of one token; as they are, if rms_norm() wrote them with x.
  [[nodiscard]] const std::byte* quantize(Rows x);
  // Rows are about to be written: panels of them are no longer theirs.
  void writes(const float* rows) noexcept {
    if (normed.data == rows) normed = {};
  }

  void set_recording(bool on) noexcept;

  struct Experts;  // one call of experts(): cuda_experts.cpp

  cuda::Gpu gpu;
  CudaStream stream;
  CudaStaging staging{stream};
  CudaWindow window;
  CudaScratch panels, gate_up, hidden, partials, dispatched;
  Rows normed;  // whose panels are in `panels`
  bool recording = false;
  std::vector<CudaEvent> recorded_events;
  std::vector<std::int32_t> tokens;
  std::vector<cuda::Place> places;
  std::vector<cuda::QueryRows> tiles;
  std::vector<cuda::DotJob> jobs[kJobWidths];
  std::vector<std::int32_t> x_rows, out_rows;
  std::vector<bool> done;  // of linear()'s outputs
  std::vector<CudaEvent> events;
  std::size_t marks = 0;  // events in use
};

}  // namespace strata::device
