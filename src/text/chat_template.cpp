#include "strata/text/chat_template.hpp"

#include "strata/base/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace strata::text {
namespace {

using nlohmann::ordered_json;

// Roles that models have in common.
constexpr std::array<std::string_view, 9> kRoles = {"system",    "developer", "user",
                                                    "assistant", "model",     "tool",
                                                    "function",  "ipython",   "environment"};

bool trust_known_roles(std::string_view key, std::string_view text) {
  return key == "role" && std::find(kRoles.begin(), kRoles.end(), text) != kRoles.end();
}

// Names that render() itself gives values.
constexpr std::array<std::string_view, 3> kOwnVariables = {"messages", "tools",
                                                           "add_generation_prompt"};

// JSON as Python's json.dumps writes it, the way it stands in what models were trained on.
std::string dump(const ordered_json& value) {
  static const JinjaTemplate kDump = JinjaTemplate::parse("{{ value|tojson }}");
  const std::array<JinjaVariable, 1> variables = {JinjaVariable{"value", &value}};
  return join_segments(kDump.render(variables, CivilTime{}));
}

void check_messages(const ordered_json& messages) {
  if (!messages.is_array()) {
    fail(ErrorKind::kUsage, "messages must be an array, not {}", messages.type_name());
  }
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const ordered_json& message = messages[i];
    if (!message.is_object()) {
      fail(ErrorKind::kUsage, "messages[{}] must be an object, not {}", i, message.type_name());
    }
    if (!message.contains("role") || !message["role"].is_string()) {
      fail(ErrorKind::kUsage, "messages[{}] needs a \"role\", which is a string", i);
    }
  }
}

void drop_null_members(ordered_json& message) {
  for (auto member = message.begin(); member != message.end();) {
    member = member->is_null() ? message.erase(member) : std::next(member);
  }
}

void name_reasoning(ordered_json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (found == message.end()) continue;
    const ordered_json reasoning = *found;
    message["reasoning_content"] = reasoning;
    if (!message.contains("thinking")) message["thinking"] = reasoning;
    return;
  }
}

// Calls adapt(arguments) on the arguments of each tool call.
template <class Adapt>
void for_each_arguments(ordered_json& message, const Adapt& adapt) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (ordered_json& call : *calls) {
    if (!call.is_object()) continue;
    ordered_json& function =
        call.contains("function") && call["function"].is_object() ? call["function"] : call;
    if (function.contains("arguments")) adapt(function["arguments"]);
  }
}

void make_object(ordered_json& arguments) {
  if (!arguments.is_string()) return;
  ordered_json parsed =
      ordered_json::parse(arguments.get_ref<const std::string&>(), nullptr, false);
  if (parsed.is_object()) arguments = std::move(parsed);
}

void make_text(ordered_json& arguments) {
  if (!arguments.is_string()) arguments = dump(arguments);
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, SpecialTokenTexts tokens,
                                 const JinjaLimits& limits) {
  ChatTemplate parsed(JinjaTemplate::parse(source, limits), std::move(tokens));
  if (source.find("tool_calls") != std::string_view::npos) {
    parsed.argument_form_ = parsed.find_argument_form();
  }
  return parsed;
}

// The text of a conversation with a tool call of these arguments, or nothing when the template
// refuses it.
std::string ChatTemplate::try_tool_call(const ordered_json& arguments) const {
  const ordered_json call = {{"id", "call00001"},
                             {"type", "function"},
                             {"function", {{"name", "probe"}, {"arguments", arguments}}}};
  const ordered_json messages = {
      {{"role", "user"}, {"content", "probe"}},
      {{"role", "assistant"}, {"content", ""}, {"tool_calls", ordered_json::array({call})}},
      {{"role", "tool"}, {"name", "probe"}, {"tool_call_id", "call00001"}, {"content", "probe"}}};
  const ordered_json parameters = {
      {"type", "object"},
      {"properties", {{"probe_key", {{"type", "string"}, {"description", "probe"}}}}},
      {"required", ordered_json::array({"probe_key"})}};
  const ordered_json tool = {
      {"type", "function"},
      {"function", {{"name", "probe"}, {"description", "probe"}, {"parameters", parameters}}}};
  try {
    return join_segments(render_prepared(messages, ordered_json::array({tool}), {}));
  } catch (const Error&) {
    return {};
  }
}

