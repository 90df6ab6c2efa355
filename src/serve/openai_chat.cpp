#include "src/serve/openai_chat.hpp"

#include <algorithm>
#include <ctime>

namespace strata::serve {
namespace {

// --- reading ---

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && std::ranges::all_of(name, [](char c) {
    return c > 0x20 && c < 0x7F && c != '"' && c != '\\' && c != '<' && c != '>';
  });
}

Json read_tool_calls(const Json& calls, const std::string& path) {
  if (!calls.is_array()) refuse(path, "{}: expected an array", path);
  Json result = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Fields call(calls[i], fmt::format("{}[{}]", path, i));
    const Fields function(call.need("function"), call.path_of("function"));
    const Json& arguments = function.need("arguments");
    result.push_back({{"id", call.text("id").value_or("")},
                      {"type", "function"},
                      {"function",
                       {{"name", function.need_text("name")},
                        {"arguments", arguments.is_string() ? arguments.get<std::string>()
                                                            : to_text(arguments)}}}});
  }
  return result;
}

Json read_message(const Json& given, const std::string& path) {
  const Fields fields(given, path);
  std::string role = fields.need_text("role");
  if (role == "developer") role = "system";  // templates know the older name
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
    refuse(fields.path_of("role"), "{}: expected system, developer, user, assistant or tool",
           fields.path_of("role"));
  }
  Json message = {{"role", role}};
  if (const std::optional<std::string> name = fields.text("name")) message["name"] = *name;
  const Json* content = fields.find("content");
  const Json* calls = role == "assistant" ? fields.find("tool_calls") : nullptr;
  if (content == nullptr && calls == nullptr && role != "assistant") (void)fields.need("content");
  message["content"] = content == nullptr ? "" : read_content(*content, fields.path_of("content"));
  if (role == "assistant") {
    for (const char* key : {"reasoning_content", "reasoning"}) {
      if (const std::optional<std::string> text = fields.text(key)) {
        message["reasoning_content"] = *text;
        break;
      }
    }
    if (calls != nullptr && !calls->empty()) {
      message["tool_calls"] = read_tool_calls(*calls, fields.path_of("tool_calls"));
    }
  }
  if (role == "tool") message["tool_call_id"] = fields.text("tool_call_id").value_or("");
  return message;
}

void read_chat_messages(const Fields& fields, ChatTask& task) {
  const Json& messages = need_messages(fields);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    task.messages.push_back(read_message(messages[i], fmt::format("messages[{}]", i)));
  }
}

}  // namespace

Json read_openai_tool(const Fields& tool, const Json& function_json, const std::string& path) {
  const std::string type = tool.text("type").value_or("function");
  if (type != "function") {
    refuse(tool.path_of("type"), "{}: this server has functions only, not '{}'",
           tool.path_of("type"), type);
  }
  const Fields function(function_json, path);
  const std::string name = function.need_text("name");
  if (!is_tool_name(name)) refuse(path, "{}: '{}' is no name for a function", path, name);
  Json clean = {{"name", name}};
  if (const auto text = function.text("description")) clean["description"] = *text;
  if (const std::optional<Fields> parameters = function.object("parameters")) {
    clean["parameters"] = parameters->json();
  }
  return {{"type", "function"}, {"function", std::move(clean)}};
}

const Json& need_messages(const Fields& fields) {
  const Json& messages = fields.need("messages");
  if (!messages.is_array() || messages.empty() || messages.size() > kMaxMessages) {
    refuse("messages", "messages: expected an array of 1 to {} messages", kMaxMessages);
  }
  return messages;
}

void read_tool_list(const Fields& fields, const std::function<Json(const Fields& tool)>& read,
                    ChatTask& task) {
  const Json& tools = fields.array("tools");
  if (tools.size() > kMaxTools) refuse("tools", "tools: at most {}", kMaxTools);
  if (!tools.empty()) task.tools = Json::array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    task.tools.push_back(read(Fields(tools[i], fmt::format("tools[{}]", i))));
  }
}

void read_openai_tool_choice(const Fields& fields,
                             const std::function<std::string(const Fields& choice)>& name_of,
                             ChatTask& task) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") {
    task.tool_mode = ToolMode::kAuto;
  } else if (*choice == "none") {
    task.tool_mode = ToolMode::kNone;
  } else if (*choice == "required") {
    task.tool_mode = ToolMode::kRequired;
  } else if (choice->is_object() && choice->value("type", Json()) == "function") {
    task.tool_mode = ToolMode::kRequired;
    task.tool_name = name_of(Fields(*choice, "tool_choice"));
  } else {
    refuse("tool_choice", "tool_choice: expected auto, none, required or a function's name");
  }
  check_tool_choice(task, "tool_choice");
  if (fields.boolean("parallel_tool_calls") == false) forbid_parallel_calls(task);
}

