// A whole file mapped read-only. Movable; unmapped when destroyed.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace strata {

class MappedFile {
 public:
  MappedFile() = default;
  // Error(kIo) when the file cannot be opened or mapped, Error(kInput) for a directory or an empty
  // file.
  [[nodiscard]] static MappedFile open(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  // Drops the pages fully inside [offset, offset+size) from our resident set; they are read again
  // when touched.
  void release(std::size_t offset, std::size_t size) const noexcept;

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace strata
