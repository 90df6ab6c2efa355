#include "strata/base/sha256.hpp"

#include "strata/base/error.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace strata {

std::string sha256_hex(std::span<const std::byte> bytes) {
  std::array<unsigned char, 32> digest{};
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    fail(ErrorKind::kInternal, "OpenSSL computes no SHA-256");
  }
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace strata