void check_tool_choice(ChatTask& task, const std::string& path) {
  if (task.tool_mode != ToolMode::kRequired) return;
  if (task.tools.empty()) refuse(path, "{}: there are no tools to call", path);
  const bool known = std::ranges::any_of(
      task.tools, [&](const Json& tool) { return tool["function"]["name"] == task.tool_name; });
  if (!task.tool_name.empty() && !known) {
    refuse(path, "{}: there is no tool '{}'", path, task.tool_name);
  }
}

void forbid_parallel_calls(ChatTask& task) {
  // The first call's end ends the answer.
  if (!task.tools.empty()) task.stops.emplace_back("</tool_call>");
}

namespace {

void read_chat_tools(const Fields& fields, ChatTask& task) {
  read_tool_list(
      fields,
      [](const Fields& tool) {
        const Json* function = tool.find("function");
        return read_openai_tool(tool, function == nullptr ? Json::object() : *function,
                                tool.path_of("function"));
      },
      task);
  read_openai_tool_choice(
      fields,
      [](const Fields& choice) {
        return Fields(choice.need("function"), choice.path_of("function")).need_text("name");
      },
      task);
}

void read_reasoning(const Fields& fields, ChatTask& task) {
  if (const auto effort = fields.text("reasoning_effort")) {
    read_effort(*effort, "reasoning_effort", task);
  }
  if (const std::optional<Fields> reasoning = fields.object("reasoning")) {
    if (const auto effort = reasoning->text("effort")) {
      read_effort(*effort, "reasoning.effort", task);
    }
  }
  for (const char* name : {"reasoning_budget_tokens", "reasoning_budget"}) {
    if (const auto budget = fields.integer(name, -1, 1 << 30)) task.thinking_budget = *budget;
  }
}

}  // namespace

bool read_include_usage(const Fields& fields) {
  const std::optional<Fields> options = fields.object("stream_options");
  return options && options->boolean("include_usage").value_or(false);
}

ChatTask read_openai_chat(const Json& body, const runtime::SamplingParams& defaults) {
  const Fields fields(body, "");
  fields.refuse_all({{"functions", nullptr, "use tools"},
                     {"function_call", nullptr, "use tool_choice"},
                     {"audio", nullptr, "this model writes text only"},
                     {"modalities", Json::array({"text"}), "this model writes text only"},
                     {"web_search_options", nullptr, "this server searches nothing"}});
  ChatTask task;
  task.sampling = defaults;
  read_chat_messages(fields, task);
  read_sampling(fields, task);
  read_stops(fields, "stop", task);
  read_chat_tools(fields, task);
  read_reasoning(fields, task);
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    if (const auto most = fields.integer(name, -1, std::int64_t{1} << 40)) task.max_tokens = *most;
  }
  if (const auto n = fields.integer("n", 1, kMaxChoices)) task.choices = static_cast<int>(*n);
  const auto top = fields.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (fields.boolean("logprobs").value_or(false)) {
    task.top_logprobs = static_cast<int>(top.value_or(0));
  } else if (top.value_or(0) > 0) {
    refuse("top_logprobs", "top_logprobs: needs logprobs to be true");
  }
  if (const std::optional<Fields> format = fields.object("response_format")) {
    const std::optional<Fields> named = format->object("json_schema");
    read_format(*format, named ? &named->need("schema") : nullptr, task);
  }
  task.stream = fields.boolean("stream").value_or(false);
  return task;
}

// --- writing ---

std::string openai_finish(const Choice& choice) {
  switch (choice.outcome.finish) {
    case Finish::kLength:
    case Finish::kContext:
      return "length";
    default:
      return choice.calls.empty() ? "stop" : "tool_calls";
  }
}

Json openai_usage(const std::vector<Choice>& choices, std::size_t prompts) {
  std::size_t prompt = 0, cached = 0, generated = 0, thought = 0;
  // The choices of one prompt stand together; it counts once.
  const std::size_t each = choices.size() / prompts;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const Outcome& outcome = choices[i].outcome;
    if (i % each == 0) {
      prompt += outcome.prompt_tokens;
      cached += outcome.cached_tokens;
    }
    generated += outcome.generated;
    thought += outcome.thought;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", generated},
          {"total_tokens", prompt + generated},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", thought}}}};
}

