#include "strata/base/memory.hpp"

#include "src/base/cgroup.hpp"
#include "strata/base/error.hpp"
#include "strata/base/thread_pool.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace strata {
namespace {

constexpr double kBytesPerMiB = 1 << 20;
constexpr std::size_t kSmallPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Below this size a buffer is not worth reading the control group's files.
constexpr std::size_t kCheckLimitFrom = std::size_t{256} << 20;

[[noreturn]] void refuse(std::size_t size, const std::string& why) {
  fail(ErrorKind::kResource, "cannot allocate {:.1f} MiB of memory: {}",
       static_cast<double>(size) / kBytesPerMiB, why);
}

// Maps `mapped` bytes at a multiple of `alignment`, itself a multiple of the page.
std::byte* map_aligned(std::size_t mapped, std::size_t alignment, std::size_t asked) {
  const std::size_t slack = alignment - kSmallPage;
  void* const map =
      ::mmap(nullptr, mapped + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) refuse(asked, std::strerror(errno));
  auto* const begin = static_cast<std::byte*>(map);
  const auto address = reinterpret_cast<std::uintptr_t>(map);
  const std::size_t head = (alignment - address % alignment) % alignment;
  if (head > 0) ::munmap(begin, head);
  if (head < slack) ::munmap(begin + head + mapped, slack - head);
  return begin + head;
}

}  // namespace

Buffer::Buffer(std::size_t size) {
  if (size == 0) return;
  if (size > std::numeric_limits<std::size_t>::max() / 2) refuse(size, "no machine has as much");
  if (size >= kCheckLimitFrom) {
    const std::size_t limit = memory_limit_bytes();
    if (size > limit) {
      refuse(size, fmt::format("this machine or control group has {:.1f} MiB",
                               static_cast<double>(limit) / kBytesPerMiB));
    }
  }
  const bool huge = size >= kHugePage;
  mapped_ = (size + kSmallPage - 1) / kSmallPage * kSmallPage;
  data_ = map_aligned(mapped_, huge ? kHugePage : kSmallPage, size);
  size_ = size;
  // Advice: a kernel without huge pages refuses it, and the buffer is as good, only slower.
  if (huge) ::madvise(data_, mapped_, MADV_HUGEPAGE);
}

Buffer Buffer::in_file(const std::filesystem::path& folder, std::size_t size) {
  Buffer buffer;
  if (size == 0) return buffer;
  std::string name = (folder / "strata-XXXXXX").string();
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) {
    fail(ErrorKind::kIo, "{}: cannot make a file there: {}", folder.string(), std::strerror(errno));
  }
  ::unlink(name.c_str());
  // Reserves the blocks now: a full disk would end the program at a later write.
  const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(size));
  void* const map =
      error != 0 ? MAP_FAILED : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int reason = error != 0 ? error : errno;
  ::close(fd);
  if (map == MAP_FAILED) {
    fail(ErrorKind::kResource, "{}: cannot have a file of {:.1f} MiB there: {}", folder.string(),
         static_cast<double>(size) / kBytesPerMiB, std::strerror(reason));
  }
  buffer.data_ = static_cast<std::byte*>(map);
  buffer.size_ = size;
  buffer.mapped_ = (size + kSmallPage - 1) / kSmallPage * kSmallPage;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::munmap(data_, mapped_);
}

std::size_t memory_limit_bytes() {
  const auto machine = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                       static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(machine, read_cgroup_limits().memory_bytes);
}

std::size_t available_memory_bytes() {
  const std::size_t limit = memory_limit_bytes();
  std::ifstream info("/proc/meminfo");
  std::string key;
  std::size_t kib = 0;
  for (std::string unit; info >> key >> kib; std::getline(info, unit)) {
    if (key == "MemAvailable:") return std::min(limit, kib * 1024);
  }
  return limit;
}

}  // namespace strata
