#include "strata/core/handover.hpp"

#include "strata/base/clock.hpp"
#include "strata/base/error.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace strata::core {
namespace {

// The pool's side as a thread: calls serve(request, step) for each request, then replies.
template <class Serve>
std::jthread pool_thread(Handover& handover, Serve serve) {
  return std::jthread([&handover, serve] {
    HandoverRequest request;
    std::uint64_t step = 0;
    while (handover.next(request, step)) {
      serve(request, step);
      handover.reply(step);
    }
  });
}

struct Window {
  std::vector<std::int32_t> tokens, rows;
  std::vector<device::ExpertWork> work;
};

Window make_window(std::mt19937& random, int rows) {
  Window w;
  for (int r = 0; r < rows; ++r) {
    if (random() % 2 == 0) continue;  // a hit
    w.rows.push_back(r);
    w.tokens.push_back(r);
  }
  for (std::size_t i = 0; i < w.rows.size(); ++i) {
    w.work.push_back({nullptr, std::span(w.tokens).subspan(i, 1), std::span(w.rows).subspan(i, 1)});
  }
  return w;
}

TEST(HandoverTest, EveryRequestIsServedOnceAndSeesItsOwnRows) {
  constexpr int kRows = 64;
  Handover handover(kRows);
  std::vector<float> parts(kRows);
  const std::jthread pool =
      pool_thread(handover, [&](const HandoverRequest& request, std::uint64_t step) {
        for (const device::ExpertWork& w : request.misses) {
          for (const std::int32_t row : w.rows) {
            parts[static_cast<std::size_t>(row)] = static_cast<float>(step);
            handover.stamp(row, step);
          }
        }
      });
  std::mt19937 random(4);
  for (int i = 1; i <= 20000; ++i) {
    const Window w =
        make_window(random, static_cast<int>(random() % kRows) + 1);  // empty ones among them
    const std::uint64_t step = handover.post({i % 12, {}, w.work, {}});
    ASSERT_EQ(step, static_cast<std::uint64_t>(i));
    handover.wait(step);
    for (const std::int32_t row : w.rows)
      ASSERT_EQ(parts[static_cast<std::size_t>(row)], static_cast<float>(i));
    if (i % 997 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(300));  // let the pool fall asleep
  }
  handover.shutdown();
}

TEST(HandoverTest, ARowLeftOverFromAnEarlierStepIsAnError) {
  Handover handover(8);
  bool lazy = false;
  const std::jthread pool =
      pool_thread(handover, [&](const HandoverRequest& request, std::uint64_t step) {
        for (const device::ExpertWork& w : request.misses) {
          for (const std::int32_t row : w.rows) {
            if (!(lazy && row == 3)) handover.stamp(row, step);
          }
        }
      });
  const std::vector<std::int32_t> rows{1, 3};
  const std::vector<device::ExpertWork> work{{nullptr, rows, rows}};
  handover.wait(handover.post({0, {}, work, {}}));
  lazy = true;
  const std::uint64_t step = handover.post({7, {}, work, {}});
  try {
    handover.wait(step);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("layer 7: parts row 3 was written at step 1, not at 2"),
              std::string::npos)
        << e.what();
  }
  handover.shutdown();
}

TEST(HandoverTest, ASilentPoolIsReportedAfterTheWatchdogsPatience) {
  Handover handover(8, 0.05);
  const Stopwatch watch;
  const std::uint64_t step = handover.post({5, {}, {}, {}});
  try {
    handover.wait(step);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("no answer"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("layer 5"), std::string::npos);
  }
  EXPECT_LT(watch.seconds(), 2.0);
  HandoverRequest request;
  std::uint64_t seen = 0;
  EXPECT_FALSE(handover.next(request, seen));  // the pool, when it comes back, is told to leave
}

TEST(HandoverTest, APoolsFailureReachesTheAccelerator) {
  Handover handover(8);
  std::jthread pool([&] {
    HandoverRequest request;
    std::uint64_t step = 0;
    if (handover.next(request, step)) handover.fail_with("out of memory");
  });
  EXPECT_THROW(
      {
        try {
          handover.wait(handover.post({0, {}, {}, {}}));
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find("failed: out of memory"), std::string::npos);
          throw;
        }
      },
      Error);
}

