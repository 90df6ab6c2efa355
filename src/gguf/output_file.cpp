#include "src/gguf/output_file.hpp"

#include "strata/base/error.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace strata::gguf {
namespace {

bool is_lack_of_space(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, std::uint64_t size)
    : path_(std::move(path)), size_(size) {
  // A name of our own that nobody else has: another process may be writing the same file.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && fd_ < 0; ++i) {
    temporary_ = path_;
    temporary_ += fmt::format(".{}-{}.partial", ::getpid(), i);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) {
    const std::filesystem::path tried = std::exchange(temporary_, {});
    fail(ErrorKind::kIo, "{}: cannot create it: {}", tried.string(), std::strerror(errno));
  }
  // Only the lack of space counts here: some file systems cannot reserve and say so in various
  // ways.
  if (size_ > 0 && ::fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size_)) != 0 &&
      is_lack_of_space(errno)) {
    const int error = errno;
    ::close(fd_);
    ::unlink(temporary_.c_str());
    errno = error;
    fail_errno("reserve space");
  }
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      written_(other.written_),
      size_(other.size_),
      fd_(std::exchange(other.fd_, -1)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_errno("write");
    written_ += static_cast<std::uint64_t>(done);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

void OutputFile::finish() {
  if (::fsync(fd_) != 0) fail_errno("flush");
  if (::close(std::exchange(fd_, -1)) != 0) fail_errno("close");
}

void OutputFile::publish() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno("rename the finished file");
  temporary_.clear();
}

void OutputFile::fail_errno(const char* action) const {
  const int error = errno;
  if (is_lack_of_space(error)) {
    fail(ErrorKind::kResource,
         "{}: cannot {}: {} after {} of {} bytes; free space or choose another place",
         path_.string(), action, std::strerror(error), written_, size_);
  }
  fail(ErrorKind::kIo, "{}: cannot {}: {} after {} of {} bytes", path_.string(), action,
       std::strerror(error), written_, size_);
}

}  // namespace strata::gguf
