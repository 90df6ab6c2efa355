#include "src/serve/openai_responses.hpp"

#include "src/serve/openai_chat.hpp"

#include <ctime>
#include <utility>

namespace strata::serve {
namespace {

// --- reading ---

// Calls and reasoning are items beside messages; templates want them in the assistant's message.
class InputReader {
 public:
  explicit InputReader(Json& messages) : messages_(messages) {}

  void add(const Fields& item) {
    const std::string type = item.text("type").value_or("message");
    if (type == "message") {
      message(item);
    } else if (type == "function_call") {
      const Json& arguments = item.need("arguments");
      Json& calls = assistant()["tool_calls"];
      calls.push_back({{"id", item.text("call_id").value_or("")},
                       {"type", "function"},
                       {"function",
                        {{"name", item.need_text("name")},
                         {"arguments", arguments.is_string() ? arguments.get<std::string>()
                                                             : to_text(arguments)}}}});
    } else if (type == "function_call_output") {
      messages_.push_back({{"role", "tool"},
                           {"tool_call_id", item.text("call_id").value_or("")},
                           {"content", read_content(item.need("output"), item.path_of("output"))}});
    } else if (type == "reasoning") {
      reasoning(item);
    } else {
      refuse(item.path(), "{}: items of type '{}' are not taken", item.path(), type);
    }
  }

 private:
  void message(const Fields& item) {
    std::string role = item.need_text("role");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant") {
      refuse(item.path_of("role"), "{}: expected system, developer, user or assistant",
             item.path_of("role"));
    }
    const std::string text = read_content(item.need("content"), item.path_of("content"));
    if (role == "assistant") {
      Json& own = assistant();
      own["content"] = own.value("content", "") + text;
    } else {
      messages_.push_back({{"role", role}, {"content", text}});
    }
  }

  void reasoning(const Fields& item) {
    std::string text;
    for (const char* name : {"content", "summary"}) {
      if (!text.empty()) break;
      for (const Json& part : item.array(name)) {
        if (part.is_object()) text += part.value("text", "");
      }
    }
    if (!text.empty()) assistant()["reasoning_content"] = text;
  }

  // The assistant's message that is being put together.
  Json& assistant() {
    if (messages_.empty() || messages_.back().value("role", "") != "assistant") {
      messages_.push_back({{"role", "assistant"}, {"content", ""}});
    }
    return messages_.back();
  }

