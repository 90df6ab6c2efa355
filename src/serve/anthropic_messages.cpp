#include "src/serve/anthropic_messages.hpp"

#include "src/serve/openai_chat.hpp"

#include <utility>

namespace strata::serve {
namespace {

// --- reading ---

// A tool's result is a text or text blocks.
std::string read_result(const Fields& block) {
  const Json* content = block.find("content");
  std::string text =
      content == nullptr ? std::string() : read_content(*content, block.path_of("content"));
  if (block.boolean("is_error").value_or(false)) text = "Error: " + text;
  return text;
}

// One message with blocks becomes several of OpenAI's: results first, as they answer the calls of
// the message before.
class MessageReader {
 public:
  MessageReader(const Json& given, const std::string& path) : fields_(given, path) {
    role_ = fields_.need_text("role");
    if (role_ != "user" && role_ != "assistant" && role_ != "system") {
      refuse(fields_.path_of("role"), "{}: expected user or assistant", fields_.path_of("role"));
    }
    const Json& content = fields_.need("content");
    if (content.is_string()) {
      text_ = content.get<std::string>();
      return;
    }
    const Json& blocks = fields_.array("content");
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      read_block(Fields(blocks[i], fmt::format("{}[{}]", fields_.path_of("content"), i)));
    }
  }

  void append_to(Json& messages) {
    for (Json& result : results_) messages.push_back(std::move(result));
    if (text_.empty() && calls_.empty() && !results_.empty()) return;
    Json message = {{"role", role_}, {"content", text_}};
    if (!thinking_.empty()) message["reasoning_content"] = thinking_;
    if (!calls_.empty()) message["tool_calls"] = std::move(calls_);
    messages.push_back(std::move(message));
  }

 private:
  void read_block(const Fields& block) {
    const std::string type = block.need_text("type");
    if (type == "text") {
      if (!text_.empty()) text_ += '\n';
      text_ += block.need_text("text");
    } else if (type == "tool_use" && role_ == "assistant") {
      const Json& input = block.need("input");
      calls_.push_back(
          {{"id", block.text("id").value_or("")},
           {"type", "function"},
           {"function", {{"name", block.need_text("name")}, {"arguments", to_text(input)}}}});
    } else if (type == "tool_result" && role_ == "user") {
      results_.push_back({{"role", "tool"},
                          {"tool_call_id", block.text("tool_use_id").value_or("")},
                          {"content", read_result(block)}});
    } else if (type == "thinking" && role_ == "assistant") {
      thinking_ += block.text("thinking").value_or("");
    } else if (type != "redacted_thinking") {
      refuse(block.path(), "{}: this model reads text only, not '{}'", block.path(), type);
    }
  }

  Fields fields_;
  std::string role_, text_, thinking_;
  Json calls_ = Json::array();
  std::vector<Json> results_;
};

void read_messages(const Fields& fields, ChatTask& task) {
  if (const Json* system = fields.find("system")) {
    const std::string text = read_content(*system, "system");
    if (!text.empty()) task.messages.push_back({{"role", "system"}, {"content", text}});
  }
  const Json& messages = need_messages(fields);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    MessageReader(messages[i], fmt::format("messages[{}]", i)).append_to(task.messages);
  }
}

Json read_tool(const Fields& tool) {
  const std::string type = tool.text("type").value_or("custom");
  if (type != "custom") {
    refuse(tool.path_of("type"), "{}: this server runs no tools of its own, such as '{}'",
           tool.path_of("type"), type);
  }
  Json function = tool.json();
  if (const Json* schema = tool.find("input_schema")) function["parameters"] = *schema;
  const Json plain = Json::object();
  return read_openai_tool(Fields(plain, tool.path()), function, tool.path());
}

