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
  void hold_calls() override {
    cuda::record(copied_, stream_);
    cuda::wait_for(calls_, copied_);
  }

 private:
  int gpu_;
  cuda::Stream calls_;
  CudaStream stream_;
  CudaEvent called_[kNotes];
  CudaEvent copied_;
};

class CudaPinned final : public Pinned {
 public:
  CudaPinned() = default;
  CudaPinned(const CudaPinned&) = delete;
  CudaPinned& operator=(const CudaPinned&) = delete;
  // In slices: a driver refuses what is large at once.
  void add(std::span<const std::byte> memory) {
    constexpr std::size_t kSlice = std::size_t{256} << 20;
    for (std::size_t done = 0; done < memory.size(); done += kSlice) {
      const auto slice = memory.subspan(done, std::min(kSlice, memory.size() - done));
      cuda::pin(slice.data(), slice.size());
      slices_.push_back(slice.data());
    }
  }
  ~CudaPinned() override {
    for (const void* slice : slices_) cuda::unpin(slice);
  }

 private:
  std::vector<const void*> slices_;
};

}  // namespace

std::unique_ptr<Copier> CudaDevice::make_copier() {
  return std::make_unique<CudaCopier>(state_->gpu.index, state_->use());
}

std::unique_ptr<Pinned> CudaDevice::pin(std::span<const std::byte> memory) {
  static_cast<void>(state_->use());
  auto pinned = std::make_unique<CudaPinned>();
  pinned->add(memory);
  return pinned;
}

}  // namespace strata::device
