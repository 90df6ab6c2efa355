// Files that are broken and requests that cannot be met: each ends with one clear error and its
// exit code, never with a crash.
#include "tests/app/program.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace strata::app::test {
namespace {

namespace fs = std::filesystem;
using gguf::test::TempFolder;
using testing::TinyModel;
using testing::TinyShape;

class Broken : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path path() const { return folder_ / "model.gguf"; }

  // One token of an answer: everything is loaded and computed.
  [[nodiscard]] Ended run_model(const std::string& prompt = "Hello") const {
    return run({"run", path(), "--raw", prompt, "-n", "1", "-q", "-t", "1"});
  }
  [[nodiscard]] Ended run_model(const TinyModel& model) const {
    model.write(path());
    return run_model();
  }

  TempFolder folder_;
};

// Cuts a file from its end in steps: every prefix is refused.
void expect_cuts_refused(const fs::path& path, std::uintmax_t step) {
  for (std::uintmax_t size = (fs::file_size(path) - 1) / step * step; size > 0; size -= step) {
    fs::resize_file(path, size);
    const Ended ended = run({"run", path, "--raw", "Hello", "-n", "1", "-q"});
    expect_error(ended, 3, {path.filename()});
    if (::testing::Test::HasFailure()) {
      FAIL() << "cut to " << size << " bytes";
    }
  }
}

