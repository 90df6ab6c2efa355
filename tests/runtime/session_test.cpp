// Sessions over an engine: feeding, scoring, forgetting, and what they refuse.
#include "strata/runtime/engine.hpp"

#include "tests/gguf/temp_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace strata {
namespace {

using Ids = std::vector<std::int32_t>;
using Logits = std::vector<float>;

constexpr int kVocab = 277;
constexpr int kContext = 90;  // no multiple of 16: caches are rounded up, the context is not
constexpr int kWindow = 8;

Ids random_ids(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int32_t> id(0, kVocab - 1);
  Ids ids;
  for (int i = 0; i < count; ++i) ids.push_back(id(random));
  return ids;
}

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() {
    testing::TinyModel(testing::TinyShape{}).write(folder_ / "tiny.gguf");
    EngineOptions options;
    options.model = folder_ / "tiny.gguf";
    options.threads = 2;
    options.context = kContext;
    options.window = kWindow;
    options.pin_threads = false;
    engine_ = Engine::load(options);
    session_ = engine_->new_session();
  }

  // Logits after the last of `ids`, in a session of their own.
  Logits logits_of(const Ids& ids) {
    const std::unique_ptr<Session> fresh = engine_->new_session();
    fresh->feed(ids);
    return {fresh->logits().begin(), fresh->logits().end()};
  }
  void expect_logits(const Logits& expected) const {
    ASSERT_EQ(session_->logits().size(), expected.size());
    EXPECT_TRUE(
        std::ranges::equal(std::as_bytes(session_->logits()), std::as_bytes(std::span(expected))));
  }
  // `action` is refused as Error(kUsage) and leaves tokens and logits as they were.
  template <class Action>
  void expect_refused(std::initializer_list<std::string_view> parts, const Action& action) {
    const Ids tokens(session_->tokens().begin(), session_->tokens().end());
    const Logits logits(session_->logits().begin(), session_->logits().end());
    EXPECT_TRUE(testing::fails_with(ErrorKind::kUsage, parts, action));
    EXPECT_TRUE(std::ranges::equal(session_->tokens(), tokens));
    expect_logits(logits);
  }

  gguf::test::TempFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionTest, BeginsEmpty) {
  EXPECT_TRUE(session_->tokens().empty());
  EXPECT_TRUE(session_->logits().empty());
  EXPECT_EQ(session_->capacity(), std::size_t{kContext});
}

TEST_F(SessionTest, FeedingInPiecesOrAtOnceGivesTheSameBits) {
  const Ids ids = random_ids(50, 1);
  const Logits expected = logits_of(ids);
  ASSERT_EQ(expected.size(), std::size_t{kVocab});
  for (const std::size_t step : {1, 3, 7, 8, 9, 50}) {
    session_->truncate(0);
    for (std::size_t i = 0; i < ids.size(); i += step) {
      const std::span<const std::int32_t> piece =
          std::span(ids).subspan(i, std::min(step, ids.size() - i));
      EXPECT_EQ(session_->feed(piece), piece.size());
    }
    EXPECT_TRUE(std::ranges::equal(session_->tokens(), ids));
    expect_logits(expected);
  }
}

TEST_F(SessionTest, ScoringGivesTheLogitsOfFeeding) {
  const Ids ids = random_ids(90, 2);
  session_->feed({ids.data(), 3});
  std::vector<Logits> rows;
  session_->score(std::span(ids).subspan(3), [&](std::size_t i, std::span<const float> logits) {
    EXPECT_EQ(i, rows.size());
    rows.emplace_back(logits.begin(), logits.end());
  });
  ASSERT_EQ(rows.size(), 87u);
  EXPECT_TRUE(std::ranges::equal(session_->tokens(), ids));
  expect_logits(rows.back());
  const std::unique_ptr<Session> fed = engine_->new_session();
  fed->feed({ids.data(), 3});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fed->feed({&ids[3 + i], 1});
    ASSERT_EQ(rows[i].size(), fed->logits().size());
    ASSERT_EQ(0, std::memcmp(rows[i].data(), fed->logits().data(), sizeof(float) * kVocab))
        << "token " << i;
  }
}

