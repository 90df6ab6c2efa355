// Any bytes through the tokenizer of the demo model, as one text and cut into segments.
// The tokens' bytes must be the input's, and decoding must give the input back where it is
// well-formed UTF-8.
#include "strata/gguf/file.hpp"
#include "strata/text/detokenizer.hpp"
#include "strata/text/tokenizer.hpp"
#include "strata/text/unicode.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using strata::text::Segment;
using strata::text::Tokenizer;

void require(bool condition) {
  if (!condition) std::abort();
}

std::string bytes_of(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::string bytes;
  for (const std::int32_t id : ids) bytes += tokenizer.piece(id);
  return bytes;
}

void check(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  const auto ids = tokenizer.encode(text, {.parse_special = parse_special});
  require(bytes_of(tokenizer, ids) == text);
  const std::string decoded = strata::text::decode(tokenizer, ids, {.show_control = true});
  require(strata::text::valid_utf8_prefix(decoded) == decoded.size());
  if (strata::text::valid_utf8_prefix(text) == text.size()) require(decoded == text);
  if (!parse_special) {
    for (const std::int32_t id : ids) require(!tokenizer.is_control(id));
  }
}

// With no segment trusted, or with all, the seams must not matter.
void check_segments(const Tokenizer& tokenizer, std::string_view text, std::size_t cut) {
  for (const bool trusted : {false, true}) {
    const Segment segments[] = {{text.substr(0, cut), trusted}, {text.substr(cut), trusted}};
    require(tokenizer.encode(segments) == tokenizer.encode(text, {.parse_special = trusted}));
  }
  const Segment mixed[] = {{text.substr(0, cut), true}, {text.substr(cut), false}};
  require(bytes_of(tokenizer, tokenizer.encode(mixed)) == text);
}

// Form C changes the text, but only once.
void check_form_c(std::string_view text) {
  if (strata::text::valid_utf8_prefix(text) != text.size()) return;
  const std::string once = strata::text::to_nfc(text);
  require(strata::text::valid_utf8_prefix(once) == once.size());
  require(strata::text::to_nfc(once) == once);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto file = strata::gguf::File::open(STRATA_SOURCE_DIR "/data/strata-demo.gguf");
  static const Tokenizer tokenizer = Tokenizer::from_gguf(file, {.nfc = false});
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check(tokenizer, text, false);
  check(tokenizer, text, true);
  check_segments(tokenizer, text, data[0] % (text.size() + 1));
  check_form_c(text);
  return 0;
}
