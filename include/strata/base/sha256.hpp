// SHA-256 (FIPS 180-4): names the exact bytes of a file, as `sha256sum FILE` does.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace strata {

// 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace strata
