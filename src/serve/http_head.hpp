// What a request's head must look like before a parser reads it. Two programs that read one head
// differently are how requests are smuggled: whatever RFC 9112 leaves to taste is refused here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace strata::serve {

inline constexpr std::size_t kMaxHeadBytes = 32 << 10;
inline constexpr std::size_t kMaxTargetBytes = 2048;
inline constexpr std::size_t kMaxHeaders = 100;

struct HeadFacts {
  std::uint64_t content_length = 0;
  bool chunked = false;
};

struct HeadProblem {
  int status;
  std::string text;
};

// `head`: the request line and the headers with the blank line that ends them.
[[nodiscard]] std::variant<HeadFacts, HeadProblem> check_head(std::string_view head);

// Where the head ends in what has been received, behind its blank line. Lines that end in a mere LF
// end it too; check_head() refuses them.
[[nodiscard]] std::optional<std::size_t> find_head_end(std::string_view received) noexcept;

}  // namespace strata::serve
