// Owned, aligned memory for weights and caches.
#pragma once

#include <cstddef>
#include <span>

namespace strata {

// Anonymous zeroed memory, 2 MiB aligned and advised to huge pages when it is large. Untouched pages cost nothing.
// Error(kResource), with the size asked for, when the system refuses.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] std::byte* data() noexcept { return data_; }
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data_, size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  template <class T>
  [[nodiscard]] T* as() noexcept {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  [[nodiscard]] const T* as() const noexcept {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;      // as asked
  std::size_t mapped_ = 0;    // as mapped
  std::byte* map_ = nullptr;
};

// Bytes a second that `pool` reads from memory: the median of several passes of all its threads over a buffer far larger
// than the caches. About 0.3 s. The ceiling that every GB/s we print is a share of.
class ThreadPool;
[[nodiscard]] double measure_read_bandwidth(ThreadPool& pool);

}  // namespace strata
