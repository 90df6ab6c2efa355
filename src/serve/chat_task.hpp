// A chat request, whichever API it came by. The APIs read into it; strata/serve/chat_model turns it
// into requests to the engine.
#pragma once

#include "src/serve/fields.hpp"
#include "strata/runtime/sampler.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::serve {

enum class ToolMode { kAuto, kNone, kRequired };

enum class ResponseFormat { kText, kJsonObject, kJsonSchema, kGrammar };

struct ChatTask {
  Json messages = Json::array();  // in OpenAI's form, contents as strings
  Json tools;                     // array of {"type": "function", "function": ...}, or null
  ToolMode tool_mode = ToolMode::kAuto;
  std::string tool_name;  // of kRequired: this one; empty: any
  Json template_variables = Json::object();

  std::optional<bool> thinks;         // unset: as the model likes
  std::string effort;                 // "low" "medium" "high"; empty: none asked for
  std::int64_t thinking_budget = -1;  // tokens; -1: any

  ResponseFormat format = ResponseFormat::kText;
  Json schema;          // of kJsonSchema
  std::string grammar;  // of kGrammar: GBNF

  runtime::SamplingParams sampling;
  bool has_seed = false;  // without one each answer is another
  std::int64_t max_tokens = -1;
  std::vector<std::string> stops;
  int choices = 1;
  int top_logprobs = -1;  // as GenerationRequest
  bool ignore_eos = false;
  bool stream = false;
};

// The most that a request may ask for.
inline constexpr std::size_t kMaxStops = 16;
inline constexpr std::size_t kMaxStopBytes = 4096;
inline constexpr int kMaxChoices = 16;
inline constexpr int kMaxTopLogprobs = 20;
inline constexpr std::size_t kMaxMessages = 10'000;
inline constexpr std::size_t kMaxTools = 512;

// The fields that all APIs share: temperature, top_p, top_k, min_p, the penalties, seed,
// logit_bias, ignore_eos, grammar, chat_template_kwargs.
void read_sampling(const Fields& fields, ChatTask& task);
void read_stops(const Fields& fields, std::string_view name, ChatTask& task);
// "none" turns thinking off, the others are passed on; `path` is told when it is another word.
void read_effort(const std::string& effort, const std::string& path, ChatTask& task);
// An object {"type": "text" | "json_object" | "json_schema", ...}. `schema` is where the schema is.
void read_format(const Fields& format, const Json* schema, ChatTask& task);

// The text of a content that is a string or an array of {"type": "text", "text": ...} parts of the
// given types, joined by line breaks. Pictures and the like are refused.
[[nodiscard]] std::string read_content(const Json& content, const std::string& path);

}  // namespace strata::serve
