// strata tokenize: text to token ids and back.
#include "src/app/command.hpp"
#include "strata/base/error.hpp"
#include "strata/gguf/file.hpp"
#include "strata/text/detokenizer.hpp"
#include "strata/text/tokenizer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::app {
namespace {

using Ids = std::vector<std::int32_t>;
using nlohmann::json;

constexpr std::size_t kLargestInput = std::size_t{1} << 31;

constexpr const char* kTokenizeExamples = R"(
Examples:
  strata tokenize model.gguf "Hello world"           a token a line: id and text
  strata tokenize model.gguf --ids < book.txt        only the ids, on one line
  strata tokenize model.gguf --decode "9707 1879"    ids back to text
  strata tokenize model.gguf --special "<|im_start|>user"
  strata tokenize model.gguf --json-lines < strings.jsonl > ids.jsonl

Text from standard input is taken byte for byte, its last line break too.
--json-lines reads a JSON string a line and prints an array of ids for each, at once; with --decode
it is the other way round.)";

struct TokenizeOptions {
  std::string model, text;
  bool ids = false;
  bool special = false;
  bool json_lines = false;
  bool decode = false;
  bool no_bos = false;
  bool nfc = false;
  bool no_nfc = false;
  CLI::Option* text_option = nullptr;
};

// Numbers, whatever stands between them of spaces, commas and brackets.
Ids parse_ids(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  Ids ids;
  while (true) {
    const std::size_t begin = text.find_first_not_of(kBetween);
    if (begin == std::string_view::npos) return ids;
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      fail(ErrorKind::kUsage, "--decode: '{}' is not a token id", word);
    }
    ids.push_back(id);
    text.remove_prefix(word.size());
  }
}

class Tokenize {
 public:
  Tokenize(const TokenizeOptions& options, Console& console)
      : options_(options), console_(console), tokenizer_(load(options)) {}

  void run() {
    if (options_.json_lines) return lines();
    const std::string input =
        options_.text_option->count() > 0 ? options_.text : read_standard_input(kLargestInput);
    if (options_.decode) {
      console_.out.write(decode(parse_ids(input)) + "\n");
    } else if (options_.ids) {
      console_.out.print("{}\n", fmt::join(encode(input), " "));
    } else {
      for (const std::int32_t id : encode(input)) {
        // As a JSON string: line breaks and halves of characters stay visible.
        const json piece(std::string(tokenizer_.piece(id)));
        console_.out.print("{:>7}  {}\n", id,
                           piece.dump(-1, ' ', false, json::error_handler_t::replace));
      }
    }
  }

 private:
  static text::Tokenizer load(const TokenizeOptions& options) {
    text::TokenizerOptions tokenizer;
    if (options.nfc) tokenizer.nfc = true;
    if (options.no_nfc) tokenizer.nfc = false;
    return text::Tokenizer::from_gguf(gguf::File::open(options.model), tokenizer);
  }

  [[nodiscard]] Ids encode(std::string_view text) const {
    text::EncodeOptions encode{.parse_special = options_.special};
    if (options_.no_bos) encode.add_bos = encode.add_eos = false;
    return tokenizer_.encode(text, encode);
  }
  [[nodiscard]] std::string decode(const Ids& ids) const {
    return text::decode(tokenizer_, ids, {.show_control = options_.special});
  }

  void lines() {
    std::string line;
    for (std::size_t number = 1; std::getline(std::cin, line); ++number) {
      try {
        const json input = json::parse(line);
        const json answer = options_.decode ? json(decode(input.get<Ids>()))
                                            : json(encode(input.get<std::string>()));
        console_.out.write(answer.dump() + "\n");
      } catch (const json::exception&) {
        fail(ErrorKind::kInput, "standard input, line {}: expected a JSON {}", number,
             options_.decode ? "array of token ids" : "string");
      }
      console_.out.flush();  // whoever asks line by line waits for it
    }
  }

  const TokenizeOptions& options_;
  Console& console_;
  text::Tokenizer tokenizer_;
};

}  // namespace

Command add_tokenize(CLI::App& program) {
  CLI::App* app = program.add_subcommand("tokenize", "Turns text into token ids and back.");
  app->footer(kTokenizeExamples);
  const auto o = std::make_shared<TokenizeOptions>();
  app->add_option("MODEL", o->model, "GGUF file; one with only a vocabulary will do")
      ->required()
      ->type_name("");
  o->text_option =
      app->add_option("TEXT", o->text, "by default standard input, byte for byte")->type_name("");
  const std::string group = "Text and ids";
  CLI::Option* ids = app->add_flag("--ids", o->ids, "only the ids, on one line")->group(group);
  app->add_flag("--special", o->special,
                "recognise special tokens in text, show them when decoding")
      ->group(group);
  app->add_flag("--no-bos", o->no_bos, "add no token at the start or the end")->group(group);
  app->add_flag("--decode", o->decode, "ids to text")->excludes(ids)->group(group);
  app->add_flag("--json-lines", o->json_lines, "a JSON string a line to a JSON array a line")
      ->excludes(ids)
      ->excludes(o->text_option)
      ->group(group);
  CLI::Option* nfc = app->add_flag("--nfc", o->nfc, "bring text to form C first")->group(group);
  app->add_flag("--no-nfc", o->no_nfc, "take text as it is; by default as the tokenizer does")
      ->excludes(nfc)
      ->group(group);
  return {app, [o](Console& console) {
            Tokenize(*o, console).run();
            return 0;
          }};
}

}  // namespace strata::app