TEST(HandoverTest, ShutdownEndsBothSidesInEveryState) {
  for (int delay = 0; delay < 200; ++delay) {
    Handover handover(8);
    std::jthread pool = pool_thread(handover, [](const HandoverRequest&, std::uint64_t) {});
    std::jthread closer([&handover, delay] {
      if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay * 3));
      handover.shutdown();
    });
    try {
      for (;;) handover.wait(handover.post({0, {}, {}, {}}));
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("shut down"), std::string::npos);
    }
  }
}

// ---- every interleaving of the protocol's steps
// -------------------------------------------------------------------
//
// A model of handover.cpp, one atomic operation a step: the accelerator posts and waits kRounds
// times, the pool serves, a third thread may close at any moment, sleeping is possible wherever the
// code may sleep and ends only when the word has changed. Explored exhaustively: no state may be
// stuck, and the accelerator may go on only with its own step's reply.
struct ModelState {
  int posted = 0, replied = 0;  // steps
  bool posted_closed = false, replied_closed = false;
  int accelerator =
      0;  // 0 about to post, 1 waiting, 2 asleep in wait, 3 done, 4 left with an error
  int slept_reply = -1;  // what it went to sleep on: replied * 2 + closed
  int pool = 0;          // 0 looking, 1 serving, 2 asleep, 3 left
  int slept_post = -1;
  int closer = 0;  // 0 not yet, 1 replied_ marked, 2 both marked
  auto key() const {
    return std::tuple(posted, replied, posted_closed, replied_closed, accelerator, slept_reply,
                      pool, slept_post, closer);
  }
  bool operator<(const ModelState& o) const { return key() < o.key(); }
};

class Explorer {
 public:
  void explore(const ModelState& s) {
    if (!seen_.insert(s).second) return;
    const std::size_t before = moves_;
    accelerator_moves(s);
    pool_moves(s);
    closer_moves(s);
    if (moves_ == before) {
      // Nothing can move: only right when both sides have come to their end.
      EXPECT_TRUE(s.accelerator >= 3) << "the accelerator is stuck";
      EXPECT_TRUE(s.pool == 3 || s.closer == 0) << "the pool is stuck";
    }
  }
  [[nodiscard]] std::size_t states() const { return seen_.size(); }

 private:
  static constexpr int kRounds = 3;
  void go(ModelState next) {
    ++moves_;
    explore(next);
  }
  void accelerator_moves(const ModelState& s) {
    ModelState n = s;
    if (s.accelerator == 0) {
      n.posted++;
      n.accelerator = 1;
      go(n);
    } else if (s.accelerator == 1) {
      if (s.replied >= s.posted) {
        EXPECT_EQ(s.replied, s.posted);
        n.accelerator = s.posted == kRounds ? 3 : 0;
        go(n);
      } else if (s.replied_closed) {
        n.accelerator = 4;
        go(n);
      } else {
        n.accelerator = 2;
        n.slept_reply = s.replied * 2 + s.replied_closed;
        go(n);
      }
    } else if (s.accelerator == 2 && s.slept_reply != s.replied * 2 + s.replied_closed) {
      n.accelerator = 1;
      n.slept_reply = -1;
      go(n);
    }
  }
  void pool_moves(const ModelState& s) {
    ModelState n = s;
    if (s.pool == 0) {
      if (s.posted_closed) {
        n.pool = 3;
      } else if (s.posted > s.replied) {
        n.pool = 1;
      } else {
        n.pool = 2;
        n.slept_post = s.posted * 2 + s.posted_closed;
      }
      go(n);
    } else if (s.pool == 1) {
      n.replied++;
      n.pool = 0;
      go(n);
    } else if (s.pool == 2 && s.slept_post != s.posted * 2 + s.posted_closed) {
      n.pool = 0;
      n.slept_post = -1;
      go(n);
    }
  }
  void closer_moves(const ModelState& s) {
    if (s.closer == 2) return;
    ModelState n = s;
    (s.closer == 0 ? n.replied_closed : n.posted_closed) = true;
    n.closer++;
    go(n);
  }

  std::set<ModelState> seen_;
  std::size_t moves_ = 0;
};

TEST(HandoverModelTest, NoInterleavingGetsStuckOrTakesAForeignReply) {
  Explorer explorer;
  explorer.explore({});
  EXPECT_GT(explorer.states(), 100u);
}

}  // namespace
}  // namespace strata::core
