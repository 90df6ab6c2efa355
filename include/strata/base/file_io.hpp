// Small whole files: reports, profiles, prompts. Model files are mapped (mapped_file.hpp).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace strata {

// Makes `path` hold exactly `bytes`: whoever opens it, also after a crash or a power cut, finds the
// old content or the new one, never a part. Written under a temporary name in the same folder,
// flushed to the disk, then renamed; an existing file keeps its permissions, a symbolic link its
// place. What exists and is no regular file (/dev/stdout, a pipe) is written to as it is.
// Error(kResource) when the disk is full, Error(kIo) for anything else; the old content stays.
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_atomically(const std::filesystem::path& path, std::string_view text);

// The bytes of a file, a pipe or a terminal to its end. Error(kIo) when it cannot be opened or
// read, Error(kInput) for a directory or for more than `max_bytes`.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path, std::size_t max_bytes);

}  // namespace strata