TEST_F(SessionTest, ACallerThatGivesUpScoringLeavesWholeWindows) {
  const Ids ids = random_ids(20, 3);
  EXPECT_THROW(session_->score(ids,
                               [&](std::size_t i, std::span<const float>) {
                                 if (i == 10) throw std::runtime_error("enough");
                               }),
               std::runtime_error);
  EXPECT_TRUE(std::ranges::equal(session_->tokens(), std::span(ids).first(kWindow)));
  expect_logits(logits_of({ids.begin(), ids.begin() + kWindow}));
  session_->feed(std::span(ids).subspan(kWindow));
  expect_logits(logits_of(ids));
}

TEST_F(SessionTest, TruncatingAndFeedingAgainGivesTheSameBits) {
  const Ids ids = random_ids(60, 4);
  session_->feed(ids);
  const Logits expected = logits_of(ids);
  for (const std::size_t length : {0, 1, 15, 16, 17, 59}) {
    session_->truncate(length);
    EXPECT_EQ(session_->tokens().size(), length);
    EXPECT_TRUE(session_->logits().empty());
    session_->feed(std::span(ids).subspan(length));
    expect_logits(expected);
  }
}

TEST_F(SessionTest, ATruncatedTailLeavesNoTrace) {
  const Ids ids = random_ids(30, 5);
  session_->feed(random_ids(80, 6));
  session_->truncate(0);
  session_->feed(ids);
  expect_logits(logits_of(ids));
}

TEST_F(SessionTest, TruncatingToAtLeastTheLengthChangesNothing) {
  const Ids ids = random_ids(10, 7);
  session_->feed(ids);
  const Logits before(session_->logits().begin(), session_->logits().end());
  session_->truncate(10);
  session_->truncate(1000);
  EXPECT_EQ(session_->tokens().size(), 10u);
  expect_logits(before);
}

TEST_F(SessionTest, KnowsTheBeginningItHolds) {
  EXPECT_EQ(session_->common_prefix(Ids{1, 2}), 0u);
  session_->feed(Ids{5, 6, 7, 8});
  EXPECT_EQ(session_->common_prefix(Ids{}), 0u);
  EXPECT_EQ(session_->common_prefix(Ids{9, 6}), 0u);
  EXPECT_EQ(session_->common_prefix(Ids{5, 6}), 2u);
  EXPECT_EQ(session_->common_prefix(Ids{5, 6, 9, 8}), 2u);
  EXPECT_EQ(session_->common_prefix(Ids{5, 6, 7, 8}), 4u);
  EXPECT_EQ(session_->common_prefix(Ids{5, 6, 7, 8, 9}), 4u);
  session_->truncate(1);
  EXPECT_EQ(session_->common_prefix(Ids{5, 6, 7}), 1u);
}

TEST_F(SessionTest, MoreThanTheContextHoldsIsRefusedAndChangesNothing) {
  const Ids ids = random_ids(kContext - 2, 8);
  session_->feed(ids);
  const Ids three = {1, 2, 3};
  expect_refused({"3 tokens", "90", "88"}, [&] { session_->feed(three); });
  expect_refused({"context"}, [&] { session_->score(three, [](auto, auto) { FAIL(); }); });
  session_->feed({three.data(), 2});
  EXPECT_EQ(session_->tokens().size(), std::size_t{kContext}) << "what fits is taken";
  expect_refused({"context"}, [&] { session_->feed({three.data(), 1}); });
  session_->truncate(kContext - 2);
  session_->feed({three.data(), 2});
  Ids whole = ids;
  whole.insert(whole.end(), {1, 2});
  expect_logits(logits_of(whole));
}