void read_tools(const Fields& fields, ChatTask& task) {
  read_tool_list(fields, read_tool, task);
  const std::optional<Fields> choice = fields.object("tool_choice");
  if (!choice) return;
  const std::string type = choice->need_text("type");
  if (type == "any" || type == "tool") {
    task.tool_mode = ToolMode::kRequired;
    if (type == "tool") task.tool_name = choice->need_text("name");
  } else if (type == "none") {
    task.tool_mode = ToolMode::kNone;
  } else if (type != "auto") {
    refuse("tool_choice.type", "tool_choice.type: expected auto, any, tool or none");
  }
  check_tool_choice(task, "tool_choice");
  if (choice->boolean("disable_parallel_tool_use").value_or(false)) forbid_parallel_calls(task);
}

void read_thinking(const Fields& fields, ChatTask& task) {
  if (const std::optional<Fields> output = fields.object("output_config")) {
    if (const auto effort = output->text("effort")) {
      read_effort(*effort, "output_config.effort", task);
    }
    if (const std::optional<Fields> format = output->object("format")) {
      read_format(*format, format->find("schema"), task);
    }
  }
  if (const std::optional<Fields> format = fields.object("output_format")) {
    read_format(*format, format->find("schema"), task);
  }
  // Without a word about it the API does not think.
  const std::optional<Fields> thinking = fields.object("thinking");
  const std::string type = thinking ? thinking->need_text("type") : "disabled";
  if (type == "disabled") {
    task.thinks = false;
  } else if (type == "enabled") {
    task.thinks = true;
    task.thinking_budget = thinking->integer("budget_tokens", 0, 1 << 30).value_or(-1);
  } else if (type == "adaptive") {
    task.thinks = true;
  } else {
    refuse("thinking.type", "thinking.type: expected enabled, adaptive or disabled");
  }
}

// --- writing ---

std::string stop_reason(const Choice& choice) {
  switch (choice.outcome.finish) {
    case Finish::kLength:
      return "max_tokens";
    case Finish::kContext:
      return "model_context_window_exceeded";
    case Finish::kStop:
      return choice.calls.empty() ? "stop_sequence" : "tool_use";
    default:
      return choice.calls.empty() ? "end_turn" : "tool_use";
  }
}

class MessagesWriter final : public AnswerWriter {
 public:
  MessagesWriter(std::string model, const ChatTask& task, std::size_t prompt_tokens)
      : model_(std::move(model)),
        stops_(task.stops),
        prompt_tokens_(prompt_tokens),
        id_(random_id("msg_")) {}

  Json whole(const std::vector<Choice>& choices) override {
    const Choice& choice = choices.front();
    Json message = frame();
    if (!choice.reasoning.empty()) {
      message["content"].push_back(
          {{"type", "thinking"}, {"thinking", choice.reasoning}, {"signature", ""}});
    }
    if (!choice.text.empty() || choice.calls.empty()) {
      message["content"].push_back({{"type", "text"}, {"text", choice.text}});
    }
    for (const ToolCall& call : choice.calls) message["content"].push_back(call_json(call, true));
    message["stop_reason"] = stop_reason(choice);
    message["stop_sequence"] = stop_sequence(choice);
    message["usage"] = usage(choice.outcome);
    message["timings"] = timings_json(choice.outcome);
    return message;
  }

  std::string begin(std::size_t) override {
    Json message = frame();
    message["usage"] = {{"input_tokens", prompt_tokens_}, {"output_tokens", 0}};
    return sse("message_start", {{"type", "message_start"}, {"message", std::move(message)}});
  }