Json openai_token(const text::Tokenizer& tokenizer, std::int32_t id, double logprob) {
  const std::string_view piece = tokenizer.piece(id);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<unsigned char>(byte));
  // Bytes that are half a character become U+FFFD when the reply is written.
  return {{"token", piece}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

namespace {

Json logprobs_json(const text::Tokenizer* tokenizer, const std::vector<TokenInfo>& tokens) {
  if (tokenizer == nullptr) return nullptr;
  Json content = Json::array();
  for (const TokenInfo& token : tokens) {
    Json entry = openai_token(*tokenizer, token.id, token.logprob);
    entry["top_logprobs"] = Json::array();
    for (const runtime::TokenLogprob& top : token.top) {
      entry["top_logprobs"].push_back(openai_token(*tokenizer, top.id, top.logprob));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json call_json(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
}

class ChatWriter final : public AnswerWriter {
 public:
  explicit ChatWriter(const OpenAiFrame& frame)
      : frame_(frame), id_(random_id("chatcmpl-")), created_(std::time(nullptr)) {}

  Json whole(const std::vector<Choice>& choices) override {
    Json result = frame("chat.completion");
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const Choice& choice = choices[i];
      Json message = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
      if (!choice.calls.empty() && choice.text.empty()) message["content"] = nullptr;
      if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
      for (const ToolCall& call : choice.calls) message["tool_calls"].push_back(call_json(call));
      result["choices"].push_back({{"index", i},
                                   {"message", std::move(message)},
                                   {"logprobs", logprobs_json(frame_.tokenizer, choice.tokens)},
                                   {"finish_reason", openai_finish(choice)}});
    }
    result["usage"] = openai_usage(choices);
    result["timings"] = timings_json(choices.front().outcome);
    return result;
  }

  std::string begin(std::size_t choices) override {
    std::string events;
    for (std::size_t i = 0; i < choices; ++i) {
      events += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
    }
    return events;
  }

  std::string news(std::size_t index, const Deltas& deltas, const std::vector<TokenInfo>& tokens,
                   const Choice& choice) override {
    std::string events;
    Json logprobs = logprobs_json(frame_.tokenizer, tokens);
    std::size_t calls = choice.calls.size() - static_cast<std::size_t>(std::ranges::count(
                                                  deltas, Delta::Kind::kToolCall, &Delta::kind));
    for (const Delta& delta : deltas) {
      Json body;
      switch (delta.kind) {
        case Delta::Kind::kReasoning:
          body = {{"reasoning_content", delta.text}};
          break;
        case Delta::Kind::kText:
          body = {{"content", delta.text}};
          break;
        case Delta::Kind::kToolCall: {
          Json call = {{"index", calls++}};
          call.update(call_json(delta.call));
          body = {{"tool_calls", Json::array({std::move(call)})}};
          break;
        }
      }
      events += chunk(index, std::move(body), std::exchange(logprobs, nullptr), nullptr);
    }
    if (!logprobs.is_null() && !tokens.empty()) {  // of tokens that show nothing yet
      events += chunk(index, {{"content", ""}}, std::move(logprobs), nullptr);
    }
    return events;
  }

  std::string ended(std::size_t index, const Choice& choice) override {
    return chunk(index, Json::object(), nullptr, openai_finish(choice));
  }

  std::string finish(const std::vector<Choice>& choices) override {
    std::string events;
    if (frame_.include_usage) {
      Json last = frame("chat.completion.chunk");
      last["usage"] = openai_usage(choices);
      last["timings"] = timings_json(choices.front().outcome);
      events = sse("", last);
    }
    return events + "data: [DONE]\n\n";
  }

  std::string error(const ApiError& error) override { return sse("", openai_error(error)); }

 private:
  Json frame(const char* object) const {
    return {{"id", id_},
            {"object", object},
            {"created", created_},
            {"model", frame_.model},
            {"system_fingerprint", frame_.fingerprint},
            {"choices", Json::array()}};
  }

  std::string chunk(std::size_t index, Json delta, Json logprobs, Json finish) const {
    Json event = frame("chat.completion.chunk");
    event["choices"].push_back({{"index", index},
                                {"delta", std::move(delta)},
                                {"logprobs", std::move(logprobs)},
                                {"finish_reason", std::move(finish)}});
    if (frame_.include_usage) event["usage"] = nullptr;
    return sse("", event);
  }

  OpenAiFrame frame_;
  std::string id_;
  std::time_t created_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_openai_chat_writer(const OpenAiFrame& frame) {
  return std::make_unique<ChatWriter>(frame);
}

}  // namespace strata::serve
