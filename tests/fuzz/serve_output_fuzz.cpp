// What a model may write, from arbitrary bytes: cut anywhere, it is read the same.
#include "src/serve/output_parser.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace strata::serve;

// Everything in one text; ids of calls are random.
std::string read(const OutputStyle& style, std::string_view first, std::string_view second) {
  const std::unique_ptr<OutputParser> parser = OutputParser::make(style);
  Deltas deltas;
  for (const std::string_view piece : {first, second}) parser->feed(piece, deltas);
  parser->finish(deltas);
  std::string reasoning, text, calls;
  for (const Delta& delta : deltas) {
    (delta.kind == Delta::Kind::kReasoning ? reasoning : text) += delta.text;
    calls += "\n" + delta.call.name + delta.call.arguments;
    if (delta.kind != Delta::Kind::kToolCall) calls.resize(calls.size() - 1);
  }
  return reasoning + "\n--\n" + text + "\n--" + calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  OutputStyle style;
  style.form = data[0] % 2 == 0 ? OutputForm::kTagged : OutputForm::kHarmony;
  style.thinks = (data[0] & 2) != 0;
  style.starts_inside = (data[0] & 4) != 0;
  if ((data[0] & 8) != 0) style.tools = Json::array();
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t cut = text.size() * data[1] / 255;
  if (read(style, text, {}) != read(style, text.substr(0, cut), text.substr(cut))) std::abort();
  return 0;
}
