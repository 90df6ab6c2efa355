// Drives the tokenizer from tools/check_tokenizer.py: JSON lines in, JSON lines out.
//
//   tokenize_lines MODEL.gguf [--nfc|--no-nfc]   each line a JSON string -> its ids, special tokens
//   parsed, no BOS added tokenize_lines --rows                        the table of pre-tokenizers,
//   one JSON object a row tokenize_lines --splits PRE                  each line a JSON string ->
//   its pieces by that pre-tokenizer
#include "strata/base/error.hpp"
#include "strata/gguf/file.hpp"
#include "strata/text/pretokenizer.hpp"
#include "strata/text/tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using nlohmann::json;

template <class Answer>
void answer_lines(const Answer& answer) {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << answer(json::parse(line).get<std::string>()).dump() << '\n';
  }
}

void print_rows() {
  for (const strata::text::PreTokenizerRow& row : strata::text::pretokenizer_rows()) {
    std::cout << json{{"names", row.names}, {"patterns", row.patterns}}.dump() << '\n';
  }
}

void split_lines(std::string_view pre) {
  const strata::text::PreTokenizer pretokenizer(strata::text::find_pretokenizer(pre).patterns);
  answer_lines([&](const std::string& text) {
    json pieces = json::array();
    pretokenizer.split(text, [&](std::string_view piece) { pieces.push_back(piece); });
    return pieces;
  });
}

void tokenize_lines(const char* model, std::string_view option) {
  strata::text::TokenizerOptions options;
  if (option == "--nfc") options.nfc = true;
  if (option == "--no-nfc") options.nfc = false;
  const strata::gguf::File file = strata::gguf::File::open(model);
  const auto tokenizer = strata::text::Tokenizer::from_gguf(file, options);
  answer_lines([&](const std::string& text) {
    return json(
        tokenizer.encode(text, {.parse_special = true, .add_bos = false, .add_eos = false}));
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 1 && arguments[0] == "--rows") {
      print_rows();
    } else if (arguments.size() == 2 && arguments[0] == "--splits") {
      split_lines(arguments[1]);
    } else if (arguments.size() == 1 || arguments.size() == 2) {
      tokenize_lines(argv[1], arguments.size() == 2 ? arguments[1] : "");
    } else {
      std::cerr << "usage: tokenize_lines MODEL.gguf [--nfc|--no-nfc] | --rows | --splits PRE\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