  std::string news(std::size_t, const Deltas& deltas, const std::vector<TokenInfo>&,
                   const Choice&) override {
    std::string events;
    for (const Delta& delta : deltas) {
      switch (delta.kind) {
        case Delta::Kind::kReasoning:
          events +=
              open(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
          events += block_delta({{"type", "thinking_delta"}, {"thinking", delta.text}});
          break;
        case Delta::Kind::kText:
          events += open(Block::kText, {{"type", "text"}, {"text", ""}});
          events += block_delta({{"type", "text_delta"}, {"text", delta.text}});
          break;
        case Delta::Kind::kToolCall:
          events += close();
          events += open(Block::kTool, call_json(delta.call, false));
          events +=
              block_delta({{"type", "input_json_delta"}, {"partial_json", delta.call.arguments}});
          break;
      }
    }
    return events;
  }

  std::string ended(std::size_t, const Choice& choice) override {
    std::string events;
    if (next_ == 0 && block_ == Block::kNone)
      events = open(Block::kText, {{"type", "text"}, {"text", ""}});
    events += close();
    return events +
           sse("message_delta",
               {{"type", "message_delta"},
                {"delta",
                 {{"stop_reason", stop_reason(choice)}, {"stop_sequence", stop_sequence(choice)}}},
                {"usage", usage(choice.outcome)},
                {"timings", timings_json(choice.outcome)}});
  }
  std::string finish(const std::vector<Choice>&) override {
    return sse("message_stop", {{"type", "message_stop"}});
  }
  std::string error(const ApiError& error) override {
    return sse("error",
               {{"type", "error"},
                {"error", {{"type", error_type(error.status)}, {"message", error.what()}}}});
  }
  std::string keep_alive() override { return sse("ping", {{"type", "ping"}}); }

 private:
  enum class Block { kNone, kThinking, kText, kTool };

  Json frame() const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", model_},
            {"content", Json::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr}};
  }
  static Json call_json(const ToolCall& call, bool with_input) {
    Json input = with_input ? Json::parse(call.arguments, nullptr, false) : Json::object();
    if (input.is_discarded()) input = {{"malformed", call.arguments}};
    return {
        {"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", std::move(input)}};
  }
  Json stop_sequence(const Choice& choice) const {
    if (choice.outcome.finish != Finish::kStop || !choice.calls.empty()) return nullptr;
    return stops_[choice.outcome.stop.value_or(0)];
  }
  static Json usage(const Outcome& outcome) {
    return {{"input_tokens", outcome.prompt_tokens - outcome.cached_tokens},
            {"cache_read_input_tokens", outcome.cached_tokens},
            {"cache_creation_input_tokens", 0},
            {"output_tokens", outcome.generated}};
  }

  std::string open(Block kind, const Json& block) {
    if (block_ == kind && kind != Block::kTool) return {};
    std::string events = close();
    block_ = kind;
    return events +
           sse("content_block_start",
               {{"type", "content_block_start"}, {"index", next_}, {"content_block", block}});
  }
  std::string close() {
    if (std::exchange(block_, Block::kNone) == Block::kNone) return {};
    return sse("content_block_stop", {{"type", "content_block_stop"}, {"index", next_++}});
  }
  std::string block_delta(const Json& delta) const {
    return sse("content_block_delta",
               {{"type", "content_block_delta"}, {"index", next_}, {"delta", delta}});
  }

  std::string model_;
  std::vector<std::string> stops_;
  std::size_t prompt_tokens_;
  std::string id_;
  Block block_ = Block::kNone;
  std::size_t next_ = 0;  // index of the block that is open, or comes next
};

}  // namespace

ChatTask read_anthropic(const Json& body, const runtime::SamplingParams& defaults,
                        bool counts_only) {
  const Fields fields(body, "");
  fields.refuse_all({{"container", nullptr, "this server has no containers"},
                     {"mcp_servers", Json::array(), "this server calls no others"}});
  ChatTask task;
  task.sampling = defaults;
  read_messages(fields, task);
  read_sampling(fields, task);
  read_stops(fields, "stop_sequences", task);
  read_tools(fields, task);
  read_thinking(fields, task);
  if (!counts_only) {
    (void)fields.need("max_tokens");
    task.max_tokens = *fields.integer("max_tokens", 1, std::int64_t{1} << 40);
  }
  task.stream = fields.boolean("stream").value_or(false);
  return task;
}

std::unique_ptr<AnswerWriter> make_anthropic_writer(const std::string& model, const ChatTask& task,
                                                    std::size_t prompt_tokens) {
  return std::make_unique<MessagesWriter>(model, task, prompt_tokens);
}

HttpReply anthropic_error_reply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.status == 503 ? 529 : error.status;
  reply.body = to_text({{"type", "error"},
                        {"error", {{"type", error_type(error.status)}, {"message", error.what()}}},
                        {"request_id", random_id("req_")}});
  if (error.retry_after > 0) {
    reply.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  }
  return reply;
}

}  // namespace strata::serve
