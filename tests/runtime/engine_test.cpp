// Loading an engine: what is chosen and reported, and what is refused.
#include "strata/runtime/engine.hpp"

#include "tests/gguf/temp_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace strata {
namespace {

using testing::fails_with;
using testing::TinyModel;
using testing::TinyShape;

class EngineTest : public ::testing::Test {
 protected:
  EngineTest() : model_(TinyShape{}) {
    options_.model = folder_ / "tiny.gguf";
    options_.threads = 2;
    options_.pin_threads = false;
  }
  [[nodiscard]] std::unique_ptr<Engine> load() const {
    model_.write(options_.model);
    return Engine::load(options_);
  }
  [[nodiscard]] ::testing::AssertionResult refused(
      ErrorKind kind, std::initializer_list<std::string_view> parts) const {
    return fails_with(kind, parts, [this] { (void)load(); });
  }

  gguf::test::TempFolder folder_;
  TinyModel model_;
  EngineOptions options_;
};

TEST_F(EngineTest, ReportsWhatWasLoadedAndChosen) {
  const std::unique_ptr<Engine> engine = load();
  const LoadReport& report = engine->report();
  EXPECT_EQ(report.threads, 2);
  EXPECT_GE(report.physical_cores, 1);
  EXPECT_EQ(report.context, 100) << "the model's own";
  EXPECT_EQ(engine->context(), 100);
  EXPECT_EQ(engine->max_window(), 100) << "no window is longer than the context";
  EXPECT_EQ(report.isa, best_isa(report.isas));
  EXPECT_NE(report.device.find(isa_name(report.isa)), std::string::npos);
  EXPECT_EQ(report.kv_bytes_per_position, 2u * 2 * 2 * 16 * 2)
      << "2 layers, keys and values, 2 heads of 16 halves";
  EXPECT_GT(report.seconds, 0);
  EXPECT_EQ(engine->hparams().vocab, 277);
  EXPECT_EQ(engine->tokenizer().vocab_size(), 256);
  EXPECT_EQ(engine->chat_template_source(), "");

  std::size_t experts = 0, dense = 0;
  for (const auto& [name, t] : model_.tensors) {
    if (t.ne.size() == 3) {
      experts += t.data.size();
    } else {
      dense += t.ne.size() == 2 ? quant::packed_bytes(t.type, t.ne[1], t.ne[0]) : t.data.size();
    }
  }
  EXPECT_EQ(report.expert_bytes, experts);
  EXPECT_EQ(report.dense_bytes, dense);
}

TEST_F(EngineTest, ChatTemplateIsHandedOn) {
  model_.metadata["tokenizer.chat_template"] = "{{ messages }}";
  EXPECT_EQ(load()->chat_template_source(), "{{ messages }}");
}

TEST_F(EngineTest, ContextIsObeyedOrRefused) {
  options_.context = 40;
  EXPECT_EQ(load()->context(), 40);
  options_.context = 100;
  EXPECT_EQ(load()->context(), 100);
  options_.context = 101;
  EXPECT_TRUE(refused(ErrorKind::kUsage, {"101", "1 to 100"}));
  options_.context = -1;
  EXPECT_TRUE(refused(ErrorKind::kUsage, {"-1", "1 to 100"}));
  options_.context = 0;
  model_.metadata["qwen3moe.context_length"] = std::uint32_t{1000000};
  EXPECT_EQ(load()->context(), kDefaultContext) << "not the whole of a long one unasked";
}

TEST_F(EngineTest, WindowIsObeyedOrRefused) {
  options_.window = 7;
  EXPECT_EQ(load()->max_window(), 7);
  for (const int window : {-3, 16385}) {
    options_.window = window;
    EXPECT_TRUE(refused(ErrorKind::kUsage, {"window", std::to_string(window)}));
  }
}

TEST_F(EngineTest, ThreadsAreObeyedOrRefused) {
  for (const int threads : {1, 3}) {
    options_.threads = threads;
    EXPECT_EQ(load()->report().threads, threads);
  }
  options_.threads = 0;
  {
    const std::unique_ptr<Engine> engine = load();
    EXPECT_EQ(engine->report().threads, engine->report().physical_cores);
  }
  for (const int threads : {-1, 1025}) {
    options_.threads = threads;
    EXPECT_TRUE(refused(ErrorKind::kUsage, {"threads", std::to_string(threads)}));
  }
}

TEST_F(EngineTest, IsaIsObeyedOrRefusedWithTheReason) {
  for (const IsaSupport& s : detect_isas()) {
    options_.isa = s.isa;
    if (s.usable) {
      EXPECT_EQ(load()->report().isa, s.isa);
    } else {
      EXPECT_TRUE(refused(ErrorKind::kUnsupported, {isa_name(s.isa), s.reason}));
    }
  }
}

TEST_F(EngineTest, CellsFollowTheActivationsUnlessSaid) {
  const auto bytes = [this] { return load()->report().kv_bytes_per_position; };
  const std::size_t half = bytes();
  options_.activations = device::Activations::kF32;
  EXPECT_EQ(bytes(), 2 * half);
  options_.kv = device::KvType::kF16;
  EXPECT_EQ(bytes(), half);
  options_.activations = device::Activations::kInt8;
  options_.kv = device::KvType::kF32;
  EXPECT_EQ(bytes(), 2 * half);
  options_.kv = device::KvType::kQ8_0;  // heads of 16: a code each, and a scale
  EXPECT_EQ(bytes(), half / 2 + half / 16);
}

TEST_F(EngineTest, ProgressRisesToOneInEveryStage) {
  std::map<std::string, std::vector<double>> stages;
  options_.progress = [&](std::string_view stage, double fraction) {
    stages[std::string(stage)].push_back(fraction);
  };
  (void)load();
  ASSERT_TRUE(stages.contains("experts"));
  for (const auto& [stage, fractions] : stages) {
    EXPECT_TRUE(std::ranges::is_sorted(fractions)) << stage;
    EXPECT_EQ(fractions.back(), 1.0) << stage;
  }
}

TEST_F(EngineTest, FilesWeCannotRunAreRefused) {
  TinyModel whole = model_;
  model_.tensors.erase("blk.1.ffn_down_exps.weight");
  EXPECT_TRUE(refused(ErrorKind::kInput, {"blk.1.ffn_down_exps.weight", "tiny.gguf"}));
  model_ = whole;
  model_.metadata.erase("tokenizer.ggml.model");
  EXPECT_TRUE(refused(ErrorKind::kInput, {"tokenizer.ggml.model"}));
  model_ = whole;
  model_.metadata["tokenizer.ggml.pre"] = "no-such-thing";
  EXPECT_TRUE(refused(ErrorKind::kInput, {"no-such-thing"}));
  model_ = whole;
  model_.metadata["general.architecture"] = "llama";
  EXPECT_TRUE(refused(ErrorKind::kInput, {"llama", "qwen3moe"}));
  options_.model = folder_ / "absent.gguf";
  EXPECT_TRUE(fails_with(ErrorKind::kIo, {"absent.gguf"}, [&] { (void)Engine::load(options_); }));
}

TEST_F(EngineTest, TheFileIsNotNeededAfterLoading) {
  const std::unique_ptr<Engine> engine = load();
  std::filesystem::remove(options_.model);
  const std::unique_ptr<Session> session = engine->new_session();
  session->feed(std::vector<std::int32_t>{1, 2, 3});
  EXPECT_EQ(session->logits().size(), 277u);
  EXPECT_EQ(engine->stats().tokens, 3u);
}

}  // namespace
}  // namespace strata
