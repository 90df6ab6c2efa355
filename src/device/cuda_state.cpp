#include "src/device/cuda_state.hpp"

#include "kernels/cpu/panel.hpp"

#include <utility>

namespace strata::device {

CudaBlock::CudaBlock(std::size_t bytes, bool pinned)
    : data_(static_cast<std::byte*>(pinned ? cuda::allocate_pinned(bytes)
                                           : cuda::allocate_device(bytes))),
      size_(bytes),
      pinned_(pinned) {}

CudaBlock::~CudaBlock() {
  if (data_ == nullptr) return;
  if (pinned_) {
    cuda::free_pinned(data_);
  } else {
    cuda::free_device(data_);
  }
}

void CudaBlock::swap(CudaBlock& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(pinned_, other.pinned_);
}

std::byte* CudaScratch::get(std::size_t bytes) {
  if (bytes > block_.size()) {
    if (in_program_) kept_.push_back(std::move(block_));
    in_program_ = false;
    block_ = CudaBlock();  // freed first, which waits for its users: both need not fit at once
    block_ = CudaBlock(bytes + bytes / 4, false);
  }
  in_program_ = in_program_ || recording_;
  return block_.data();
}

void CudaStaging::begin(std::size_t bytes, int arrays) {
  const std::size_t room = bytes + kAlign * static_cast<std::size_t>(arrays);
  if (room > host_.size()) {
    cuda::synchronize(stream_);
    host_ = CudaBlock();
    device_ = CudaBlock();
    const std::size_t size = std::max(kBytes, 2 * room);
    end_ = 0;
    device_ = CudaBlock(size, false);
    host_ = CudaBlock(size, true);  // last: its size tells that both are there
  } else if (end_ + room > host_.size()) {
    cuda::synchronize(stream_);  // the copies of the last round have read the ring
    end_ = 0;
  }
  begin_ = end_;
}

void CudaStaging::send() {
  if (end_ == begin_) return;
  cuda::copy(stream_, device_.data() + begin_, host_.data() + begin_, end_ - begin_);
}

void CudaStaging::send_to(std::byte* device) {
  cuda::copy(stream_, device, host_.data() + begin_, end_ - begin_);
}

const std::byte* CudaDevice::State::quantize(Rows x) {
  if (normed.data == x.data && normed.count == x.count && normed.width == x.width)
    return panels.get(0);
  normed = {};
  std::byte* out = panels.get(kernels::panel_bytes(x.width, x.count));
  cuda::quantize(stream, x.data, x.count * (x.width / 32), out);
  return out;
}

}  // namespace strata::device
