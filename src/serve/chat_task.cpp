#include "src/serve/chat_task.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace strata::serve {
namespace {

void read_biases(const Fields& fields, ChatTask& task) {
  const std::optional<Fields> biases = fields.object("logit_bias");
  if (!biases) return;
  for (const auto& [key, value] : biases->json().items()) {
    std::int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) {
      refuse(biases->path_of(key), "logit_bias: '{}' is not a token id", key);
    }
    // false bans a token, as in llama.cpp.
    const bool bans = value.is_boolean() && !value.get<bool>();
    task.sampling.logit_bias[id] =
        bans ? -std::numeric_limits<float>::infinity()
             : static_cast<float>(biases->number(key, -100, 100).value_or(0));
  }
}

}  // namespace

void read_sampling(const Fields& fields, ChatTask& task) {
  runtime::SamplingParams& s = task.sampling;
  const auto number = [&](std::string_view name, float& value, double low, double high) {
    if (const auto given = fields.number(name, low, high)) value = static_cast<float>(*given);
  };
  number("temperature", s.temperature, 0, 100);
  number("top_p", s.top_p, 0, 1);
  number("min_p", s.min_p, 0, 1);
  number("presence_penalty", s.presence_penalty, -100, 100);
  number("frequency_penalty", s.frequency_penalty, -100, 100);
  number("repetition_penalty", s.repetition_penalty, 1e-3, 100);
  number("repeat_penalty", s.repetition_penalty, 1e-3, 100);
  if (const auto k = fields.integer("top_k", -1, std::numeric_limits<std::int32_t>::max())) {
    s.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(*k, 0));
  }
  for (const char* name : {"penalty_last_n", "repeat_last_n"}) {
    if (const auto n = fields.integer(name, -1, std::numeric_limits<std::int32_t>::max())) {
      s.penalty_last_n = static_cast<std::int32_t>(*n);
    }
  }
  // -1 asks for a new one in llama.cpp.
  const auto seed = fields.integer("seed", std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max());
  if (seed && *seed != -1) {
    s.seed = static_cast<std::uint64_t>(*seed);
    task.has_seed = true;
  }
  read_biases(fields, task);
  task.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  if (const std::optional<std::string> grammar = fields.text("grammar")) {
    task.format = ResponseFormat::kGrammar;
    task.grammar = *grammar;
  }
  if (const std::optional<Fields> variables = fields.object("chat_template_kwargs")) {
    task.template_variables = variables->json();
  }
}

void read_stops(const Fields& fields, std::string_view name, ChatTask& task) {
  task.stops = fields.texts(name, kMaxStops);
  for (const std::string& stop : task.stops) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      refuse(fields.path_of(name), "{}: each has 1 to {} bytes", fields.path_of(name),
             kMaxStopBytes);
    }
  }
}

void read_effort(const std::string& effort, const std::string& path, ChatTask& task) {
  constexpr std::array<std::string_view, 7> kKnown = {"none", "minimal", "low", "medium",
                                                      "high", "xhigh",   "max"};
  if (std::ranges::find(kKnown, effort) == kKnown.end()) {
    refuse(path, "{}: expected none, minimal, low, medium, high, xhigh or max", path);
  }
  task.thinks = effort != "none";
  if (effort == "minimal") {
    task.effort = "low";
  } else if (effort == "xhigh" || effort == "max") {
    task.effort = "high";
  } else if (effort != "none") {
    task.effort = effort;
  }
}

void read_format(const Fields& format, const Json* schema, ChatTask& task) {
  const std::string type = format.need_text("type");
  if (type == "text") return;
  if (task.format == ResponseFormat::kGrammar) {
    refuse("grammar", "grammar and {} exclude each other", format.path());
  }
  if (type == "json_object") {
    // llama.cpp takes a schema here, too.
    schema = format.find("schema");
    task.format = schema == nullptr ? ResponseFormat::kJsonObject : ResponseFormat::kJsonSchema;
  } else if (type == "json_schema") {
    if (schema == nullptr) refuse(format.path(), "{}: there is no schema", format.path());
    task.format = ResponseFormat::kJsonSchema;
  } else {
    refuse(format.path_of("type"), "{}: expected text, json_object or json_schema",
           format.path_of("type"));
  }
  if (schema != nullptr) task.schema = *schema;
}

std::string read_content(const Json& content, const std::string& path) {
  if (content.is_null()) return {};
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) refuse(path, "{}: expected a string or an array of parts", path);
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const std::string part_path = fmt::format("{}[{}]", path, i);
    const Fields part(content[i], part_path);
    const std::string type = part.need_text("type");
    if (type != "text" && type != "input_text" && type != "output_text" && type != "refusal") {
      refuse(part_path, "{}: this model reads text only, not '{}'", part_path, type);
    }
    if (!text.empty()) text += '\n';
    text += type == "refusal" ? part.need_text("refusal") : part.need_text("text");
  }
  return text;
}

}  // namespace strata::serve