  Json& messages_;
};

void read_input(const Fields& fields, ChatTask& task) {
  if (const auto text = fields.text("instructions")) {
    task.messages.push_back({{"role", "system"}, {"content", *text}});
  }
  const Json& input = fields.need("input");
  if (input.is_string()) {
    task.messages.push_back({{"role", "user"}, {"content", input}});
    return;
  }
  const Json& items = fields.array("input");
  if (items.empty() || items.size() > kMaxMessages) {
    refuse("input", "input: expected a text or 1 to {} items", kMaxMessages);
  }
  InputReader reader(task.messages);
  for (std::size_t i = 0; i < items.size(); ++i) {
    reader.add(Fields(items[i], fmt::format("input[{}]", i)));
  }
}

void read_flat_tools(const Fields& fields, ChatTask& task) {
  read_tool_list(
      fields, [](const Fields& tool) { return read_openai_tool(tool, tool.json(), tool.path()); },
      task);
  read_openai_tool_choice(
      fields, [](const Fields& choice) { return choice.need_text("name"); }, task);
}

// --- writing ---

class ResponseWriter final : public AnswerWriter {
 public:
  ResponseWriter(std::string model, const Json& body)
      : id_(random_id("resp_")), created_(std::time(nullptr)) {
    const auto given = [&](const char* name, const Json& otherwise) {
      const auto found = body.find(name);
      return found == body.end() ? otherwise : *found;
    };
    frame_ = {{"id", id_},
              {"object", "response"},
              {"created_at", created_},
              {"status", "in_progress"},
              {"error", nullptr},
              {"incomplete_details", nullptr},
              {"instructions", given("instructions", nullptr)},
              {"max_output_tokens", given("max_output_tokens", nullptr)},
              {"model", std::move(model)},
              {"output", Json::array()},
              {"parallel_tool_calls", given("parallel_tool_calls", true)},
              {"previous_response_id", nullptr},
              {"reasoning", given("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
              {"store", false},
              {"temperature", given("temperature", nullptr)},
              {"text", given("text", {{"format", {{"type", "text"}}}})},
              {"tool_choice", given("tool_choice", "auto")},
              {"tools", given("tools", Json::array())},
              {"top_p", given("top_p", nullptr)},
              {"truncation", "disabled"},
              {"usage", nullptr},
              {"metadata", given("metadata", Json::object())}};
  }

  Json whole(const std::vector<Choice>& choices) override {
    const Choice& choice = choices.front();
    Deltas deltas;
    if (!choice.reasoning.empty())
      deltas.push_back({Delta::Kind::kReasoning, choice.reasoning, {}});
    if (!choice.text.empty()) deltas.push_back({Delta::Kind::kText, choice.text, {}});
    for (const ToolCall& call : choice.calls) {
      deltas.push_back({Delta::Kind::kToolCall, {}, call});
    }
    (void)news(0, deltas, {}, choice);
    return completed(choice);
  }

  std::string begin(std::size_t) override {
    std::string events = event("response.created", {{"response", frame_}});
    return events += event("response.in_progress", {{"response", frame_}});
  }

  std::string news(std::size_t, const Deltas& deltas, const std::vector<TokenInfo>&,
                   const Choice&) override {
    std::string events;
    for (const Delta& delta : deltas) {
      switch (delta.kind) {
        case Delta::Kind::kReasoning:
          events += open(Item::kReasoning);
          text_ += delta.text;
          events += part_event("response.reasoning_text.delta", "delta", delta.text);
          break;
        case Delta::Kind::kText:
          events += open(Item::kMessage);
          text_ += delta.text;
          events += part_event("response.output_text.delta", "delta", delta.text);
          break;
        case Delta::Kind::kToolCall:
          events += close("completed") + whole_call(delta.call);
          break;
      }
    }
    return events;
  }

  std::string ended(std::size_t, const Choice& choice) override {
    std::string events;
    if (output_.empty() && item_ == Item::kNone) events = open(Item::kMessage);
    const Json response = completed(choice, &events);
    const bool cut = response["status"] == "incomplete";
    return events +
           event(cut ? "response.incomplete" : "response.completed", {{"response", response}});
  }
  std::string finish(const std::vector<Choice>&) override { return {}; }
  std::string error(const ApiError& error) override {
    Json response = frame_;
    response["status"] = "failed";
    response["error"] = {{"code", "server_error"}, {"message", error.what()}};
    return event("response.failed", {{"response", response}});
  }

 private:
  enum class Item { kNone, kReasoning, kMessage };

  std::string event(const char* type, const Json& data) {
    Json all = {{"type", type}, {"sequence_number", sequence_++}};
    all.update(data);
    return sse(type, all);
  }
  std::string part_event(const char* type, const char* key, const Json& value) {
    Json data = {{"item_id", item_id_},
                 {"output_index", output_.size()},
                 {"content_index", 0},
                 {key, value}};
    if (item_ == Item::kMessage) data["logprobs"] = Json::array();
    return event(type, std::move(data));
  }

  // The part of a message or a reasoning, and the item around it.
  Json part(const std::string& text) const {
    if (item_ == Item::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", Json::array()},
            {"logprobs", Json::array()}};
  }
  Json item(const char* status, Json content) const {
    if (item_ == Item::kReasoning) {
      return {{"id", item_id_},
              {"type", "reasoning"},
              {"status", status},
              {"summary", Json::array()},
              {"content", std::move(content)}};
    }
    return {{"id", item_id_},
            {"type", "message"},
            {"status", status},
            {"role", "assistant"},
            {"content", std::move(content)}};
  }

  std::string open(Item kind) {
    if (item_ == kind) return {};
    std::string events = close("completed");
    item_ = kind;
    item_id_ = random_id(kind == Item::kReasoning ? "rs_" : "msg_");
    text_.clear();
    events += event("response.output_item.added", {{"output_index", output_.size()},
                                                   {"item", item("in_progress", Json::array())}});
    return events + part_event("response.content_part.added", "part", part(""));
  }

  std::string close(const char* status) {
    if (item_ == Item::kNone) return {};
    std::string events = part_event(
        item_ == Item::kReasoning ? "response.reasoning_text.done" : "response.output_text.done",
        "text", text_);
    events += part_event("response.content_part.done", "part", part(text_));
    Json done = item(status, Json::array({part(text_)}));
    events +=
        event("response.output_item.done", {{"output_index", output_.size()}, {"item", done}});
    output_.push_back(std::move(done));
    item_ = Item::kNone;
    return events;
  }

  std::string whole_call(const ToolCall& call) {
    const std::string id = random_id("fc_");
    Json done = {{"id", id},           {"type", "function_call"}, {"status", "in_progress"},
                 {"call_id", call.id}, {"name", call.name},       {"arguments", ""}};
    const Json where = {{"item_id", id}, {"output_index", output_.size()}};
    const auto told = [&](const char* key) {
      Json data = where;
      data[key] = call.arguments;
      return data;
    };
    std::string events =
        event("response.output_item.added", {{"output_index", output_.size()}, {"item", done}});
    events += event("response.function_call_arguments.delta", told("delta"));
    Json last = told("arguments");
    last["name"] = call.name;
    events += event("response.function_call_arguments.done", std::move(last));
    done["status"] = "completed";
    done["arguments"] = call.arguments;
    events +=
        event("response.output_item.done", {{"output_index", output_.size()}, {"item", done}});
    output_.push_back(std::move(done));
    return events;
  }

  // The response at its end. Events of what is closed are added where they are wanted.
  Json completed(const Choice& choice, std::string* events = nullptr) {
    const bool cut =
        choice.outcome.finish == Finish::kLength || choice.outcome.finish == Finish::kContext;
    const std::string closing = close(cut ? "incomplete" : "completed");
    if (events != nullptr) *events += closing;
    Json response = frame_;
    response["status"] = cut ? "incomplete" : "completed";
    if (cut) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    response["output"] = output_;
    const Outcome& o = choice.outcome;
    response["usage"] = {{"input_tokens", o.prompt_tokens},
                         {"input_tokens_details", {{"cached_tokens", o.cached_tokens}}},
                         {"output_tokens", o.generated},
                         {"output_tokens_details", {{"reasoning_tokens", o.thought}}},
                         {"total_tokens", o.prompt_tokens + o.generated}};
    response["timings"] = timings_json(o);
    return response;
  }

  std::string id_;
  std::time_t created_;
  Json frame_;
  int sequence_ = 0;
  Item item_ = Item::kNone;
  std::string item_id_, text_;   // of the item that is open
  Json output_ = Json::array();  // those that are done
};

}  // namespace

ChatTask read_openai_response(const Json& body, const runtime::SamplingParams& defaults) {
  const Fields fields(body, "");
  fields.refuse_all(
      {{"previous_response_id", nullptr, "nothing is stored here: send the whole conversation"},
       {"conversation", nullptr, "nothing is stored here: send the whole conversation"},
       {"background", false, "answers are not kept for later"},
       {"prompt", nullptr, "there are no stored prompts"}});
  ChatTask task;
  task.sampling = defaults;
  read_input(fields, task);
  read_sampling(fields, task);
  read_flat_tools(fields, task);
  if (const std::optional<Fields> reasoning = fields.object("reasoning")) {
    if (const auto effort = reasoning->text("effort")) {
      read_effort(*effort, "reasoning.effort", task);
    }
  }
  if (const std::optional<Fields> text = fields.object("text")) {
    if (const std::optional<Fields> format = text->object("format")) {
      read_format(*format, format->find("schema"), task);
    }
  }
  if (const auto most = fields.integer("max_output_tokens", 1, std::int64_t{1} << 40)) {
    task.max_tokens = *most;
  }
  task.stream = fields.boolean("stream").value_or(false);
  return task;
}

std::unique_ptr<AnswerWriter> make_openai_response_writer(const std::string& model,
                                                          const Json& body) {
  return std::make_unique<ResponseWriter>(model, body);
}

}  // namespace strata::serve
