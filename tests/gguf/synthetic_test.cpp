// Models of tools/make_synthetic.py, read back: the Python writer and this reader agree on the
// format.
#include "strata/gguf/file.hpp"
#include "tests/gguf/temp_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

namespace strata::gguf {
namespace {

constexpr const char* kTiny =
    " --layers 2 --embd 256 --experts 4 --used 2 --ff 256 --heads 4 --kv-heads 2 --head-dim 64 "
    "--vocab 300 ";

class Synthetic : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "needs python3";
  }
  void make(const std::string& options) {
    const std::string command = std::string("python3 '") + STRATA_SOURCE_DIR +
                                "/tools/make_synthetic.py' '" + path().string() + "'" + kTiny +
                                options + " > /dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "m.gguf"; }

  test::TempFolder folder_;
};

TEST_F(Synthetic, OfEveryType) {
  for (const std::string type :
       {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"}) {
    make("--untied --expert-type " + type + " --dense-type " + type + " --head-type " + type);
    const File file = File::open(path());
    EXPECT_EQ(file.get_string("general.architecture"), "qwen3moe");
    EXPECT_EQ(file.get_int("qwen3moe.expert_count"), 4);
    EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens")->size(), 300u);
    EXPECT_EQ(file.tensors().size(), 27u);
    for (const char* name : {"token_embd.weight", "output.weight", "blk.1.attn_q.weight",
                             "blk.0.ffn_up_exps.weight", "blk.1.ffn_down_exps.weight"}) {
      const TensorInfo* tensor = file.find_tensor(name);
      ASSERT_NE(tensor, nullptr) << name;
      EXPECT_EQ(traits(tensor->type).name, type) << name;
    }
    const TensorInfo& norm = *file.find_tensor("blk.0.attn_norm.weight");
    float first = 0;
    std::memcpy(&first, norm.data.data(), sizeof(first));
    EXPECT_NEAR(first, 1.0F, 0.6F) << "data starts where it should";
  }
}

TEST_F(Synthetic, Mixed) {
  make("--mixed");
  const File file = File::open(path());
  std::set<Type> types;
  for (const TensorInfo& tensor : file.tensors()) types.insert(tensor.type);
  EXPECT_EQ(types.size(), 11u);
}

TEST_F(Synthetic, Split) {
  make("");
  const File whole = File::open(path());
  make("--split-bytes 500K");
  const auto count = static_cast<std::ptrdiff_t>(folder_.names().size()) - 1;
  ASSERT_GT(count, 1);
  ASSERT_LT(count, 10);
  const File split = File::open(folder_ / ("m-00001-of-0000" + std::to_string(count) + ".gguf"));
  EXPECT_EQ(split.shard_count(), static_cast<std::size_t>(count));
  ASSERT_EQ(split.tensors().size(), whole.tensors().size());
  for (std::size_t i = 0; i < whole.tensors().size(); ++i) {
    const TensorInfo& a = whole.tensors()[i];
    const TensorInfo& b = split.tensors()[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.ne, b.ne);
    ASSERT_EQ(a.data.size(), b.data.size());
    EXPECT_EQ(std::memcmp(a.data.data(), b.data.data(), a.data.size()), 0) << a.name;
  }
}

}  // namespace
}  // namespace strata::gguf
