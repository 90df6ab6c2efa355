#include "strata/base/file_io.hpp"

#include "strata/base/error.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace strata {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_io(const fs::path& path, std::string_view what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  fail(full ? ErrorKind::kResource : ErrorKind::kIo, "{}: {}: {}", path.string(), what,
       std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  // Some file systems report a failed write only here.
  [[nodiscard]] bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

int open_retrying(const fs::path& path, int flags, mode_t mode = 0) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EINTR) return fd;
  }
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail_io(path, "cannot write", errno);
    }
  }
}

// A new file beside `path`, removed again unless it is renamed to it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& path) : target_(path), file_(create()) {}
  ~TemporaryFile() {
    if (!renamed_) ::unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::byte> bytes) { write_all(file_.get(), bytes, target_); }
  void set_permissions(mode_t mode) {
    if (::fchmod(file_.get(), mode) != 0) fail_io(target_, "cannot keep its permissions", errno);
  }
  void publish() {
    if (::fsync(file_.get()) != 0) fail_io(target_, "cannot flush to the disk", errno);
    if (!file_.close()) fail_io(target_, "cannot close", errno);
    if (::rename(name_.c_str(), target_.c_str()) != 0) fail_io(target_, "cannot replace", errno);
    renamed_ = true;
  }

 private:
  int create() {
    constexpr int kAttempts = 1000;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      name_ = target_;
      name_ += fmt::format(".{}-{}.tmp", ::getpid(), attempt);
      const int fd = open_retrying(name_, O_WRONLY | O_CREAT | O_EXCL, 0666);
      if (fd >= 0) return fd;
      if (errno != EEXIST) break;
    }
    fail_io(target_, "cannot create a file beside it", errno);
  }

  fs::path target_;
  fs::path name_;
  Descriptor file_;
  bool renamed_ = false;
};

// A rename survives a power cut once its folder is flushed. Not every file system can, and the
// file itself is safe already: no error.
void flush_folder(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const Descriptor descriptor(open_retrying(folder, O_RDONLY | O_DIRECTORY));
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

void write_in_place(const fs::path& path, std::span<const std::byte> bytes) {
  Descriptor file(open_retrying(path, O_WRONLY));
  if (file.get() < 0) fail_io(path, "cannot open for writing", errno);
  write_all(file.get(), bytes, path);
  if (!file.close()) fail_io(path, "cannot close", errno);
}

// Where a symbolic link leads, also when nothing is there yet.
fs::path follow_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as the kernel counts
  std::error_code error;
  for (int links = 0; fs::is_symlink(path, error); ++links) {
    if (links == kMostLinks) fail_io(path, "cannot follow the link", ELOOP);
    const fs::path next = fs::read_symlink(path, error);
    if (error) fail_io(path, "cannot follow the link", error.value());
    path = path.parent_path() / next;  // which is `next` alone where that is absolute
  }
  return path;
}

}  // namespace

void write_atomically(const fs::path& path, std::span<const std::byte> bytes) {
  struct stat info {};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    fail(ErrorKind::kIo, "{}: is a directory; give the path of a file", path.string());
  }
  if (exists && !S_ISREG(info.st_mode)) return write_in_place(path, bytes);
  const fs::path target = follow_links(path);
  TemporaryFile file(target);
  if (exists) file.set_permissions(info.st_mode & 07777U);
  file.write(bytes);
  file.publish();
  flush_folder(target);
}

void write_atomically(const fs::path& path, std::string_view text) {
  write_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

std::string read_text_file(const fs::path& path, std::size_t max_bytes) {
  const Descriptor file(open_retrying(path, O_RDONLY));
  if (file.get() < 0) fail_io(path, "cannot open", errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_io(path, "cannot look at", errno);
  if (S_ISDIR(info.st_mode)) {
    fail(ErrorKind::kInput, "{}: is a directory; give the path of a file in it", path.string());
  }
  constexpr std::size_t kChunk = 65536;
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    const ssize_t got = ::read(file.get(), text.data() + before, kChunk);
    const int error = errno;
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && error != EINTR) fail_io(path, "cannot read", error);
    if (text.size() > max_bytes) {
      fail(ErrorKind::kInput, "{}: has more than the {} bytes allowed here", path.string(),
           max_bytes);
    }
  }
}

}  // namespace strata
