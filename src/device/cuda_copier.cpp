// Copies to the GPU beside its calls, and the host memory they come from.
#include "src/device/cuda_state.hpp"

namespace strata::device {
namespace {

// A stream of its own beside the device's.
class CudaCopier final : public Copier {
 public:
  CudaCopier(int gpu, cuda::Stream calls) : gpu_(gpu), calls_(calls) {}
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    begin(to, from, bytes);
    cuda::synchronize(stream_);
  }
  void begin(std::byte* to, const std::byte* from, std::size_t bytes) override {
    cuda::select_gpu(gpu_);  // of the thread that copies
    cuda::copy(stream_, to, from, bytes);
  }
  void note_calls(int i) override {
    cuda::select_gpu(gpu_);
    cuda::record(called_[i], calls_);
  }
  void wait_for_calls(int i) override { cuda::wait_for(stream_, called_[i]); }
  void note_copies(int i) override { cuda::record(copied_[i], stream_); }
  void wait_for_copies(int i) override { cuda::wait_for(calls_, copied_[i]); }

 private:
  int gpu_;
  cuda::Stream calls_;
  CudaStream stream_;
  CudaEvent called_[kNotes];
  CudaEvent copied_[kNotes];
};

class CudaPinned final : public Pinned {
 public:
  // In one piece: no copy may cross from one to another.
  explicit CudaPinned(std::span<const std::byte> memory) : memory_(memory.data()) {
    cuda::pin(memory_, memory.size());
  }
  CudaPinned(const CudaPinned&) = delete;
  CudaPinned& operator=(const CudaPinned&) = delete;
  ~CudaPinned() override { cuda::unpin(memory_); }

 private:
  const void* memory_;
};

}  // namespace

std::unique_ptr<Copier> CudaDevice::make_copier() {
  return std::make_unique<CudaCopier>(state_->gpu.index, state_->use());
}

std::unique_ptr<Pinned> CudaDevice::pin(std::span<const std::byte> memory) {
  static_cast<void>(state_->use());
  return std::make_unique<CudaPinned>(memory);
}

}  // namespace strata::device
