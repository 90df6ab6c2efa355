// Prefixes of one sequence in another: the same bits as computed there.
#include "strata/runtime/sequence_copy.hpp"

#include "strata/runtime/engine.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace strata::runtime {
namespace {

class SequenceCopyTest : public ::testing::TestWithParam<device::KvType> {
 protected:
  SequenceCopyTest() {
    testing::TinyModel(testing::TinyShape{}).write(folder_ / "tiny.gguf");
    EngineOptions options;
    options.model = folder_ / "tiny.gguf";
    options.threads = 1;
    options.pin_threads = false;
    options.window = 64;
    options.kv = GetParam();
    engine_ = Engine::load(options);
    std::mt19937 random(1);
    for (int i = 0; i < 50; ++i) ids_.push_back(static_cast<std::int32_t>(random() % 277));
  }
  // Logits after the token at `position`, computed on top of what the state holds.
  std::vector<float> logits(const SequenceState& state, int position) {
    const WindowToken token{ids_[static_cast<std::size_t>(position)], position, &state, true};
    const device::Rows rows = engine_->run({&token, 1});
    return {rows.data, rows.data + 277};
  }
  void fill(const SequenceState& state, int positions) {
    std::vector<WindowToken> window;
    for (int i = 0; i < positions; ++i) {
      window.push_back({ids_[static_cast<std::size_t>(i)], i, &state, false});
    }
    if (!window.empty()) (void)engine_->run(window);
  }

  gguf::test::TempFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::int32_t> ids_;
};

TEST_P(SequenceCopyTest, ACopiedPrefixGivesTheSameBits) {
  const auto source = engine_->new_session();
  fill(source->state(), 49);
  for (const int positions : {0, 1, 15, 16, 17, 48}) {
    const auto own = engine_->new_session();
    fill(own->state(), positions);
    const std::vector<float> expected = logits(own->state(), positions);
    const auto copy = engine_->new_session();
    copy_prefix(source->state(), copy->state(), engine_->hparams(), positions,
                engine_->main_device());
    const std::vector<float> got = logits(copy->state(), positions);
    EXPECT_EQ(0, std::memcmp(got.data(), expected.data(), sizeof(float) * got.size())) << positions;
  }
}

TEST_P(SequenceCopyTest, APrefixThatWasSavedGivesTheSameBits) {
  const auto source = engine_->new_session();
  fill(source->state(), 49);
  EXPECT_EQ(prefix_bytes(source->state(), engine_->hparams(), 0), 0u);
  EXPECT_EQ(prefix_bytes(source->state(), engine_->hparams(), 32),
            32 * source->state().bytes_per_position());
  std::vector<std::byte> saved(prefix_bytes(source->state(), engine_->hparams(), 17));
  read_prefix(source->state(), engine_->hparams(), 17, engine_->main_device(), saved);
  const auto copy = engine_->new_session();
  write_prefix(copy->state(), engine_->hparams(), 17, engine_->main_device(), saved);
  const auto own = engine_->new_session();
  fill(own->state(), 17);
  const std::vector<float> expected = logits(own->state(), 17);
  const std::vector<float> got = logits(copy->state(), 17);
  EXPECT_EQ(0, std::memcmp(got.data(), expected.data(), sizeof(float) * got.size()));
}

INSTANTIATE_TEST_SUITE_P(Types, SequenceCopyTest,
                         ::testing::Values(device::KvType::kF16, device::KvType::kF32,
                                           device::KvType::kQ8_0));

}  // namespace
}  // namespace strata::runtime
