// strata inspect: what is in a GGUF file, and whether it can be run.
#include "src/app/command.hpp"
#include "src/app/model_summary.hpp"
#include "src/app/report.hpp"
#include "strata/gguf/file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>

namespace strata::app {
namespace {

using nlohmann::ordered_json;

constexpr const char* kInspectExamples = R"(
Examples:
  strata inspect model.gguf
  strata inspect model.gguf --tensors
  strata inspect model.gguf --metadata --json | jq .metadata

Every valid GGUF file can be inspected, also one that cannot be run: the reason is told then, and
the exit code is 0 all the same.)";

struct InspectOptions {
  std::string model;
  bool tensors = false;
  bool metadata = false;
  bool json = false;
};

constexpr std::size_t kShownItems = 16;   // of an array
constexpr std::size_t kShownBytes = 200;  // of a string, outside JSON

// A value as JSON; of long arrays the first items.
ordered_json value_json(const gguf::Value& value) {
  return std::visit(
      [](const auto& v) -> ordered_json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, gguf::IntArray> || std::is_same_v<T, gguf::FloatArray> ||
                      std::is_same_v<T, gguf::StringArray>) {
          const auto shown = std::min(v.size(), kShownItems);
          return ordered_json(std::vector<typename T::value_type>(
              v.begin(), v.begin() + static_cast<std::ptrdiff_t>(shown)));
        } else {
          return ordered_json(v);
        }
      },
      value);
}

std::size_t item_count(const gguf::Value& value) {
  return std::visit(
      [](const auto& v) -> std::size_t {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, gguf::IntArray> || std::is_same_v<T, gguf::FloatArray> ||
                      std::is_same_v<T, gguf::StringArray>) {
          return v.size();
        } else {
          return 1;
        }
      },
      value);
}

std::vector<std::int64_t> shape_of(const gguf::TensorInfo& tensor) {
  return {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims};
}

void print_metadata(Console& console, const gguf::File& file) {
  console.out.print("\nmetadata, {} keys\n", file.metadata().size());
  for (const gguf::KeyValue& entry : file.metadata()) {
    std::string text = json_line(value_json(entry.value));
    text.pop_back();
    if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + " ...";
    const std::size_t items = item_count(entry.value);
    console.out.print("  {} {}{} = {}\n", entry.key, entry.type_name,
                      items > kShownItems ? fmt::format(" x {}", items) : "", text);
  }
}

void print_tensors(Console& console, const gguf::File& file) {
  console.out.print("\ntensors, {}\n", file.tensors().size());
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    console.out.print("  {:<44} {:<7} [{}] {}\n", tensor.name, gguf::traits(tensor.type).name,
                      fmt::join(shape_of(tensor), ", "),
                      format_bytes(static_cast<double>(tensor.data.size())));
  }
}

ordered_json details_json(const InspectOptions& options, const gguf::File& file) {
  ordered_json json = ordered_json::object();
  if (options.metadata) {
    for (const gguf::KeyValue& entry : file.metadata()) {
      ordered_json& item = json["metadata"][std::string(entry.key)];
      item["type"] = entry.type_name;
      if (entry.type_name.starts_with("arr")) item["count"] = item_count(entry.value);
      item["value"] = value_json(entry.value);
    }
  }
  if (options.tensors) {
    json["tensors"] = ordered_json::array();
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      json["tensors"].push_back({{"name", tensor.name},
                                 {"type", gguf::traits(tensor.type).name},
                                 {"shape", shape_of(tensor)},
                                 {"bytes", tensor.data.size()},
                                 {"shard", tensor.shard}});
    }
  }
  return json;
}

int run(const InspectOptions& options, Console& console) {
  const gguf::File file = gguf::File::open(options.model);
  const ModelSummary summary = summarise(file);
  if (options.json) {
    ordered_json json = to_json(summary);
    json.update(details_json(options, file));
    console.out.write(json_line(json));
    return 0;
  }
  console.out.write(describe(summary));
  if (options.metadata) print_metadata(console, file);
  if (options.tensors) print_tensors(console, file);
  return 0;
}

}  // namespace

Command add_inspect(CLI::App& program) {
  CLI::App* app = program.add_subcommand("inspect", "Tells what is in a GGUF file.");
  app->footer(kInspectExamples);
  const auto o = std::make_shared<InspectOptions>();
  app->add_option("MODEL", o->model, "GGUF file, or the first shard of a split one")
      ->required()
      ->type_name("");
  const std::string group = "What to print";
  app->add_flag("--tensors", o->tensors, "every tensor: type, shape, size")->group(group);
  app->add_flag("--metadata", o->metadata, "every key; of long arrays the first items")
      ->group(group);
  app->add_flag("--json", o->json, "all of it as one JSON object")->group(group);
  return {app, [o](Console& console) { return run(*o, console); }};
}

}  // namespace strata::app
