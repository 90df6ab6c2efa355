// Ends an answer at a stop string, even one that spans several pieces of streamed text.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::runtime {

struct StopResult {
  std::string text;  // safe to show now
  std::optional<std::size_t>
      stop;  // index of the stop string that was found; the answer ends before it
};

// Feeds on an answer's text piece by piece. How the text is cut into pieces does not matter: the
// answer ends at the first byte that completes a stop string, and if several end there, the longest
// of them is cut off. Holds back only the longest end of the text that may still become a stop
// string. Pieces of whole UTF-8 characters come out as whole characters. Not thread-safe.
class StopMatcher {
 public:
  // Error(kUsage) for an empty stop string.
  explicit StopMatcher(std::vector<std::string> stops);

  // After a stop was found, further text is dropped and the result names the same stop.
  [[nodiscard]] StopResult feed(std::string_view piece);
  // The text still held back, when the answer ends for another reason.
  [[nodiscard]] std::string finish();

 private:
  struct Pattern {
    std::string text;
    std::vector<std::size_t>
        border;  // [i]: longest proper border of the first i + 1 bytes (Knuth, Morris, Pratt)
    std::size_t matched = 0;  // length of the prefix that the text so far ends with
  };
  std::vector<Pattern> patterns_;
  std::string held_;
  std::optional<std::size_t> stop_;
};

}  // namespace strata::runtime
