// Any bytes as an expert profile: refused with an Error, or read and written back the same.
#include "strata/base/error.hpp"
#include "strata/core/profile.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const auto profile = strata::core::parse_profile(bytes, "fuzz");
    const auto again = strata::core::serialise_profile(profile);
    if (!std::equal(bytes.begin(), bytes.end(), again.begin(), again.end())) std::abort();
  } catch (const strata::Error&) {
    return 0;
  }
  return 0;
}
