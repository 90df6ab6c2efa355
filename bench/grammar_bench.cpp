// What a grammar costs a token, with Qwen3's vocabulary of 151,669 tokens.
//   grammar_bench [Google Benchmark's flags]
// "cold": each text is the first one of its grammar, so masks are still to be found. "warm": the
// same texts again. A text is what a model at a very high temperature would write: random allowed
// tokens, after that the shortest way to the end. The counters are in microseconds of the
// processor's time a token: the mean, the 99th percentile and the largest.
#include "strata/text/json_schema.hpp"
#include "strata/text/tokenizer.hpp"
#include "tests/text/grammar_cases.hpp"
#include "tests/text/test_vocab.hpp"

#include <benchmark/benchmark.h>

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using nlohmann::ordered_json;
using namespace strata::text;

constexpr int kTexts = 20;
constexpr int kTokens = 100;  // of a text, before it is brought to its end

const Tokenizer& tokenizer() {
  static const Tokenizer instance = [] {
    const auto json = nlohmann::json::parse(read_xz(data_path("qwen3.tokenizer.json.xz")));
    Vocab vocab = vocab_from_hf(json, "qwen2");
    vocab.eos = 151645;
    return Tokenizer(vocab);
  }();
  return instance;
}

std::shared_ptr<const GrammarVocab> vocab() {
  static const auto instance = std::make_shared<const GrammarVocab>(tokenizer());
  return instance;
}

// The tokens of some texts of the grammar.
std::vector<std::vector<std::int32_t>> texts_of(const test::GrammarPtr& grammar) {
  const GrammarMatcher start(grammar, vocab());
  std::mt19937 random(1);
  std::vector<std::vector<std::int32_t>> texts;
  for (int i = 0; i < kTexts; ++i) {
    const std::string text = test::random_text(grammar, start, *vocab(), random, kTokens);
    texts.push_back(tokenizer().encode(text));
  }
  return texts;
}

// Of this thread, so that others on the machine do not count.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void follow(const GrammarMatcher& start, const std::vector<std::int32_t>& tokens,
            std::vector<double>& seconds) {
  GrammarMatcher matcher = start;
  std::vector<std::uint64_t> mask(vocab()->mask_words());
  for (const std::int32_t token : tokens) {
    const double begin = processor_seconds();
    const bool going = matcher.allowed(mask) && matcher.accept(token);
    seconds.push_back(processor_seconds() - begin);
    if (!going) throw std::runtime_error("a text left its grammar");
  }
}

void step(benchmark::State& state, const test::GrammarPtr& grammar, bool warm) {
  const auto texts = texts_of(grammar);
  const GrammarMatcher known(grammar, vocab());
  std::vector<double> seconds;
  if (warm) {
    for (const auto& text : texts) follow(known, text, seconds);
  }
  seconds.clear();
  std::size_t i = 0;
  for (auto _ : state) {
    follow(warm ? known : GrammarMatcher(grammar, vocab()), texts[i++ % texts.size()], seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  double sum = 0;
  for (const double each : seconds) sum += each;
  state.counters["mean"] = 1e6 * sum / static_cast<double>(seconds.size());
  state.counters["p99"] = 1e6 * seconds[seconds.size() * 99 / 100];
  state.counters["max"] = 1e6 * seconds.back();
  state.SetItemsProcessed(static_cast<std::int64_t>(seconds.size()));
}

const char* const kPerson = R"({
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 60},
    "email": {"type": "string", "format": "email"},
    "born": {"type": "string", "format": "date"},
    "height": {"type": "number", "minimum": 0.3, "maximum": 2.6},
    "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 5},
    "notes": {"type": "string"},
    "friends": {"type": "array", "items": {"$ref": "#"}}
  },
  "required": ["name", "born"],
  "additionalProperties": false
})";

void register_all() {
  struct Case {
    std::string name;
    test::GrammarPtr grammar;
  };
  const auto schema = [](const char* text) {
    return compile_json_schema(ordered_json::parse(text));
  };
  static const std::vector<Case> cases = {
      {"json_object", json_object_grammar()},
      {"person", schema(kPerson)},
      {"free_string", schema(R"({"type": "string"})")},
      {"bounded_string", schema(R"({"type": "string", "minLength": 10, "maxLength": 400})")},
      {"pattern", schema(R"({"type": "string", "pattern": "^[a-z ]+([.,] [a-z ]+)*$"})")},
      {"gbnf_prose", compile_gbnf("root ::= (word (\" \" | \", \" | \". \" | \"\\n\"))+\n"
                                  "word ::= [a-zA-Z'-]{1,25}")},
  };
  for (const Case& each : cases) {
    for (const bool warm : {false, true}) {
      benchmark::RegisterBenchmark(
          (each.name + (warm ? "/warm" : "/cold")).c_str(),
          [&each, warm](benchmark::State& state) { step(state, each.grammar, warm); })
          ->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RegisterBenchmark("compile/person", [schema](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(schema(kPerson));
  })->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark("vocabulary", [](benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(GrammarVocab(tokenizer()).size());
  })->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  try {
    register_all();
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