TEST_F(SessionTest, NoTokensAndBadIdsAreRefusedAndChangeNothing) {
  expect_refused({"no tokens"}, [&] { session_->feed({}); });
  session_->feed(Ids{3, 4});
  expect_refused({"no tokens"}, [&] { session_->feed({}); });
  expect_refused({"no tokens"}, [&] { session_->score({}, [](auto, auto) { FAIL(); }); });
  for (const std::int32_t bad : {-1, kVocab, 1 << 30}) {
    const std::string text = std::to_string(bad);
    expect_refused({text, "277"}, [&] { session_->feed(Ids{1, bad, 2}); });
    expect_refused({text}, [&] { session_->score(Ids{bad}, [](auto, auto) { FAIL(); }); });
  }
  session_->feed(Ids{0, kVocab - 1});
  expect_logits(logits_of({3, 4, 0, kVocab - 1}));
}

TEST_F(SessionTest, SamplingNeedsLogits) {
  runtime::SamplingParams greedy;
  greedy.temperature = 0;
  runtime::Sampler sampler(greedy, kVocab);
  expect_refused({"no logits"}, [&] { (void)session_->sample(sampler); });
  session_->feed(Ids{1, 2, 3});
  const auto best = std::ranges::max_element(session_->logits()) - session_->logits().begin();
  EXPECT_EQ(session_->sample(sampler), best);
  EXPECT_EQ(session_->tokens().size(), 3u) << "not fed yet";
  session_->truncate(2);
  expect_refused({"no logits"}, [&] { (void)session_->sample(sampler); });
}

TEST_F(SessionTest, StopIsAskedBetweenWindowsAndKeepsWhatIsDone) {
  const Ids ids = random_ids(30, 9);
  std::vector<std::size_t> asked;
  const std::size_t taken = session_->feed(ids, [&](std::size_t done) {
    asked.push_back(done);
    return done >= 2 * kWindow;
  });
  EXPECT_EQ(taken, 2u * kWindow);
  EXPECT_EQ(asked, (std::vector<std::size_t>{kWindow, 2 * kWindow}));
  EXPECT_TRUE(std::ranges::equal(session_->tokens(), std::span(ids).first(taken)));
  EXPECT_TRUE(session_->logits().empty()) << "those of the last token were not computed";
  EXPECT_EQ(session_->feed(std::span(ids).subspan(taken)), ids.size() - taken);
  expect_logits(logits_of(ids));
}

TEST_F(SessionTest, StopIsNotAskedForASingleWindow) {
  const Ids ids = random_ids(kWindow, 10);
  EXPECT_EQ(session_->feed(ids,
                           [](std::size_t) {
                             ADD_FAILURE() << "nothing is left to stop";
                             return true;
                           }),
            ids.size());
  expect_logits(logits_of(ids));
}

TEST_F(SessionTest, SessionsOfOneEngineTakeTurns) {
  const Ids a = random_ids(40, 11), b = random_ids(40, 12);
  const Logits expected_a = logits_of(a), expected_b = logits_of(b);
  const std::unique_ptr<Session> other = engine_->new_session();
  for (std::size_t i = 0; i < 40; i += 5) {
    session_->feed(std::span(a).subspan(i, 5));
    other->feed(std::span(b).subspan(i, 5));
  }
  expect_logits(expected_a);
  EXPECT_EQ(0, std::memcmp(other->logits().data(), expected_b.data(), sizeof(float) * kVocab));
}

// The interface below sessions: their next tokens in one window.
TEST_F(SessionTest, OneWindowOverSeveralSessions) {
  const Ids a = random_ids(20, 13), b = random_ids(9, 14);
  const std::unique_ptr<Session> other = engine_->new_session();
  session_->feed({a.data(), 19});
  other->feed({b.data(), 8});
  const device::Rows rows = engine_->run(std::vector<runtime::WindowToken>{
      {a[19], 19, &session_->state(), true}, {b[8], 8, &other->state(), true}});
  ASSERT_EQ(rows.count, 2);
  const Logits first(rows.row(0), rows.row(0) + kVocab);
  const Logits second(rows.row(1), rows.row(1) + kVocab);
  EXPECT_EQ(0, std::memcmp(first.data(), logits_of(a).data(), sizeof(float) * kVocab));
  EXPECT_EQ(0, std::memcmp(second.data(), logits_of(b).data(), sizeof(float) * kVocab));
}

}  // namespace
}  // namespace strata
