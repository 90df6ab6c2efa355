// What tools/check_schemas.py drives to compare grammars of JSON schemas with a validator of
// another make. A line of standard input is a JSON object:
//   {"schema": ..., "samples": 3, "seed": 1, "instances": [...]}
// A line of output for each: {"error": "..."}, or {"samples": [...], "accepted": [...]}: random
// texts of the grammar, and for each instance, written without spaces, whether it is one.
#include "strata/base/error.hpp"
#include "strata/text/json_schema.hpp"
#include "tests/text/grammar_cases.hpp"

#include <exception>
#include <iostream>
#include <random>
#include <string>

namespace {

using nlohmann::ordered_json;
using namespace strata::text;

ordered_json answer(const ordered_json& request) {
  const auto grammar = compile_json_schema(request.at("schema"));
  std::mt19937 random(request.value("seed", 0U));
  ordered_json samples = ordered_json::array();
  const GrammarMatcher on_bytes(grammar, test::byte_vocab());
  const GrammarMatcher on_tokens(grammar, test::demo_vocab());
  for (int i = 0; i < request.value("samples", 0); ++i) {
    const bool bytes = i % 2 == 0;
    samples.push_back(test::random_text(grammar, bytes ? on_bytes : on_tokens,
                                        bytes ? *test::byte_vocab() : *test::demo_vocab(), random,
                                        static_cast<int>(random() % 60)));
  }
  ordered_json accepted = ordered_json::array();
  for (const ordered_json& instance : request.value("instances", ordered_json::array())) {
    accepted.push_back(test::matches(grammar, instance.dump()));
  }
  return {{"samples", samples}, {"accepted", accepted}};
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    ordered_json result;
    try {
      result = answer(ordered_json::parse(line));
    } catch (const strata::Error& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump() << std::endl;
  }
  return 0;
}
