// --replay-routing: the trace chooses, whatever the windows, the cache and the device.
#include "strata/core/trace.hpp"
#include "strata/runtime/engine.hpp"
#include "strata/runtime/expert_caching.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/discrete_device.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace strata {
namespace {

using testing::TinyModel;
using testing::TinyShape;

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ReplayTest : public ::testing::Test {
 protected:
  ReplayTest() : model_(TinyShape{.layers = 3, .experts = 12, .used = 3}) {
    options_.model = folder_ / "tiny.gguf";
    options_.threads = 2;
    options_.pin_threads = false;
    model_.write(options_.model);
  }
  // Logits of the last token of a text of 30, read in windows of `step`.
  static std::vector<float> read(Engine& engine, std::size_t step, std::int64_t start = 0) {
    const std::unique_ptr<Session> session = engine.new_session();
    session->set_replay_start(start);
    for (std::size_t done = 0; done < 30; done += step) {
      std::vector<std::int32_t> tokens;
      for (std::size_t i = done; i < std::min<std::size_t>(done + step, 30); ++i)
        tokens.push_back(static_cast<std::int32_t>(17 * i % 256));
      session->feed(tokens);
    }
    return {session->logits().begin(), session->logits().end()};
  }
  // A trace that the router would never choose: it turns with the token.
  void write_turning(const std::filesystem::path& path, int tokens) {
    core::TraceWriter writer(path);
    for (int t = 0; t < tokens; ++t) {
      for (int layer = 0; layer < 3; ++layer) {
        const std::int32_t experts[] = {(t + layer) % 12, (t + layer + 5) % 12,
                                        (t + layer + 7) % 12};
        const float weights[] = {0.6F, 0.3F, 0.1F};
        writer.append(layer, experts, weights);
      }
    }
    writer.close();
  }

  gguf::test::TempFolder folder_;
  TinyModel model_;
  EngineOptions options_;
};

TEST_F(ReplayTest, AModelsOwnTraceGivesItsOwnBits) {
  options_.dump_routing = folder_ / "own.trace";
  const std::unique_ptr<Engine> recorded = Engine::load(options_);
  const std::vector<float> expected = read(*recorded, 30);
  recorded->finish();
  options_.replay_routing = std::exchange(options_.dump_routing, folder_ / "again.trace");
  const std::unique_ptr<Engine> replayed = Engine::load(options_);
  EXPECT_EQ(replayed->report().replay_tokens, 30);
  EXPECT_EQ(read(*replayed, 30), expected);
  replayed->finish();
  EXPECT_EQ(bytes_of(options_.dump_routing), bytes_of(options_.replay_routing));
}

TEST_F(ReplayTest, NoWindowAndNoCacheChangesABit) {
  const std::vector<float> routed = read(*Engine::load(options_), 30);
  options_.replay_routing = folder_ / "turning.trace";
  write_turning(options_.replay_routing, 20);  // shorter than the text: it wraps
  const std::vector<float> expected = read(*Engine::load(options_), 30);
  EXPECT_NE(expected, routed) << "the trace chose";
  options_.cache.adapt_every = 1;
  for (const std::uint64_t slots : {0, 5, 20, 36}) {
    if (slots > 0) options_.cache.size = {core::CacheRequest::Kind::kSlots, slots};
    for (const std::size_t step : {1, 4, 30}) {
      const std::unique_ptr<Engine> engine = Engine::load(options_);
      EXPECT_EQ(read(*engine, step), expected) << slots << " slots, windows of " << step;
      EXPECT_EQ(read(*engine, step, 20), expected) << "a lap later";
      EXPECT_NE(read(*engine, step, 3), expected) << "another place of the trace";
    }
  }
}

TEST_F(ReplayTest, TheCacheSeesWhatIsReplayed) {
  options_.replay_routing = folder_ / "turning.trace";
  write_turning(options_.replay_routing, 1);  // three experts a layer, for ever
  options_.cache.size = {core::CacheRequest::Kind::kSlots, 9};
  options_.cache.adapt_every = 1;
  const std::unique_ptr<Engine> engine = Engine::load(options_);
  (void)read(*engine, 1);
  for (int layer = 0; layer < 3; ++layer) {
    const core::TierCounts& counts = engine->tiers().counts(layer);
    EXPECT_EQ(counts.rows(), 90U);
    for (int e = 0; e < 12; ++e) {
      const bool resident = engine->caching()->cache().slot_of({layer, e}) != core::kNotResident;
      const int turned = (e - layer + 12) % 12;
      EXPECT_TRUE(!resident || turned == 0 || turned == 5 || turned == 7) << layer << ' ' << e;
    }
  }
}

TEST_F(ReplayTest, ForeignTracesAreToldBeforeLoading) {
  options_.replay_routing = folder_ / "foreign.trace";
  core::TraceWriter writer(options_.replay_routing);
  writer.append(0, std::array{12, 1, 2}, std::array{0.0F, 0.0F, 0.0F});
  writer.close();
  EXPECT_TRUE(testing::fails_with(ErrorKind::kInput, {"foreign.trace", "expert 12"},
                                  [this] { (void)Engine::load(options_); }));
}

// A device whose memory the host cannot touch: the choice goes there for combine.
TEST_F(ReplayTest, WorksOnADeviceWithMemoryOfItsOwn) {
  const std::filesystem::path path = folder_ / "turning.trace";
  write_turning(path, 20);
  const core::RoutingReplay replay(path, {3, 12}, 3);
  ThreadPool threads({.threads = 2, .cpus = {}});
  ThreadPool device_threads({.threads = 1, .cpus = {}});
  device::CpuDevice cpu(threads, {});
  testing::DiscreteDevice discrete(device_threads);
  const auto bytes = model_.bytes();
  const gguf::File file = gguf::test::parse(bytes);
  const auto logits_on = [&](device::Device& device) {
    const runtime::Model model = runtime::load_model(file, 32, device, threads, nullptr);
    runtime::Forward forward(model, device, cpu, 8);
    forward.replay_routing(replay);
    const runtime::SequenceState sequence(model, device, 32, device::KvType::kF16);
    std::vector<float> all;
    for (int first = 0; first < 32; first += 8) {
      std::vector<runtime::WindowToken> window;
      for (int p = first; p < first + 8; ++p) window.push_back({p, p, &sequence, p % 3 == 0});
      const device::Rows rows = forward.run(window);
      for (int i = 0; i < rows.count; ++i)
        all.insert(all.end(), rows.row(i), rows.row(i) + model.h.vocab);
    }
    return all;
  };
  EXPECT_EQ(logits_on(discrete), logits_on(cpu));
}

}  // namespace
}  // namespace strata
