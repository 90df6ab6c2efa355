#include "src/app/model_summary.hpp"

#include "src/app/report.hpp"
#include "strata/base/error.hpp"
#include "strata/model/tensors.hpp"
#include "strata/text/chat_template.hpp"
#include "strata/text/tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace strata::app {
namespace {

// By GGUF's names of tensors, which architectures share.
std::string_view role_of(std::string_view tensor) {
  if (tensor.find("_exps.") != std::string_view::npos) return "experts";
  if (tensor.starts_with("token_embd.")) return "embedding";
  if (tensor.starts_with("output.")) return "head";
  return "dense";
}

// The layer of "blk.7.ffn_up_exps.weight", and what of its experts it is: "up".
struct ExpertTensor {
  int layer;
  std::string_view matrix;
};
std::optional<ExpertTensor> parse_expert_tensor(std::string_view name) {
  constexpr std::string_view kBlock = "blk.", kFfn = ".ffn_", kEnd = "_exps.weight";
  if (!name.starts_with(kBlock) || !name.ends_with(kEnd)) return std::nullopt;
  const std::size_t ffn = name.find(kFfn);
  if (ffn == std::string_view::npos) return std::nullopt;
  ExpertTensor result{};
  const auto [end, error] =
      std::from_chars(name.data() + kBlock.size(), name.data() + ffn, result.layer);
  if (error != std::errc() || end != name.data() + ffn) return std::nullopt;
  name.remove_suffix(kEnd.size());
  result.matrix = name.substr(ffn + kFfn.size());
  return result;
}

std::vector<ExpertTypes> expert_types_of(const gguf::File& file) {
  std::map<int, std::string> layers;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const auto expert = parse_expert_tensor(tensor.name);
    if (!expert) continue;
    std::string& types = layers[expert->layer];
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", expert->matrix,
                         gguf::traits(tensor.type).name);
  }
  std::vector<ExpertTypes> runs;
  for (const auto& [layer, types] : layers) {
    if (!runs.empty() && runs.back().types == types && runs.back().last_layer + 1 == layer) {
      runs.back().last_layer = layer;
    } else {
      runs.push_back({layer, layer, types});
    }
  }
  return runs;
}

// What Engine::load would say, found out without loading; empty when it would not object.
std::string find_obstacle(const gguf::File& file, std::optional<model::HParams>& hparams) {
  try {
    model::HParams h = model::read_hparams(file);
    hparams = h;
    (void)model::bind_tensors(file, h);
    hparams = h;
    (void)text::Tokenizer::from_gguf(file);
  } catch (const Error& error) {
    const std::string_view what = error.what();
    const std::string path = file.path().string() + ": ";
    return std::string(what.starts_with(path) ? what.substr(path.size()) : what);
  }
  return {};
}

std::string string_or(const gguf::File& file, std::string_view key, std::string_view otherwise) {
  const gguf::Value* value = file.find(key);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string_view>(value);
  return std::string(text == nullptr ? otherwise : *text);
}

std::string tokenizer_of(const gguf::File& file) {
  const std::string model = string_or(file, "tokenizer.ggml.model", "");
  if (model.empty()) return "none";
  const std::string pre = string_or(file, "tokenizer.ggml.pre", "");
  const gguf::Value* tokens = file.find("tokenizer.ggml.tokens");
  const auto* list = tokens == nullptr ? nullptr : std::get_if<gguf::StringArray>(tokens);
  return fmt::format("{}{}, {} tokens", model, pre.empty() ? "" : ", pre " + pre,
                     list == nullptr ? 0 : list->size());
}

std::string chat_template_of(const gguf::File& file) {
  const std::string source = string_or(file, "tokenizer.chat_template", "");
  if (source.empty()) return "none";
  try {
    (void)text::ChatTemplate::parse(source, {});
  } catch (const Error& error) {
    return fmt::format("{} bytes, which cannot be used: {}", source.size(), error.what());
  }
  return fmt::format("{} bytes", source.size());
}

}  // namespace

