// The fuzzer's seeds, read without a fuzzer: every one is what its name says, valid or broken.
#include "tests/gguf/any_bytes.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace strata::gguf {
namespace {

TEST(Corpus, ReadsWithoutHarm) {
  const std::filesystem::path folder =
      std::filesystem::path(STRATA_SOURCE_DIR) / "tests/fuzz/corpus/gguf_file_fuzz";
  std::size_t valid = 0;
  std::size_t broken = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const std::string name = entry.path().filename().string();
    const bool should_open = name.starts_with("valid");
    EXPECT_EQ(test::read_any_bytes(bytes), should_open) << name;
    ++(should_open ? valid : broken);
  }
  EXPECT_GE(valid, 5u);
  EXPECT_GE(broken, 5u);
}

}  // namespace
}  // namespace strata::gguf
