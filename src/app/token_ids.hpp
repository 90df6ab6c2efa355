// Rows of token ids from a file, for scoring.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace strata::app {

using TokenRows = std::vector<std::vector<std::int32_t>>;

// A .npy file (format 1 to 3: one or two dimensions of little-endian i4 or i8, in C order), or
// JSON: an array of ids or of such arrays. Error(kInput) for anything else, Error(kIo) as
// read_text_file.
[[nodiscard]] TokenRows read_token_rows(const std::filesystem::path& path);

}  // namespace strata::app