// Most templates take an object; some concatenate or print the arguments, and need JSON text.
// Nothing in a template says which it is, so try: an object that is printed shows as a Python dict,
// in single quotes.
ChatTemplate::ArgumentForm ChatTemplate::find_argument_form() const {
  const std::string with_object =
      try_tool_call(ordered_json::object({{"probe_key", "probe_value"}}));
  const bool printed = with_object.find("'probe_key'") != std::string::npos;
  if (!with_object.empty() && !printed) return ArgumentForm::kObject;
  const std::string with_text = try_tool_call(R"({"probe_key": "probe_value"})");
  const bool shown = with_text.find("\"probe_key\"") != std::string::npos;
  return shown ? ArgumentForm::kText : ArgumentForm::kObject;
}

std::vector<RenderedSegment> ChatTemplate::render(const ordered_json& messages,
                                                  const ordered_json& tools,
                                                  const ChatOptions& options) const {
  check_messages(messages);
  if (!tools.is_null() && !tools.is_array()) {
    fail(ErrorKind::kUsage, "tools must be an array, not {}", tools.type_name());
  }
  ordered_json prepared = messages;
  for (ordered_json& message : prepared) {
    drop_null_members(message);
    name_reasoning(message);
    for_each_arguments(message, argument_form_ == ArgumentForm::kObject ? make_object : make_text);
  }
  return render_prepared(prepared, tools, options);
}

std::vector<RenderedSegment> ChatTemplate::render_prepared(const ordered_json& messages,
                                                           const ordered_json& tools,
                                                           const ChatOptions& options) const {
  if (!options.variables.is_object()) {
    fail(ErrorKind::kUsage, "a template's variables must be an object, not {}",
         options.variables.type_name());
  }
  const ordered_json null;
  const ordered_json add_generation_prompt = options.add_generation_prompt;
  std::vector<JinjaVariable> variables;
  for (const auto& [name, value] : options.variables.items()) {
    if (std::find(kOwnVariables.begin(), kOwnVariables.end(), name) != kOwnVariables.end()) {
      fail(ErrorKind::kUsage,
           "a template's variable cannot be named '{}', which has a value already", name);
    }
    variables.push_back({name, &value});
  }
  variables.push_back({"messages", &messages, trust_known_roles});
  // Templates ask whether there are tools in several ways; none at all satisfies each of them.
  variables.push_back({"tools", tools.empty() ? &null : &tools});
  variables.push_back({"documents", &null});
  variables.push_back({"add_generation_prompt", &add_generation_prompt});
  const std::array<std::pair<std::string_view, ordered_json>, 4> tokens = {{
      {"bos_token", tokens_.bos},
      {"eos_token", tokens_.eos},
      {"unk_token", tokens_.unk},
      {"pad_token", tokens_.pad},
  }};
  for (const auto& [name, text] : tokens) {
    if (!text.get_ref<const std::string&>().empty()) {
      variables.push_back({name, &text, trust_everything});
    }
  }
  return template_.render(variables, options.now.value_or(current_civil_time()));
}

bool strip_trusted_prefix(std::vector<RenderedSegment>& segments, std::string_view prefix) {
  if (prefix.empty() || segments.empty() || !segments.front().trusted ||
      !segments.front().text.starts_with(prefix)) {
    return false;
  }
  segments.front().text.erase(0, prefix.size());
  if (segments.front().text.empty()) segments.erase(segments.begin());
  return true;
}

std::string join_segments(const std::vector<RenderedSegment>& segments) {
  std::string text;
  for (const RenderedSegment& segment : segments) text += segment.text;
  return text;
}

}  // namespace strata::text