TEST_F(Broken, CutAtEvery4KiB) {
  TinyShape shape;
  shape.vocab = 600;
  const TinyModel model(shape);
  EXPECT_EQ(run_model(model).code, 0);
  ASSERT_GT(fs::file_size(path()), 100'000U);
  expect_cuts_refused(path(), 4096);
}

TEST_F(Broken, TheDemoModelCutAtEvery512KiB) {
  fs::copy_file(kDemo, path());
  expect_cuts_refused(path(), std::uintmax_t{512} << 10);
}

// What a field is changed to: nullopt leaves it out.
struct Corruption {
  std::string what;
  std::optional<TinyModel::Value> value;
};
std::vector<Corruption> corruptions_of(const TinyModel::Value& value) {
  std::vector<Corruption> all = {{"missing", std::nullopt}};
  if (std::holds_alternative<std::string>(value)) {
    all.push_back({"another text", std::string("no such thing")});
    all.push_back({"empty", std::string()});
    all.push_back({"a number", std::uint32_t{7}});
  } else if (std::holds_alternative<std::vector<std::string>>(value)) {
    all.push_back({"empty", std::vector<std::string>{}});
    all.push_back({"other items", std::vector<std::string>{"x", "", "\xFF"}});
    all.push_back({"a number", std::uint32_t{7}});
  } else {
    all.push_back({"a text", std::string("7")});
    all.push_back({"0", std::uint32_t{0}});
    all.push_back({"negative", std::int32_t{-1}});
    all.push_back({"huge", ~std::uint64_t{0}});
    all.push_back({"not a number", std::numeric_limits<double>::quiet_NaN()});
  }
  return all;
}

// Each field in each way: the model runs all the same (a name or a default), or the error is about
// the file.
TEST_F(Broken, EveryMetadataFieldCorrupted) {
  const TinyModel good({});
  for (const auto& [key, value] : good.metadata) {
    for (const Corruption& corruption : corruptions_of(value)) {
      SCOPED_TRACE(key + " " + corruption.what);
      TinyModel model = good;
      model.metadata.erase(key);
      if (corruption.value) model.metadata[key] = *corruption.value;
      const Ended ended = run_model(model);
      if (ended.code != 0) expect_error(ended, 3, {});
    }
  }
}

// Fields without which nothing can be computed: the error names them.
TEST_F(Broken, MissingFieldsAreNamed) {
  for (const char* key :
       {"general.architecture", "qwen3moe.block_count", "qwen3moe.embedding_length",
        "qwen3moe.context_length", "qwen3moe.attention.head_count", "qwen3moe.expert_count",
        "qwen3moe.expert_used_count", "qwen3moe.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    TinyModel model({});
    ASSERT_EQ(model.metadata.erase(key), 1U) << key;
    expect_error(run_model(model), 3, {"model.gguf", key});
  }
}

TEST_F(Broken, MissingAndMisshapenTensorsAreNamed) {
  const TinyModel good({});
  for (const auto& [name, tensor] : good.tensors) {
    TinyModel model = good;
    model.tensors.erase(name);
    expect_error(run_model(model), 3, {"model.gguf", name});
  }
  TinyModel model = good;
  std::swap(model.tensors["blk.1.attn_k.weight"], model.tensors["blk.1.attn_q.weight"]);
  expect_error(run_model(model), 3, {"blk.1.attn_q.weight", "shape"});
}

TEST_F(Broken, AFormatWithoutKernels) {
  TinyModel model({});
  testing::TinyTensor& tensor = model.tensors["blk.0.attn_q.weight"];
  const std::size_t blocks = tensor.data.size() / 34;  // of Q8_0
  tensor.type = gguf::Type::kIQ4_NL;
  tensor.data.assign(blocks * 18, std::byte{0});
  expect_error(run_model(model), 3, {"blk.0.attn_q.weight", "IQ4_NL", "Q4_K"});
}

TEST_F(Broken, ADenseModel) {
  TinyModel model({});
  model.metadata["qwen3moe.expert_count"] = std::uint32_t{0};
  expect_error(run_model(model), 3, {"dense", "mixture-of-experts"});
  model.metadata["general.architecture"] = "llama";
  expect_error(run_model(model), 3, {"'llama'", "not supported", "qwen3moe"});
}

TEST_F(Broken, AnUnknownArchitecture) {
  TinyModel model({});
  model.metadata["general.architecture"] = "frobnicator";
  model.metadata["frobnicator.expert_count"] = std::uint32_t{8};
  expect_error(run_model(model), 3, {"'frobnicator'", "not supported", "qwen3moe"});
}

TEST_F(Broken, NotAFileAtAll) {
  for (const char* command : {"run", "inspect", "tokenize", "bench"}) {
    const auto open = [&](const std::string& model) { return run({command, model}, "Hello"); };
    expect_error(open(folder_.path()), 3, {"directory"});
    expect_error(open(folder_ / "missing.gguf"), 4, {"missing.gguf", "No such file"});
    std::ofstream(folder_ / "empty.gguf") << "";
    expect_error(open(folder_ / "empty.gguf"), 3, {"empty.gguf", "empty"});
    std::ofstream(folder_ / "text.gguf") << "This is a text, not a model; it has many bytes.\n";
    expect_error(open(folder_ / "text.gguf"), 3, {"text.gguf", "GGUF"});
  }
}

TEST_F(Broken, PromptsThatCannotBeRead) {
  TinyModel({}).write(path());
  expect_error(run_model(""), 2, {"prompt is empty"});
  expect_error(run({"run", path(), "--raw"}, "\n"), 2, {"prompt is empty"});
  expect_error(run_model(std::string(101, 'x')), 2, {"101 tokens", "context holds 100", "-c"});
  expect_error(run({"run", path(), "-f", folder_ / "none.txt"}), 4, {"none.txt"});
  expect_error(run({"run", path(), "-f", folder_.path()}), 3, {"directory"});
  expect_error(run({"run", path(), "Hello"}), 2, {"no chat template", "--raw"});
}

TEST_F(Broken, AChatTemplateThatDoesNotParse) {
  TinyModel model({});
  model.metadata["tokenizer.chat_template"] = "{% for %}";
  model.write(path());
  expect_error(run({"run", path(), "Hello"}), 3, {"chat template", "line 1", "--raw"});
  EXPECT_EQ(run_model().code, 0) << "--raw does without it";
  const Ended inspected = run({"inspect", path()});
  EXPECT_EQ(inspected.code, 0);
  EXPECT_NE(inspected.out.find("cannot be used"), std::string::npos) << inspected.out;
  model.metadata["tokenizer.chat_template"] = "{{ raise_exception('no users here') }}";
  model.write(path());
  expect_error(run({"run", path(), "Hello"}), 3, {"no users here"});
}

struct BadFlags {
  std::vector<std::string> arguments;
  std::vector<std::string> words;
  int code = 2;
};

TEST(BadFlags, AreRefusedWithTheReason) {
  const std::vector<BadFlags> all = {
      {{}, {"no command"}},
      {{"frobnicate"}, {"frobnicate"}},
      {{"run"}, {"MODEL"}},
      {{"run", kDemo, "Hi", "--frobnicate"}, {"--frobnicate"}},
      {{"run", kDemo, "Hi", "there"}, {"there"}},
      {{"run", kDemo, "Hi", "-n", "many"}, {"many"}},
      {{"run", kDemo, "Hi", "-n", "-2"}, {"-2"}},
      {{"run", kDemo, "Hi", "-n"}, {"--tokens"}},
      {{"run", kDemo, "Hi", "-f", "file"}, {"PROMPT", "--file"}},
      {{"run", kDemo, "Hi", "--raw", "--system", "x"}, {"--raw", "--system"}},
      {{"run", kDemo, "Hi", "--greedy", "--temp", "1"}, {"--greedy", "--temp"}},
      {{"run", kDemo, "Hi", "--temp", "-1"}, {"temperature"}},
      {{"run", kDemo, "Hi", "--top-p", "1.5"}, {"top_p"}},
      {{"run", kDemo, "Hi", "--logit-bias", "5"}, {"--logit-bias 5", "ID=BIAS"}},
      {{"run", kDemo, "Hi", "--logit-bias", "5=x"}, {"ID=BIAS"}},
      {{"run", kDemo, "Hi", "--logit-bias", "=1"}, {"ID=BIAS"}},
      {{"run", kDemo, "Hi", "--logit-bias", "9999=1"}, {"9999", "8191"}},
      {{"run", kDemo, "Hi", "--stop", ""}, {"stop"}},
      {{"run", kDemo, "Hi", "--seed", "-1"}, {"--seed"}},
      {{"run", kDemo, "Hi", "--isa", "mmx"}, {"mmx", "avx512"}},
      {{"run", kDemo, "Hi", "--activations", "f16"}, {"f16", "int8"}},
      {{"run", kDemo, "Hi", "--kv", "q4"}, {"q4"}},
      {{"run", kDemo, "Hi", "-t", "-1"}, {"threads -1"}},
      {{"run", kDemo, "Hi", "-t", "2000"}, {"threads 2000"}},
      {{"run", kDemo, "Hi", "-c", "2049"}, {"2049", "2048"}},
      {{"run", kDemo, "Hi", "-c", "-1"}, {"context -1"}},
      {{"run", kDemo, "Hi", "--window", "-1"}, {"window -1"}},
      {{"inspect", kDemo, "extra"}, {"extra"}},
      {{"tokenize", kDemo, "--ids", "--decode", "5"}, {"--ids"}},
      {{"tokenize", kDemo, "--nfc", "--no-nfc", "x"}, {"--nfc"}},
      {{"tokenize", kDemo, "--decode", "8192"}, {"8192"}},
      {{"tokenize", kDemo, "--decode", "five"}, {"'five'"}},
      {{"perplexity", kDemo}, {"--text", "--ids"}},
      {{"perplexity", kDemo, "--text", "a", "--ids", "b"}, {"--text", "--ids"}},
      {{"perplexity", kDemo, "--text", "a", "--window-len", "1"}, {"--window-len"}},
      {{"perplexity", kDemo, "--text", "/none"}, {"/none"}, 4},
      {{"bench"}, {"MODEL"}},
      {{"bench", kDemo, "-m", kDemo}, {"MODEL", "--model"}},
      {{"bench", kDemo, "-p", "0", "-n", "0"}, {"nothing to measure"}},
      {{"bench", kDemo, "-p", "4096"}, {"4096", "2048"}},
      {{"bench", kDemo, "-r", "0"}, {"--repetitions"}},
  };
  for (const BadFlags& bad : all) {
    std::string shown;
    for (const std::string& argument : bad.arguments) shown += argument + " ";
    SCOPED_TRACE(shown);
    const Ended ended = run(bad.arguments, "x");
    expect_error(ended, bad.code, bad.words);
    EXPECT_EQ(ended.out, "");
  }
}

// An instruction set that this machine lacks is refused with the reason, not run and not replaced.
TEST(BadFlags, AnInstructionSetThatDoesNotRunHere) {
  const auto load = run({"run", kDemo, "Hi", "-n", "0", "--json", "-q"}).events().at(0);
  for (const auto& [isa, support] : load["isas"].items()) {
    const Ended ended = run({"run", kDemo, "Hi", "-n", "1", "-q", "--isa", isa});
    if (support == "usable") {
      EXPECT_EQ(ended.code, 0) << ended.err;
    } else {
      expect_error(ended, 6, {isa, support.get<std::string>()});
    }
  }
}

}  // namespace
}  // namespace strata::app::test
