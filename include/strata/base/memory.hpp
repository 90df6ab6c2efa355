// Owned, aligned memory for weights and caches.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace strata {

class ThreadPool;

// Anonymous zeroed memory, aligned to 4 KiB, or when it is at least 2 MiB large to 2 MiB and
// advised to huge pages. Untouched pages cost nothing. Movable; not safe for concurrent moves.
// Error(kResource), with the size asked for, when the system refuses or has less memory than that:
// Linux would grant the addresses and end the program when it touches them.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size);  // 0: an empty buffer
  // In a file without a name in `folder`, gone with the buffer: for what is larger than memory.
  // The system writes pages out and reads them back as it needs room. Error(kIo) when no file can
  // be made there, Error(kResource) when the disk has less than `size` bytes left.
  [[nodiscard]] static Buffer in_file(const std::filesystem::path& folder, std::size_t size);
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
  std::size_t size_ = 0;    // as asked
  std::size_t mapped_ = 0;  // from data_, in whole pages
};

// Bytes of memory this process may use: the machine's, or its control group's limit (v1 or v2, of
// the group itself or one above it) where that is lower.
[[nodiscard]] std::size_t memory_limit_bytes();

// What of that is free or can be freed at once (MemAvailable); the same as memory_limit_bytes()
// where the system does not say. A control group's own usage is not subtracted.
[[nodiscard]] std::size_t available_memory_bytes();

// Bytes a second that `pool` reads from memory: the median of several passes of all its threads
// over a buffer of `bytes` (at least 2 MiB a thread), each thread through a part of its own first.
// By default the buffer is 8 times the last-level caches, at least 512 MiB, but at most 1/8 of
// memory_limit_bytes(), and a call takes about 0.4 s. The ceiling that every GB/s we print is a
// share of. Error(kResource) when that memory is refused.
[[nodiscard]] double measure_read_bandwidth(ThreadPool& pool, std::size_t bytes = 0);

}  // namespace strata
