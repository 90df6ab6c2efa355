#include "src/serve/chat_model.hpp"

#include "src/serve/tool_prompt.hpp"
#include "strata/base/error.hpp"
#include "strata/text/json_schema.hpp"

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

namespace strata::serve {
namespace {

constexpr std::size_t kCachedGrammars = 32;

// Tokens of thinking for models whose template has no word for effort.
constexpr std::int64_t kLowBudget = 1024;
constexpr std::int64_t kMediumBudget = 8192;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string text_of(const text::Tokenizer& tokenizer, std::optional<std::int32_t> id) {
  return id ? std::string(tokenizer.piece(*id)) : std::string();
}

bool ends_with_open_thinking(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text.ends_with("<think>");
}

// Takes the message off the end that the answer is to go on with, if there is one.
std::string take_beginning(Json& messages) {
  if (messages.empty()) return {};
  const Json& last = messages.back();
  if (last.value("role", "") != "assistant" || last.contains("tool_calls")) return {};
  std::string text = last.value("content", "");
  messages.erase(messages.size() - 1);
  return text;
}

}  // namespace

ChatModel::ChatModel(const Engine& engine, std::string name)
    : engine_(engine),
      name_(std::move(name)),
      loaded_at_(std::time(nullptr)),
      vocab_(std::make_shared<const text::GrammarVocab>(engine.tokenizer())) {
  const std::string& source = engine.chat_template_source();
  if (source.empty()) return;
  try {
    template_ = text::ChatTemplate::parse(source, {.bos = text_of(tokenizer(), tokenizer().bos()),
                                                   .eos = text_of(tokenizer(), tokenizer().eos()),
                                                   .unk = {},
                                                   .pad = {}});
  } catch (const Error& error) {
    fail(error.kind(), "the model's chat template: {}", error.what());
  }
  if (contains(source, "<|channel|>")) {
    form_ = OutputForm::kHarmony;
    thinks_ = true;
  } else {
    form_ = OutputForm::kTagged;
    thinks_ = contains(source, "<think>") || contains(source, "</think>");
  }
  template_has_tools_ = template_->mentions("tools");
}

std::vector<std::int32_t> ChatModel::encode_markup(std::string_view text) const {
  return tokenizer().encode(text, {.parse_special = true, .add_bos = false, .add_eos = false});
}

bool ChatModel::uses_tools(const ChatTask& task) const noexcept {
  return !task.tools.empty() && task.tool_mode != ToolMode::kNone;
}

Json ChatModel::template_variables(const ChatTask& task) const {
  Json variables = Json::object();
  if (task.thinks) {
    for (const char* name : {"enable_thinking", "thinking"}) {
      if (template_->mentions(name)) variables[name] = *task.thinks;
    }
  }
  if (!task.effort.empty() && template_->mentions("reasoning_effort")) {
    variables["reasoning_effort"] = task.effort;
  }
  variables.update(task.template_variables);
  return variables;
}

ChatModel::Prompt ChatModel::make_prompt(const ChatTask& task) const {
  if (!template_) {
    throw ApiError(400, "this model's file has no chat template; use /v1/completions");
  }
  Json messages = task.messages;
  Json tools;
  if (uses_tools(task)) {
    if (template_has_tools_) {
      tools = task.tools;
    } else {
      messages = with_tools_as_text(messages, task.tools);
    }
  }
  const std::string beginning = take_beginning(messages);
  std::vector<text::RenderedSegment> rendered = template_->render(
      messages, tools,
      {.add_generation_prompt = true, .variables = template_variables(task), .now = std::nullopt});
  Prompt prompt;
  prompt.starts_inside = thinks_ && form_ == OutputForm::kTagged &&
                         ends_with_open_thinking(text::join_segments(rendered));
  if (!beginning.empty()) {
    if (std::exchange(prompt.starts_inside, false)) rendered.push_back({"\n</think>\n\n", true});
    rendered.push_back({beginning, false});
  }
  std::vector<text::Segment> segments;
  segments.reserve(rendered.size());
  for (const text::RenderedSegment& r : rendered) segments.push_back({r.text, r.trusted});
  // A template writes the BOS token itself where the model wants one.
  prompt.tokens = tokenizer().encode(segments, false, false);
  return prompt;
}

std::size_t ChatModel::count_tokens(const ChatTask& task) const {
  return make_prompt(task).tokens.size();
}

GenerationRequest ChatModel::make_request(const ChatTask& task, int choice,
                                          const std::string& client) const {
  GenerationRequest request;
  request.sampling = task.sampling;
  if (!task.has_seed) request.sampling.seed = std::random_device{}();
  request.sampling.seed += static_cast<std::uint64_t>(choice);
  request.max_tokens = task.max_tokens;
  request.stops = task.stops;
  request.ignore_eos = task.ignore_eos;
  request.top_logprobs = task.top_logprobs;
  request.client = client;
  request.script = make_script(task);
  return request;
}

void ChatModel::limit_thinking(const ChatTask& task, bool starts_inside,
                               GenerationRequest& request) const {
  if (!thinks_) return;
  Thinking thinking;
  thinking.budget = task.thinking_budget;
  if (task.thinks == false) {
    thinking.budget = 0;
  } else if (thinking.budget < 0 && !template_->mentions("reasoning_effort")) {
    if (task.effort == "low") thinking.budget = kLowBudget;
    if (task.effort == "medium") thinking.budget = kMediumBudget;
  }
  thinking.starts_open = starts_inside;
  if (form_ == OutputForm::kHarmony) {
    thinking.open = "<|channel|>analysis";
    thinking.close = "<|channel|>final<|message|>";
    // What the script wants comes in the last channel; calls have one of their own.
    thinking.starts_open = !request.script.empty() && task.tool_mode != ToolMode::kRequired;
    thinking.closing = encode_markup("<|end|><|start|>assistant<|channel|>final<|message|>");
  } else {
    thinking.closing = encode_markup("\n</think>\n\n");
  }
  request.thinking = std::move(thinking);
}

ChatPlan ChatModel::plan(const ChatTask& task, const std::string& client) const {
  Prompt prompt = make_prompt(task);
  if (prompt.tokens.size() > context()) {
    throw ApiError(400,
                   fmt::format("the prompt has {} tokens, the context holds {}",
                               prompt.tokens.size(), context()),
                   "messages", "context_length_exceeded");
  }
  ChatPlan plan;
  plan.style.form = form_;
  plan.style.thinks = thinks_;
  plan.style.starts_inside = prompt.starts_inside;
  if (uses_tools(task)) plan.style.tools = task.tools;
  for (int choice = 0; choice < task.choices; ++choice) {
    GenerationRequest request = make_request(task, choice, client);
    limit_thinking(task, prompt.starts_inside, request);
    request.prompt = prompt.tokens;
    plan.requests.push_back(std::move(request));
  }
  return plan;
}

std::vector<GenerationRequest> ChatModel::plan_completion(const ChatTask& task,
                                                          const std::vector<std::int32_t>& prompt,
                                                          const std::string& client) const {
  if (prompt.size() > context()) {
    throw ApiError(
        400,
        fmt::format("the prompt has {} tokens, the context holds {}", prompt.size(), context()),
        "prompt", "context_length_exceeded");
  }
  std::vector<GenerationRequest> requests;
  for (int choice = 0; choice < task.choices; ++choice) {
    requests.push_back(make_request(task, choice, client));
    requests.back().prompt = prompt;
  }
  return requests;
}

text::GrammarMatcher ChatModel::matcher(const std::string& kind, const Json& schema,
                                        const std::string& gbnf) const {
  const std::string key = kind + (kind == "gbnf" ? gbnf : to_text(schema));
  {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::ranges::find(grammars_, key, &std::pair<std::string, text::GrammarMatcher>::first);
    if (found != grammars_.end()) {
      grammars_.splice(grammars_.begin(), grammars_, found);
      return found->second;
    }
  }
  const Grammar grammar = kind == "gbnf"     ? text::compile_gbnf(gbnf)
                          : kind == "object" ? text::json_object_grammar()
                                             : text::compile_json_schema(schema);
  text::GrammarMatcher matcher(grammar, vocab_);
  const std::lock_guard lock(mutex_);
  grammars_.emplace_front(key, matcher);
  if (grammars_.size() > kCachedGrammars) grammars_.pop_back();
  return matcher;
}

std::vector<ScriptStep> ChatModel::make_script(const ChatTask& task) const {
  if (uses_tools(task) && task.tool_mode == ToolMode::kRequired) return tool_script(task);
  std::vector<ScriptStep> script;
  try {
    switch (task.format) {
      case ResponseFormat::kText:
        break;
      case ResponseFormat::kJsonObject:
        script.push_back({{}, matcher("object", nullptr, {}), {}});
        break;
      case ResponseFormat::kJsonSchema:
        script.push_back({{}, matcher("schema", task.schema, {}), {}});
        break;
      case ResponseFormat::kGrammar:
        script.push_back({{}, matcher("gbnf", nullptr, task.grammar), {}});
        break;
    }
  } catch (const Error& error) {
    throw ApiError(400, error.what(),
                   task.format == ResponseFormat::kGrammar ? "grammar" : "response_format");
  }
  return script;
}

// A call of one of the tools, its arguments as that tool's schema wants them.
std::vector<ScriptStep> ChatModel::tool_script(const ChatTask& task) const {
  const bool harmony = form_ == OutputForm::kHarmony;
  const std::string_view name_ends = harmony ? " " : "\"";
  std::string names;
  std::map<std::string, text::GrammarMatcher> arguments;
  for (const Json& tool : task.tools) {
    const Json& function = tool.at("function");
    const std::string name = function.at("name").get<std::string>();
    if (!task.tool_name.empty() && name != task.tool_name) continue;
    names += fmt::format("{}\"{}\"", names.empty() ? "" : " | ", name);
    const Json any = {{"type", "object"}};
    try {
      arguments.emplace(name + std::string(name_ends),
                        matcher("schema", function.value("parameters", any), {}));
    } catch (const Error& error) {
      throw ApiError(400, fmt::format("the tool '{}': {}", name, error.what()), "tools");
    }
  }
  const std::string gbnf = fmt::format("root ::= ({}) \"{}\"", names, harmony ? " " : "\\\"");
  std::vector<ScriptStep> script;
  if (harmony) {
    script.push_back(
        {encode_markup("<|channel|>commentary to=functions."), matcher("gbnf", nullptr, gbnf), {}});
    script.push_back({encode_markup("<|constrain|>json<|message|>"), {}, std::move(arguments)});
  } else {
    script.push_back(
        {encode_markup("<tool_call>\n{\"name\": \""), matcher("gbnf", nullptr, gbnf), {}});
    script.push_back({encode_markup(", \"arguments\": "), {}, std::move(arguments)});
    script.push_back({encode_markup("}\n</tool_call>"), {}, {}});
  }
  return script;
}

}  // namespace strata::serve