ModelSummary summarise(const gguf::File& file) {
  ModelSummary s;
  s.path = file.path().string();
  s.version = file.version();
  s.shards = file.shard_count();
  s.file_bytes = file.total_bytes();
  s.architecture = string_or(file, "general.architecture", "");
  s.name = string_or(file, "general.name", "");
  s.metadata = file.metadata().size();
  s.tensors = file.tensors().size();
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    TypeCount& count = s.types[std::string(gguf::traits(tensor.type).name)];
    ++count.tensors;
    count.bytes += tensor.data.size();
    s.role_bytes[std::string(role_of(tensor.name))] += tensor.data.size();
    s.parameters += static_cast<std::uint64_t>(tensor.ne[0] * tensor.rows());
  }
  s.expert_types = expert_types_of(file);
  s.tokenizer = tokenizer_of(file);
  s.chat_template = chat_template_of(file);
  s.obstacle = find_obstacle(file, s.hparams);
  return s;
}

std::string describe(const ModelSummary& s) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<14} {}\n", name, value);
  };
  line("file", fmt::format("{}, GGUF version {}, {}{}", s.path, s.version,
                           format_bytes(static_cast<double>(s.file_bytes)),
                           s.shards > 1 ? fmt::format(" in {} shards", s.shards) : ""));
  line("architecture", s.architecture.empty() ? "not named" : s.architecture);
  if (!s.name.empty()) line("name", s.name);
  if (s.hparams) {
    const model::HParams& h = *s.hparams;
    line("layers", fmt::format("{}, width {}, context {}", h.layers, h.embd, h.context));
    line("attention",
         fmt::format("{} query heads, {} key-value heads of {}", h.heads, h.kv_heads, h.head_dim));
    line("experts", fmt::format("{} of width {}, {} work on a token", h.experts, h.expert_hidden,
                                h.experts_used));
  }
  line("contents", fmt::format("{} metadata keys, {} tensors, {:.1f} million parameters",
                               s.metadata, s.tensors, static_cast<double>(s.parameters) / 1e6));
  for (const auto& [role, bytes] : s.role_bytes) {
    line("  " + role, format_bytes(static_cast<double>(bytes)));
  }
  for (const auto& [type, count] : s.types) {
    line("  " + type,
         fmt::format("{} in {} tensor{}", format_bytes(static_cast<double>(count.bytes)),
                     count.tensors, count.tensors == 1 ? "" : "s"));
  }
  for (const ExpertTypes& run : s.expert_types) {
    line(run.first_layer == run.last_layer
             ? fmt::format("  layer {}", run.first_layer)
             : fmt::format("  layers {}-{}", run.first_layer, run.last_layer),
         run.types);
  }
  line("tokenizer", s.tokenizer);
  line("chat template", s.chat_template);
  line("runs here", s.obstacle.empty() ? "yes" : "no: " + s.obstacle);
  return text;
}

nlohmann::ordered_json to_json(const ModelSummary& s) {
  using nlohmann::ordered_json;
  ordered_json types = ordered_json::object();
  for (const auto& [type, count] : s.types) {
    types[type] = {{"tensors", count.tensors}, {"bytes", count.bytes}};
  }
  ordered_json roles = ordered_json::object();
  for (const auto& [role, bytes] : s.role_bytes) roles[role] = bytes;
  ordered_json experts = ordered_json::array();
  for (const ExpertTypes& run : s.expert_types) {
    experts.push_back(
        {{"first_layer", run.first_layer}, {"last_layer", run.last_layer}, {"types", run.types}});
  }
  ordered_json json = {{"file", s.path},
                       {"version", s.version},
                       {"shards", s.shards},
                       {"bytes", s.file_bytes},
                       {"architecture", s.architecture},
                       {"name", s.name},
                       {"metadata_keys", s.metadata},
                       {"tensor_count", s.tensors},
                       {"parameters", s.parameters},
                       {"types", types},
                       {"bytes_by_role", roles},
                       {"expert_types", experts},
                       {"tokenizer", s.tokenizer},
                       {"chat_template", s.chat_template},
                       {"runs", s.obstacle.empty()},
                       {"obstacle", s.obstacle}};
  if (s.hparams) {
    const model::HParams& h = *s.hparams;
    json["hparams"] = {{"layers", h.layers},
                       {"embd", h.embd},
                       {"context", h.context},
                       {"heads", h.heads},
                       {"kv_heads", h.kv_heads},
                       {"head_dim", h.head_dim},
                       {"experts", h.experts},
                       {"experts_used", h.experts_used},
                       {"expert_hidden", h.expert_hidden}};
  }
  return json;
}

}  // namespace strata::app
