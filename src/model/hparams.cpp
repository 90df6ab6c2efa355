#include "strata/model/hparams.hpp"

#include "strata/base/error.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string_view>

namespace strata::model {
namespace {

// Reads keys below the architecture's prefix.
class Keys {
 public:
  Keys(const gguf::File& file, std::string_view prefix) : file_(file), prefix_(prefix) {}

  [[nodiscard]] std::string name(std::string_view key) const {
    return fmt::format("{}.{}", prefix_, key);
  }

  [[nodiscard]] int required_int(std::string_view key, std::int64_t low, std::int64_t high) const {
    const std::optional<std::int64_t> value = file_.get_int(name(key));
    if (!value)
      fail(ErrorKind::kInput, "{}: metadata key '{}' is missing", file_.path().string(), name(key));
    return check(key, *value, low, high);
  }
  [[nodiscard]] int optional_int(std::string_view key, std::int64_t fallback, std::int64_t low,
                                 std::int64_t high) const {
    return check(key, file_.get_int(name(key)).value_or(fallback), low, high);
  }
  [[nodiscard]] float required_float(std::string_view key) const {
    const std::optional<double> value = file_.get_float(name(key));
    if (!value)
      fail(ErrorKind::kInput, "{}: metadata key '{}' is missing", file_.path().string(), name(key));
    return positive(key, *value);
  }
  [[nodiscard]] float optional_float(std::string_view key, double fallback) const {
    return positive(key, file_.get_float(name(key)).value_or(fallback));
  }

 private:
  [[nodiscard]] int check(std::string_view key, std::int64_t value, std::int64_t low,
                          std::int64_t high) const {
    if (value < low || value > high) {
      fail(ErrorKind::kInput, "{}: metadata key '{}' is {}; expected {} to {}",
           file_.path().string(), name(key), value, low, high);
    }
    return static_cast<int>(value);
  }
  [[nodiscard]] float positive(std::string_view key, double value) const {
    // Checked as a float: what is tiny or huge as a double may be none.
    const auto kept = static_cast<float>(value);
    if (!(kept > 0) || !std::isfinite(kept)) {
      fail(ErrorKind::kInput, "{}: metadata key '{}' is {}; expected a positive number",
           file_.path().string(), name(key), value);
    }
    return kept;
  }

  const gguf::File& file_;
  std::string_view prefix_;
};

const Architecture& require_architecture(const gguf::File& file) {
  const std::optional<std::string_view> name = file.get_string("general.architecture");
  if (!name)
    fail(ErrorKind::kInput, "{}: metadata key 'general.architecture' is missing",
         file.path().string());
  if (const Architecture* arch = find_architecture(*name)) return *arch;
  std::string known;
  for (const Architecture& a : architectures())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", a.name);
  const bool has_experts = file.get_int(fmt::format("{}.expert_count", *name)).value_or(0) > 0;
  fail(ErrorKind::kInput, "{}: the architecture '{}' is not supported{}; supported: {}",
       file.path().string(), *name,
       has_experts ? "" : " (and has no experts: this engine is for mixture-of-experts models)",
       known);
}

}  // namespace

HParams read_hparams(const gguf::File& file) {
  const Architecture& arch = require_architecture(file);
  const Keys keys(file, arch.name);
  HParams h;
  h.arch = &arch;
  h.name = std::string(file.get_string("general.name").value_or(file.path().filename().string()));
  h.experts = keys.optional_int("expert_count", 0, 0, 65536);
  if (h.experts == 0) {
    fail(ErrorKind::kInput,
         "{}: '{}' is 0: a dense model; this engine is for mixture-of-experts models",
         file.path().string(), keys.name("expert_count"));
  }
  h.experts_used = keys.required_int("expert_used_count", 1, h.experts);
  h.layers = keys.required_int("block_count", 1, 4096);
  h.embd = keys.required_int("embedding_length", 32, 1 << 20);
  h.context = keys.required_int("context_length", 1, 1 << 28);
  h.heads = keys.required_int("attention.head_count", 1, 65536);
  h.kv_heads = keys.optional_int("attention.head_count_kv", h.heads, 1, h.heads);
  h.head_dim = keys.optional_int("attention.key_length", h.embd / h.heads, 16, 512);
  const int value_dim = keys.optional_int("attention.value_length", h.head_dim, 16, 512);
  h.n_rot = keys.optional_int("rope.dimension_count", h.head_dim, 2, h.head_dim);
  h.rope_base = keys.optional_float("rope.freq_base", 10000.0);
  h.norm_eps = keys.required_float("attention.layer_norm_rms_epsilon");
  const std::int64_t ff = file.get_int(keys.name("feed_forward_length")).value_or(0);
  h.expert_hidden =
      keys.optional_int("expert_feed_forward_length", ff / h.experts_used, 32, 1 << 20);

  const auto refuse = [&](std::string_view what) {
    fail(ErrorKind::kInput, "{}: {}", file.path().string(), what);
  };
  const std::string_view scaling = file.get_string(keys.name("rope.scaling.type")).value_or("none");
  if (scaling == "linear") {
    h.rope_scale = keys.optional_float("rope.scaling.factor", 1.0);
  } else if (scaling != "none") {
    refuse(fmt::format("'{}' is '{}'; supported: none, linear", keys.name("rope.scaling.type"),
                       scaling));
  }
  if (h.embd % 32 != 0)
    refuse(fmt::format("'{}' is {}, not a multiple of 32", keys.name("embedding_length"), h.embd));
  if (h.expert_hidden % 32 != 0) {
    refuse(fmt::format("'{}' is {}, not a multiple of 32", keys.name("expert_feed_forward_length"),
                       h.expert_hidden));
  }
  if (h.heads % h.kv_heads != 0) {
    refuse(fmt::format("'{}' is {}: {} query heads do not divide evenly over them",
                       keys.name("attention.head_count_kv"), h.kv_heads, h.heads));
  }
  if (h.head_dim % 16 != 0) {
    refuse(fmt::format("'{}' is {}, not a multiple of 16", keys.name("attention.key_length"),
                       h.head_dim));
  }
  if (value_dim != h.head_dim) {
    refuse(fmt::format("'{}' is {}; expected that of the keys, {}",
                       keys.name("attention.value_length"), value_dim, h.head_dim));
  }
  if (h.n_rot % 2 != 0) {
    refuse(fmt::format("'{}' is {}, an odd number: positions rotate pairs",
                       keys.name("rope.dimension_count"), h.n_rot));
  }
  return h;
}

}  // namespace strata::model
