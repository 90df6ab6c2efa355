#include "src/serve/http_head.hpp"

#include "src/serve/ascii.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace strata::serve {
namespace {

HeadProblem bad(std::string text) { return {400, std::move(text)}; }

// RFC 9110, 5.6.2.
bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F;
}

class HeadCheck {
 public:
  std::optional<HeadProblem> request_line(std::string_view line) {
    const std::size_t first = line.find(' ');
    const std::size_t last = line.rfind(' ');
    if (first == std::string_view::npos || first == last) return bad("malformed request line");
    const std::string_view method = line.substr(0, first);
    const std::string_view target = line.substr(first + 1, last - first - 1);
    const std::string_view version = line.substr(last + 1);
    if (!is_token(method)) return bad("malformed method");
    if (target.size() > kMaxTargetBytes) {
      return HeadProblem{414, fmt::format("the target is longer than {} bytes", kMaxTargetBytes)};
    }
    const bool is_path = target.starts_with('/') || (target == "*" && method == "OPTIONS");
    if (!is_path || std::ranges::any_of(target, [](char c) { return is_control(c) || c == ' '; })) {
      return bad("the target must be a path");
    }
    old_ = version == "HTTP/1.0";
    if (!old_ && version != "HTTP/1.1") {
      return HeadProblem{505, "this server speaks HTTP/1.1"};
    }
    return std::nullopt;
  }

  std::optional<HeadProblem> header(std::string_view line) {
    if (line.front() == ' ' || line.front() == '\t') return bad("a folded header");
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
      return bad("malformed header");
    }
    const std::string name = lower(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1), " \t");
    if (std::ranges::any_of(value, [](char c) { return is_control(c) && c != '\t'; })) {
      return bad("a control character in a header");
    }
    if (++headers_ > kMaxHeaders) {
      return HeadProblem{431, fmt::format("more than {} headers", kMaxHeaders)};
    }
    return meaning(name, value);
  }

  std::optional<HeadProblem> end() const {
    if (hosts_ > 1) return bad("more than one Host header");
    if (hosts_ == 0 && !old_) return bad("no Host header");
    if (lengths_ > 1) return bad("more than one Content-Length");
    if (encodings_ > 1) return bad("more than one Transfer-Encoding");
    if (encodings_ > 0 && lengths_ > 0) return bad("both Content-Length and Transfer-Encoding");
    if (encodings_ > 0 && old_) return bad("Transfer-Encoding in HTTP/1.0");
    return std::nullopt;
  }
  [[nodiscard]] const HeadFacts& facts() const noexcept { return facts_; }

 private:
  std::optional<HeadProblem> meaning(std::string_view name, std::string_view value) {
    if (name == "host") {
      ++hosts_;
    } else if (name == "content-length") {
      ++lengths_;
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), facts_.content_length);
      if (error != std::errc() || end != value.data() + value.size()) {
        return bad("malformed Content-Length");
      }
    } else if (name == "transfer-encoding") {
      ++encodings_;
      if (lower(value) != "chunked") return HeadProblem{501, "unknown Transfer-Encoding"};
      facts_.chunked = true;
    } else if (name == "content-encoding" && lower(value) != "identity") {
      return HeadProblem{415, "compressed requests are not taken"};
    } else if (name == "expect" && lower(value) != "100-continue") {
      return HeadProblem{417, "unknown Expect"};
    }
    return std::nullopt;
  }

  HeadFacts facts_;
  bool old_ = false;
  std::size_t headers_ = 0;
  int hosts_ = 0, lengths_ = 0, encodings_ = 0;
};

}  // namespace

std::variant<HeadFacts, HeadProblem> check_head(std::string_view head) {
  HeadCheck check;
  for (bool first = true;; first = false) {
    const std::size_t end = head.find('\n');
    if (end == std::string_view::npos) return bad("the head has no end");
    if (end == 0 || head[end - 1] != '\r') return bad("a line does not end in CR LF");
    const std::string_view line = head.substr(0, end - 1);
    head.remove_prefix(end + 1);
    if (line.empty()) {
      if (first) return bad("no request line");
      break;
    }
    if (std::optional<HeadProblem> problem =
            first ? check.request_line(line) : check.header(line)) {
      return *problem;
    }
  }
  if (std::optional<HeadProblem> problem = check.end()) return *problem;
  return check.facts();
}

std::optional<std::size_t> find_head_end(std::string_view received) noexcept {
  for (std::size_t at = received.find('\n'); at != std::string_view::npos;
       at = received.find('\n', at + 1)) {
    std::size_t next = at + 1;
    if (next < received.size() && received[next] == '\r') ++next;
    if (next < received.size() && received[next] == '\n') return next + 1;
  }
  return std::nullopt;
}

}  // namespace strata::serve
