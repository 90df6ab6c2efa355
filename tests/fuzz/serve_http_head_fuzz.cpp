// Heads of HTTP requests from arbitrary bytes: what is taken has one meaning.
#include "src/serve/http_head.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using strata::serve::HeadFacts;

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view received(reinterpret_cast<const char*>(data), size);
  const std::optional<std::size_t> end = strata::serve::find_head_end(received);
  if (!end) return 0;
  check(*end <= received.size());
  const std::string_view head = received.substr(0, *end);
  const auto checked = strata::serve::check_head(head);
  if (const auto* facts = std::get_if<HeadFacts>(&checked)) {
    check(head.ends_with("\r\n\r\n"));
    check(head.find('\0') == std::string_view::npos);
    check(head.find("\n ") == std::string_view::npos);
    check(!facts->chunked || facts->content_length == 0);
    for (std::size_t at = head.find('\n'); at != std::string_view::npos;
         at = head.find('\n', at + 1)) {
      check(at > 0 && head[at - 1] == '\r');
    }
  }
  return 0;
}
