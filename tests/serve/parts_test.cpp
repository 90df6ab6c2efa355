// Parts by themselves: the queue, the shares of a window, the watch over thinking, the log,
// the histogram.
#include "src/serve/fair_queue.hpp"
#include "src/serve/thinking.hpp"
#include "src/serve/window_plan.hpp"
#include "strata/serve/counters.hpp"
#include "strata/serve/event_log.hpp"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace strata::serve {
namespace {

std::string order_of(FairQueue<char>& queue) {
  std::string order;
  while (const std::optional<char> item = queue.pop()) order += *item;
  return order;
}

TEST(FairQueue, ClientsTakeTurns) {
  FairQueue<char> queue(10);
  for (const char c : std::string("abcd")) queue.push("greedy", c);
  queue.push("other", 'X');
  queue.push("third", '1');
  queue.push("third", '2');
  EXPECT_EQ(queue.size(), 7u);
  EXPECT_EQ(order_of(queue), "aX1b2cd");
  EXPECT_EQ(queue.size(), 0u);
}

TEST(FairQueue, OneClientMayHaveHalf) {
  FairQueue<char> queue(5);
  EXPECT_FALSE(queue.fits("a", 3));
  EXPECT_TRUE(queue.fits("a", 2));
  queue.push("a", '1');
  queue.push("a", '2');
  EXPECT_FALSE(queue.fits("a", 1));
  EXPECT_TRUE(queue.fits("b", 2));
  queue.push("b", '3');
  queue.push("b", '4');
  EXPECT_TRUE(queue.fits("c", 1));
  EXPECT_FALSE(queue.fits("c", 2));
  EXPECT_TRUE(FairQueue<char>(1).fits("a", 1));
}

TEST(FairQueue, DroppedItemsLeaveTheirTurn) {
  FairQueue<char> queue(10);
  queue.push("a", 'x');
  queue.push("b", 'y');
  queue.push("b", 'x');
  queue.push("c", 'z');
  queue.drop_if([](char c) { return c == 'x'; });
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_EQ(order_of(queue), "yz");
}

TEST(FairShares, ShortPromptsAreReadAtOnce) {
  const auto shares = [](std::vector<std::size_t> wanted, std::size_t budget) {
    return fair_shares(wanted, budget);
  };
  using Shares = std::vector<std::size_t>;
  EXPECT_EQ(shares({1000, 10}, 100), (Shares{90, 10}));
  EXPECT_EQ(shares({1000, 1000}, 100), (Shares{50, 50}));
  EXPECT_EQ(shares({5, 6}, 100), (Shares{5, 6}));
  EXPECT_EQ(shares({7, 7, 7}, 2), (Shares{1, 1, 0}));
  EXPECT_EQ(shares({}, 100), Shares{});
  EXPECT_EQ(shares({4}, 0), Shares{0});
}

TEST(FairShares, NobodyGetsMoreThanWantedAndNothingIsLeftThatSomebodyWants) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::size_t> wanted(1 + random() % 8);
    for (std::size_t& w : wanted) w = random() % 50;
    const std::size_t budget = random() % 200;
    const std::vector<std::size_t> shares = fair_shares(wanted, budget);
    const std::size_t all = std::accumulate(wanted.begin(), wanted.end(), std::size_t{0});
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::size_t{0}), std::min(all, budget));
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_LE(shares[i], wanted[i]);
  }
}

Thinking limit(std::int64_t budget, bool starts_open = false) {
  return {.starts_open = starts_open, .budget = budget, .closing = {1}};
}

TEST(EventLog, WhatClientsSendIsEscaped) {
  for (const EventLog::Form form : {EventLog::Form::kText, EventLog::Form::kJson}) {
    std::ostringstream out;
    EventLog log(std::make_shared<spdlog::sinks::ostream_sink_mt>(out), form, spdlog::level::info);
    log.write(spdlog::level::info, "request", {{"path", "/a\r\nb\x1b[2J\x92"}, {"status", 200}});
    const std::string line = out.str();
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
    EXPECT_EQ(line.find('\x92'), std::string::npos);
    EXPECT_NE(line.find("\\r\\n"), std::string::npos) << line;
  }
}

TEST(ThinkingWatch, FindsMarkersAcrossTokens) {
  ThinkingWatch watch(limit(3));
  for (const char* text : {"He", "llo <", "thi", "nk"}) {
    watch.feed(text);
    EXPECT_FALSE(watch.inside());
  }
  watch.feed(">Hm");
  EXPECT_TRUE(watch.inside());
  watch.feed(" </thin");
  EXPECT_FALSE(watch.is_due());
  watch.feed("k> So.");
  EXPECT_FALSE(watch.inside());
  watch.feed("<think>");
  EXPECT_FALSE(watch.inside()) << "only once an answer";
}

TEST(ThinkingWatch, IsDueOnceWhenTheBudgetIsUsedUp) {
  ThinkingWatch watch(limit(2, true));
  EXPECT_TRUE(watch.inside());
  watch.feed("a");
  EXPECT_FALSE(watch.is_due());
  watch.feed("b");
  EXPECT_TRUE(watch.is_due());
  EXPECT_FALSE(watch.is_due());
  ThinkingWatch none(limit(0, true));
  EXPECT_TRUE(none.is_due());
}

TEST(Histogram, CountsByUpperBound) {
  Histogram histogram;
  for (const double value : {0.0, 0.001, 0.0011, 400.0, 0.3}) histogram.observe(value);
  EXPECT_EQ(histogram.counts()[0], 2u) << "bounds are included";
  EXPECT_EQ(histogram.counts()[1], 1u);
  EXPECT_EQ(histogram.counts()[8], 1u);
  EXPECT_EQ(histogram.count(), 5u);
  EXPECT_DOUBLE_EQ(histogram.sum(), 400.3021);
}

}  // namespace
}  // namespace strata::serve
