#include "src/app/sampling_options.hpp"

#include "strata/base/error.hpp"
#include "strata/base/file_io.hpp"
#include "strata/text/json_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string_view>
#include <utility>

namespace strata::app {
namespace {

std::pair<std::int32_t, float> parse_bias(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::int32_t id = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + std::min(equals, text.size()), id);
  const char* number = text.c_str() + std::min(equals + 1, text.size());
  char* end = nullptr;
  const float bias = std::strtof(number, &end);  // "-inf" bans the token
  if (equals == std::string::npos || parsed.ec != std::errc() ||
      parsed.ptr != text.data() + equals || *number == '\0' || *end != '\0') {
    fail(ErrorKind::kUsage, "--logit-bias {}: expected ID=BIAS, such as 1234=-2.5 or 1234=-inf",
         text);
  }
  return {id, bias};
}

// Not CLI11's conversion, which takes -1 for the largest seed.
std::uint64_t parse_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size()) {
    fail(ErrorKind::kUsage, "--seed {}: expected a number from 0 to 2^64 - 1", text);
  }
  return seed;
}

}  // namespace

void SamplingFlags::add(CLI::App& app) {
  const std::string group = "Sampling";
  const auto number = [&](const std::string& names, auto& value, const std::string& type,
                          const std::string& help) {
    return app.add_option(names, value, help)->type_name(type)->capture_default_str()->group(group);
  };
  CLI::Option* temperature =
      number("--temp", temperature_, "X", "temperature; 0 takes the likeliest token");
  number("--top-k", top_k_, "K", "draw from the K likeliest tokens; 0: all");
  number("--top-p", top_p_, "P", "draw from the likeliest that reach this share; 1: all");
  number("--min-p", min_p_, "P", "leave out tokens below this share of the best; 0: none");
  number("--repeat-penalty", repeat_, "X", "divide the logits of seen tokens; 1: off");
  number("--presence-penalty", presence_, "X", "subtract from the logits of seen tokens");
  number("--frequency-penalty", frequency_, "X", "the same for each time a token was seen");
  number("--penalty-last-n", last_n_, "N", "tokens that count as seen; -1: all, 0: none");
  app.add_option("--logit-bias", biases_, "add BIAS to the logit of token ID; -inf bans it")
      ->type_name("ID=BIAS")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--seed", seed_, "of the draws; by default a new one, printed")
      ->type_name("N")
      ->group(group);
  app.add_flag("--greedy", greedy_, "always take the likeliest token")
      ->excludes(temperature)
      ->group(group);
}

runtime::SamplingParams SamplingFlags::params() const {
  runtime::SamplingParams params;
  params.temperature = greedy_ ? 0.0F : temperature_;
  params.top_k = top_k_;
  params.top_p = top_p_;
  params.min_p = min_p_;
  params.repetition_penalty = repeat_;
  params.presence_penalty = presence_;
  params.frequency_penalty = frequency_;
  params.penalty_last_n = last_n_;
  for (const std::string& text : biases_) {
    const auto [id, bias] = parse_bias(text);
    params.logit_bias.insert_or_assign(id, bias);
  }
  params.seed = seed_.empty() ? std::random_device{}()  // 32 bits are easier to copy by hand
                              : parse_seed(seed_);
  params.validate();
  return params;
}

void GrammarFlags::add(CLI::App& app) {
  const std::string group = "Sampling";
  CLI::Option* schema =
      app.add_option("--json-schema", schema_file_, "the answer is JSON that satisfies this schema")
          ->type_name("FILE")
          ->group(group);
  app.add_option("--grammar", grammar_file_, "the answer obeys this grammar, in GBNF")
      ->type_name("FILE")
      ->excludes(schema)
      ->group(group);
}

std::shared_ptr<const text::Grammar> GrammarFlags::grammar() const {
  constexpr std::size_t kLargestFile = std::size_t{16} << 20;
  const std::string& file = schema_file_.empty() ? grammar_file_ : schema_file_;
  if (file.empty()) return nullptr;
  const std::string source = read_text_file(file, kLargestFile);
  try {
    if (schema_file_.empty()) return text::compile_gbnf(source);
    return text::compile_json_schema(nlohmann::ordered_json::parse(source));
  } catch (const Error& error) {
    fail(error.kind(), "{}: {}", file, error.what());
  } catch (const nlohmann::ordered_json::exception& error) {
    fail(ErrorKind::kUsage, "{}: not JSON: {}", file, error.what());
  }
}

std::string describe(const runtime::SamplingParams& params) {
  std::string text;
  const runtime::SamplingParams neutral;
  const auto tell = [&](std::string_view name, auto value, auto unless) {
    if (value != unless) text += fmt::format(", {} {}", name, value);
  };
  if (params.temperature == 0) {
    text = ", greedy";
  } else {
    text = fmt::format(", temperature {}", params.temperature);
    tell("top-k", params.top_k, neutral.top_k);
    tell("top-p", params.top_p, neutral.top_p);
    tell("min-p", params.min_p, neutral.min_p);
  }
  tell("repeat penalty", params.repetition_penalty, neutral.repetition_penalty);
  tell("presence penalty", params.presence_penalty, neutral.presence_penalty);
  tell("frequency penalty", params.frequency_penalty, neutral.frequency_penalty);
  tell("biases", params.logit_bias.size(), std::size_t{0});
  if (params.temperature != 0) text += fmt::format(", seed {}", params.seed);
  return text.substr(2);
}

nlohmann::ordered_json to_json(const runtime::SamplingParams& params) {
  nlohmann::ordered_json biases = nlohmann::ordered_json::object();
  for (const auto& [id, bias] : params.logit_bias) {
    // JSON has no infinity.
    biases[std::to_string(id)] =
        std::isfinite(bias) ? nlohmann::ordered_json(bias) : nlohmann::ordered_json("-inf");
  }
  return {{"temperature", params.temperature},
          {"top_k", params.top_k},
          {"top_p", params.top_p},
          {"min_p", params.min_p},
          {"repeat_penalty", params.repetition_penalty},
          {"presence_penalty", params.presence_penalty},
          {"frequency_penalty", params.frequency_penalty},
          {"penalty_last_n", params.penalty_last_n},
          {"logit_bias", biases},
          {"seed", params.seed}};
}

}  // namespace strata::app
