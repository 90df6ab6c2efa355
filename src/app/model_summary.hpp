// What a GGUF file holds, whatever its architecture.
#pragma once

#include "strata/gguf/file.hpp"
#include "strata/model/hparams.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace strata::app {

struct TypeCount {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
};

// Layers in a row whose experts have the same types.
struct ExpertTypes {
  int first_layer = 0;
  int last_layer = 0;
  std::string types;  // "gate Q4_0, up Q4_0, down Q4_0"
};

struct ModelSummary {
  std::string path;
  std::uint32_t version = 0;
  std::size_t shards = 0;
  std::uint64_t file_bytes = 0;
  std::string architecture, name;
  std::size_t metadata = 0, tensors = 0;
  std::uint64_t parameters = 0;  // elements of all tensors
  std::map<std::string, TypeCount> types;
  std::map<std::string, std::uint64_t> role_bytes;  // experts, dense, embedding, head
  std::vector<ExpertTypes> expert_types;
  std::string tokenizer;                  // "gpt2, pre qwen2, 8192 tokens"; or why there is none
  std::string chat_template;              // "none", "4100 bytes", or what is wrong with it
  std::optional<model::HParams> hparams;  // of an architecture we run
  std::string obstacle;                   // why it cannot be run; empty: it can
};

[[nodiscard]] ModelSummary summarise(const gguf::File& file);
[[nodiscard]] std::string describe(const ModelSummary& summary);
[[nodiscard]] nlohmann::ordered_json to_json(const ModelSummary& summary);

}  // namespace strata::app
