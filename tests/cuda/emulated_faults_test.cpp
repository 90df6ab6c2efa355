// What a GPU can do to an engine, on the emulated one: memory that is short at any allocation, that
// another process takes between the plan and the load or while running, and a GPU that is lost at
// any call. Each ends in an error that says so, or in a smaller cache that is told; nothing leaks,
// nothing hangs, and what still works gives the same bits.
#include "strata/runtime/engine.hpp"
#include "strata/runtime/expert_caching.hpp"
#include "tests/cuda/emulated_runtime.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace strata {
namespace {

using cuda::emulated::faults;
using testing::TinyModel;
using testing::TinyShape;

// The parameter: the share of the misses that is fetched. Without one windows of few rows are
// graphs.
class EmulatedFaultsTest : public ::testing::TestWithParam<double> {
 protected:
  EmulatedFaultsTest() {
    options_.model = folder_ / "tiny.gguf";
    options_.threads = 1;
    options_.pin_threads = false;
    options_.context = 64;
    options_.window = 16;
    options_.device = DeviceChoice::kCuda;
    options_.cache.size.kind = core::CacheRequest::Kind::kAuto;
    options_.cache.reserve_bytes = 0;
    options_.cache.adapt_every = 1;
    options_.cache.fetch = core::FetchRequest{.share = GetParam()};
    TinyModel(TinyShape{.layers = 2, .experts = 8, .used = 2}).write(options_.model);
  }
  ~EmulatedFaultsTest() override { heal(); }
  static void heal() {
    faults().allocations_left = -1;
    faults().calls_left = -1;
    faults().taken_after_asking = 0;
    faults().memory = std::size_t{1} << 30;
  }
  // A prompt and 12 tokens; all logits.
  static std::vector<float> read(Engine& engine) {
    const std::unique_ptr<Session> session = engine.new_session();
    std::vector<float> all;
    std::vector<std::int32_t> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    session->feed(prompt);
    for (std::int32_t token = 20; token < 32; ++token) {
      session->feed({&token, 1});
      all.insert(all.end(), session->logits().begin(), session->logits().end());
    }
    return all;
  }
  // How much smaller than planned the cache became.
  static std::uint64_t missing(const Engine& engine) {
    return engine.caching()->planned_bytes() - engine.caching()->plan().cache_bytes;
  }
  void name_slots(std::uint64_t slots) {
    options_.cache.size = {core::CacheRequest::Kind::kSlots, slots};
  }

  gguf::test::TempFolder folder_;
  EngineOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Shares, EmulatedFaultsTest, ::testing::Values(0.0, 0.5),
                         [](const auto& share) { return share.param > 0 ? "Fetching" : "Graphs"; });

TEST_P(EmulatedFaultsTest, EveryAllocationMayFail) {
  name_slots(6);
  const std::vector<float> expected = read(*Engine::load(options_));
  ASSERT_EQ(cuda::emulated::live_objects(), 0);
  int failures = 0;
  for (int n = 0;; ++n) {
    ASSERT_LT(n, 2000);
    faults().allocations_left = n;
    bool failed = false;
    try {
      const std::unique_ptr<Engine> engine = Engine::load(options_);
      EXPECT_EQ(read(*engine), expected);
    } catch (const Error& error) {
      failed = true;
      EXPECT_EQ(error.kind(), ErrorKind::kResource) << error.what();
      EXPECT_NE(std::string(error.what()).find("out of memory"), std::string::npos);
    }
    EXPECT_EQ(cuda::emulated::live_objects(), 0) << "after failure " << n;
    EXPECT_EQ(cuda::emulated::live_bytes(), 0U);
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 40);
}

// An engine that had too little memory for one window goes on with the next.
TEST_P(EmulatedFaultsTest, MemoryThatIsShortWhileRunningEndsOneAnswerOnly) {
  name_slots(6);
  const std::unique_ptr<Engine> reference = Engine::load(options_);
  const std::vector<float> expected = read(*reference);
  int failures = 0;
  for (int n = 0;; ++n) {
    ASSERT_LT(n, 2000);
    const std::unique_ptr<Engine> engine = Engine::load(options_);
    faults().allocations_left = n;
    bool failed = false;
    try {
      EXPECT_EQ(read(*engine), expected);
    } catch (const Error& error) {
      failed = true;
      EXPECT_EQ(error.kind(), ErrorKind::kResource) << error.what();
    }
    faults().allocations_left = -1;
    EXPECT_EQ(read(*engine), expected) << "after failure " << n;
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 5);
}

TEST_P(EmulatedFaultsTest, ACacheOfAllThatFitsBecomesSmallerAndSaysSo) {
  const std::vector<float> expected = read(*Engine::load(options_));
  const std::unique_ptr<Engine> whole = Engine::load(options_);
  EXPECT_EQ(missing(*whole), 0U);
  const std::size_t all = cuda::emulated::live_bytes();
  const std::size_t arena = whole->caching()->cache().bytes();
  // Enough at the plan for another engine and what its windows take; then somebody takes all that
  // is too much, and of the cache.
  constexpr std::size_t kSpare = std::size_t{4} << 20;
  for (const std::size_t taken : {arena / 4, arena / 2, 3 * arena / 4}) {
    faults().memory = 2 * all + kSpare;
    faults().taken_after_asking = taken + kSpare;
    const std::unique_ptr<Engine> engine = Engine::load(options_);
    const core::ExpertCache& cache = engine->caching()->cache();
    EXPECT_GE(missing(*engine), taken / 2);
    EXPECT_LE(cache.bytes(), arena - missing(*engine) / 2);
    faults().memory = std::size_t{1} << 30;
    EXPECT_EQ(read(*engine), expected);
  }
  // A size that was named is refused instead.
  name_slots(16);
  faults().memory = 2 * all + kSpare;
  faults().taken_after_asking = arena / 2 + kSpare;
  EXPECT_TRUE(testing::fails_with(ErrorKind::kResource, {"no longer fits"},
                                  [this] { (void)Engine::load(options_); }));
}

// At load and at any call while running: the error says it, and the end of the engine waits for
// nothing.
TEST_P(EmulatedFaultsTest, ALostGpuEndsInAnErrorWhereverItIsLost) {
  name_slots(6);
  std::int64_t before = cuda::emulated::calls();
  { (void)read(*Engine::load(options_)); }
  const std::int64_t calls = cuda::emulated::calls() - before;
  ASSERT_GT(calls, 500);
  for (std::int64_t n = 0; n < calls; n += n < 200 ? 1 : 37) {
    faults().calls_left = n;
    try {
      const std::unique_ptr<Engine> engine = Engine::load(options_);
      (void)read(*engine);
      // Copies beside the windows make a few calls more or less from run to run.
      EXPECT_GT(n, calls / 2) << "nobody noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInternal);
      EXPECT_NE(std::string(error.what()).find("lost"), std::string::npos) << error.what();
    }
    EXPECT_EQ(cuda::emulated::live_objects(), 0) << "lost at call " << n;
  }
}

// The engine stays as it is: whoever asks again hears it again.
TEST_P(EmulatedFaultsTest, ALostGpuStaysLost) {
  name_slots(6);
  const std::unique_ptr<Engine> engine = Engine::load(options_);
  (void)read(*engine);
  faults().calls_left = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(testing::fails_with(ErrorKind::kInternal, {"lost"}, [&] { (void)read(*engine); }));
  }
}

}  // namespace
}  // namespace strata
