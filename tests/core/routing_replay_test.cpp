// A trace in the router's place: what it holds, where it wraps, and what is refused.
#include "strata/core/routing_replay.hpp"

#include "strata/core/trace.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace strata::core {
namespace {

using testing::fails_with;

class RoutingReplayTest : public ::testing::Test {
 protected:
  // One record of two experts.
  struct Record {
    std::int32_t layer;
    std::array<std::int32_t, 2> experts;
    std::array<float, 2> weights{};
  };
  void write(const std::vector<Record>& records) const {
    TraceWriter writer(path_);
    for (const Record& r : records) writer.append(r.layer, r.experts, r.weights);
    writer.close();
  }
  [[nodiscard]] RoutingReplay load() const { return {path_, {2, 4}, 2}; }
  [[nodiscard]] bool refused(const std::vector<Record>& records,
                             std::initializer_list<std::string_view> parts) const {
    write(records);
    return fails_with(ErrorKind::kInput, parts, [this] { (void)load(); });
  }

  gguf::test::TempFolder folder_;
  std::filesystem::path path_ = folder_ / "text.trace";
};

TEST_F(RoutingReplayTest, GivesWhatTheTraceHoldsAndBeginsAnew) {
  write({{0, {3, 1}, {0.5F, 0.25F}}, {1, {0, 2}}, {0, {1, 2}}, {1, {3, 0}, {0, 0.75F}}});
  const RoutingReplay replay = load();
  EXPECT_EQ(replay.tokens(), 2);
  for (const std::int64_t lap : {0, 2, 2'000'000'000}) {
    EXPECT_TRUE(std::ranges::equal(replay.experts(0, lap), std::array{3, 1}));
    EXPECT_TRUE(std::ranges::equal(replay.weights(0, lap), std::array{0.5F, 0.25F}));
    EXPECT_TRUE(std::ranges::equal(replay.experts(1, lap), std::array{0, 2}));
    EXPECT_TRUE(std::ranges::equal(replay.weights(1, lap), std::array{0.5F, 0.5F})) << "unknown";
    EXPECT_TRUE(std::ranges::equal(replay.experts(1, lap + 1), std::array{3, 0}));
    EXPECT_TRUE(std::ranges::equal(replay.weights(1, lap + 1), std::array{0.0F, 0.75F}));
  }
}

TEST_F(RoutingReplayTest, TracesOfOtherModelsAreRefused) {
  EXPECT_TRUE(refused({{0, {0, 1}}, {1, {0, 1}}, {2, {0, 1}}}, {"token 0", "layer 2", "2 layers"}));
  EXPECT_TRUE(refused({{0, {0, 1}}, {1, {0, 4}}}, {"token 0", "expert 4", "layer 1", "has 4"}));
  EXPECT_TRUE(
      refused({{0, {0, 1}}, {0, {0, 1}}, {1, {0, 1}}}, {"token 0", "no record of layer 1"}));
  EXPECT_TRUE(
      refused({{0, {0, 1}}, {1, {0, 1}}, {1, {0, 1}}}, {"token 1", "no record of layer 0"}));
  write({{0, {0, 1}}, {1, {0, 1}}});
  EXPECT_TRUE(fails_with(ErrorKind::kInput, {"has 2 experts", "uses 3"}, [this] {
    (void)RoutingReplay(path_, {2, 4}, 3);
  }));
}

TEST_F(RoutingReplayTest, TracesThatEndEarlyAreRefused) {
  EXPECT_TRUE(refused({{0, {0, 1}}, {1, {0, 1}}, {0, {0, 1}}}, {"token, 1", "copied whole"}));
  EXPECT_TRUE(refused({}, {"text.trace", "empty"}));
  write({{0, {0, 1}}, {1, {0, 1}}});
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 3);
  EXPECT_TRUE(fails_with(ErrorKind::kInput, {"cut off"}, [this] { (void)load(); }));
  std::filesystem::remove(path_);
  EXPECT_TRUE(fails_with(ErrorKind::kIo, {"text.trace"}, [this] { (void)load(); }));
}

}  // namespace
}  // namespace strata::core
