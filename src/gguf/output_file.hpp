// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace strata::gguf {

class OutputFile {
 public:
  // Creates a file with a temporary name beside `path` and reserves `size` bytes for it where the
  // file system can, so that a full disk shows before the work. Error(kIo), Error(kResource) for
  // want of space; the same from write and finish.
  OutputFile(std::filesystem::path path, std::uint64_t size);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  // Removes what was not published.
  ~OutputFile();

  void write(std::span<const std::byte> bytes);
  // All bytes are on the disk when it returns; nothing may be written after.
  void finish();
  // Gives the finished file its name, replacing what had it.
  void publish();

 private:
  [[noreturn]] void fail_errno(const char* action) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;  // empty: published or moved from
  std::uint64_t written_ = 0;
  std::uint64_t size_;
  int fd_ = -1;
};

}  // namespace strata::gguf
