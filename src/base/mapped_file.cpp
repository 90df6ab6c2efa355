#include "strata/base/mapped_file.hpp"

#include "strata/base/error.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace strata {
namespace {

constexpr std::size_t kPage = 4096;

struct OpenFile {
  int fd;
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile MappedFile::open(const std::filesystem::path& path) {
  const OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail(ErrorKind::kIo, "{}: cannot open: {}", path.string(), std::strerror(errno));
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) {
    fail(ErrorKind::kIo, "{}: cannot read its size: {}", path.string(), std::strerror(errno));
  }
  if (S_ISDIR(info.st_mode)) {
    fail(ErrorKind::kInput, "{}: is a directory; give the path of a file in it", path.string());
  }
  if (info.st_size == 0) fail(ErrorKind::kInput, "{}: the file is empty", path.string());
  const auto size = static_cast<std::size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (data == MAP_FAILED) {
    fail(ErrorKind::kIo, "{}: cannot map {} bytes: {}", path.string(), size, std::strerror(errno));
  }
  MappedFile mapped;
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = size;
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::size_t offset, std::size_t size) const noexcept {
  const std::size_t begin = (offset + kPage - 1) / kPage * kPage;
  const std::size_t end = (offset + size) / kPage * kPage;
  if (begin < end && end <= size_) {
    ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace strata
