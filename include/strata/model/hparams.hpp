// A model's sizes, read from its metadata and checked for sense.
#pragma once

#include "strata/gguf/file.hpp"
#include "strata/model/architecture.hpp"

#include <cstdint>
#include <string>

namespace strata::model {

struct HParams {
  const Architecture* arch = nullptr;
  std::string name;  // general.name, or the file's name
  int layers = 0;
  std::int64_t embd = 0;   // width of the residual stream
  std::int64_t vocab = 0;  // rows of token_embd
  int context = 0;         // positions the model was trained for
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int n_rot = 0;  // dimensions of a head that RoPE turns
  float rope_base = 0;
  float rope_scale = 1;  // positions are divided by it (linear scaling)
  float norm_eps = 0;
  int experts = 0;
  int experts_used = 0;
  std::int64_t expert_hidden = 0;
};

// Error(kInput): an architecture without a row (the message lists those we have), a dense model, a
// missing key, a value that no model of ours can have. The message names the key.
[[nodiscard]] HParams read_hparams(const gguf::File& file);

}  // namespace strata::model
