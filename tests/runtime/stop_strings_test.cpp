#include "strata/runtime/stop_strings.hpp"

#include "strata/base/error.hpp"

#include <gtest/gtest.h>

#include <random>

namespace strata::runtime {
namespace {

struct Outcome {
  std::string shown;
  std::optional<std::size_t> stop;
};

Outcome feed_all(StopMatcher& matcher, const std::vector<std::string>& pieces) {
  Outcome outcome;
  for (const std::string& piece : pieces) {
    StopResult result = matcher.feed(piece);
    outcome.shown += result.text;
    outcome.stop = result.stop;
  }
  if (!outcome.stop) outcome.shown += matcher.finish();
  return outcome;
}

// The definition, read off the whole text: the earliest end of a stop string; there, the longest.
Outcome by_definition(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    Outcome found{text, std::nullopt};
    std::size_t longest = 0;
    for (std::size_t i = 0; i < stops.size(); ++i) {
      const std::size_t size = stops[i].size();
      if (size > longest && size <= end && text.compare(end - size, size, stops[i]) == 0) {
        longest = size;
        found = {text.substr(0, end - size), i};
      }
    }
    if (found.stop) return found;
  }
  return {text, std::nullopt};
}

TEST(StopMatcher, WithoutStopsTextPassesAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.feed("any text").text, "any text");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, FindsAStopInsideOnePiece) {
  StopMatcher matcher({"END"});
  const StopResult result = matcher.feed("a story END and more");
  EXPECT_EQ(result.text, "a story ");
  EXPECT_EQ(result.stop, 0U);
}

TEST(StopMatcher, FindsAStopAcrossPiecesAndHoldsBackOnlyItsPrefix) {
  StopMatcher matcher({"\nUser:"});
  EXPECT_EQ(matcher.feed("Hello\nUs").text, "Hello");
  EXPECT_EQ(matcher.feed("e").text, "");
  const StopResult result = matcher.feed("r: hi");
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.stop, 0U);
}

TEST(StopMatcher, ReleasesHeldTextThatTurnedOutHarmless) {
  StopMatcher matcher({"\nUser:"});
  EXPECT_EQ(matcher.feed("a\nUse").text, "a");
  EXPECT_EQ(matcher.feed("less").text, "\nUseless");
  EXPECT_EQ(matcher.feed("\n").text, "");
  EXPECT_EQ(matcher.finish(), "\n");
}

TEST(StopMatcher, AFailedPrefixMayContainTheNextOne) {
  StopMatcher matcher({"aab"});
  const Outcome outcome = feed_all(matcher, {"a", "a", "a", "a", "b", "c"});
  EXPECT_EQ(outcome.shown, "aa");
  EXPECT_EQ(outcome.stop, 0U);
}

TEST(StopMatcher, OfTwoThatEndTogetherTheLongerIsCutOff) {
  StopMatcher matcher({"stop", "full stop"});
  const StopResult result = matcher.feed("a full stop");
  EXPECT_EQ(result.text, "a ");
  EXPECT_EQ(result.stop, 1U);
}

TEST(StopMatcher, TheOneThatEndsFirstWins) {
  StopMatcher matcher({"abcdef", "cd"});
  const StopResult result = matcher.feed("abcdef");
  EXPECT_EQ(result.text, "ab");
  EXPECT_EQ(result.stop, 1U);
}

TEST(StopMatcher, AfterAStopNothingComesOut) {
  StopMatcher matcher({"x"});
  EXPECT_EQ(matcher.feed("1x2").text, "1");
  const StopResult later = matcher.feed("3");
  EXPECT_EQ(later.text, "");
  EXPECT_EQ(later.stop, 0U);
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, WholeCharactersStayWhole) {
  // The stop's first character shares its first byte with the text's last.
  StopMatcher matcher({"é!"});
  EXPECT_EQ(matcher.feed("caf").text, "caf");
  EXPECT_EQ(matcher.feed("è").text, "è");
  EXPECT_EQ(matcher.feed("é").text, "");
  EXPECT_EQ(matcher.feed("?").text, "é?");
}

TEST(StopMatcher, RefusesAnEmptyStop) {
  try {
    StopMatcher matcher({"ok", ""});
    FAIL() << "an empty stop string was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

TEST(StopMatcher, RandomTextsInRandomPiecesGiveWhatTheDefinitionGives) {
  std::mt19937 random(7);
  const auto word = [&](std::size_t longest) {
    std::string text;
    const std::size_t size = 1 + random() % longest;
    for (std::size_t i = 0; i < size; ++i) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops;
    for (std::size_t i = random() % 4; i > 0; --i) stops.push_back(word(7));
    const std::string text = word(40);
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, random() % 5));
      at += pieces.back().size();
    }
    StopMatcher matcher(stops);
    const Outcome got = feed_all(matcher, pieces);
    const Outcome want = by_definition(text, stops);
    ASSERT_EQ(got.shown, want.shown) << text;
    ASSERT_EQ(got.stop.has_value(), want.stop.has_value()) << text;
    if (!got.stop) continue;
    ASSERT_EQ(stops[*got.stop], stops[*want.stop]) << text;
    ++stopped;
  }
  EXPECT_GT(stopped, 5000);
}

TEST(StopMatcher, HoldsBackNoMoreThanTheLongestPossiblePrefix) {
  std::mt19937 random(8);
  const std::vector<std::string> stops = {"abab", "bbb", "aabba"};
  for (int round = 0; round < 300; ++round) {
    StopMatcher matcher(stops);
    std::string text;
    std::string shown;
    for (int i = 0; i < 50; ++i) {
      text += static_cast<char>('a' + random() % 3);
      const StopResult result = matcher.feed(text.substr(text.size() - 1));
      if (result.stop) break;
      shown += result.text;
      std::size_t keep = 0;
      for (const std::string& stop : stops) {
        for (std::size_t n = 1; n < stop.size() && n <= text.size(); ++n) {
          if (text.compare(text.size() - n, n, stop, 0, n) == 0) keep = std::max(keep, n);
        }
      }
      ASSERT_EQ(shown, text.substr(0, text.size() - keep));
    }
  }
}

}  // namespace
}  // namespace strata::runtime
