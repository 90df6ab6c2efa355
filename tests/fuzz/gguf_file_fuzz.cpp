// The GGUF reader on arbitrary bytes: one file, or shards with "\n--shard--\n" between them.
#include "tests/gguf/any_bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  strata::gguf::test::read_any_bytes({reinterpret_cast<const char*>(data), size});
  return 0;
}
