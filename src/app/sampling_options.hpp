// The options that decide which token follows.
#pragma once

#include "strata/runtime/sampler.hpp"
#include "strata/text/grammar.hpp"

#include <CLI/CLI.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace strata::app {

class SamplingFlags {
 public:
  void add(CLI::App& app);

  // Error(kUsage) for a value out of range or a bias that is not ID=BIAS. Without --seed each call
  // draws another seed.
  [[nodiscard]] runtime::SamplingParams params() const;

 private:
  float temperature_ = 0.7F;
  std::int32_t top_k_ = 40;
  float top_p_ = 0.95F;
  float min_p_ = 0.0F;
  float repeat_ = 1.0F;
  float presence_ = 0.0F;
  float frequency_ = 0.0F;
  std::int32_t last_n_ = 64;
  std::vector<std::string> biases_;
  std::string seed_;  // empty: none given
  bool greedy_ = false;
};

// What an answer must be.
class GrammarFlags {
 public:
  void add(CLI::App& app);

  // Null: neither flag was given. Error(kUsage) for a file that is no grammar or no JSON schema
  // that can be enforced, others as read_text_file says.
  [[nodiscard]] std::shared_ptr<const text::Grammar> grammar() const;

 private:
  std::string schema_file_, grammar_file_;
};

// "temperature 0.7, top-k 40, top-p 0.95, seed 7"; what is neutral is left out.
[[nodiscard]] std::string describe(const runtime::SamplingParams& params);
[[nodiscard]] nlohmann::ordered_json to_json(const runtime::SamplingParams& params);

}  // namespace strata::app
