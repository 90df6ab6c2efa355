#include "src/serve/openai_completions.hpp"

#include "strata/text/detokenizer.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace strata::serve {
namespace {

std::vector<std::int32_t> read_ids(const Json& ids, const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> result;
  for (const Json& id : ids) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() >= tokenizer.vocab_size()) {
      refuse("prompt", "prompt: expected texts, or token ids from 0 to {}",
             tokenizer.vocab_size() - 1);
    }
    result.push_back(id.get<std::int32_t>());
  }
  return result;
}

// A text, an array of texts, an array of ids, or an array of arrays of ids.
void read_prompts(const Json& prompt, const text::Tokenizer& tokenizer, CompletionTask& task) {
  const auto add_text = [&](const Json& text) {
    task.prompts.push_back(tokenizer.encode(text.get<std::string>(), {.parse_special = true}));
  };
  if (prompt.is_string()) {
    add_text(prompt);
  } else if (prompt.is_array() && !prompt.empty() && prompt.front().is_number()) {
    task.prompts.push_back(read_ids(prompt, tokenizer));
  } else if (prompt.is_array()) {
    for (const Json& one : prompt) {
      if (one.is_string()) {
        add_text(one);
      } else {
        task.prompts.push_back(read_ids(one, tokenizer));
      }
    }
  }
  if (task.prompts.empty() || task.prompts.size() > kMaxPrompts) {
    refuse("prompt", "prompt: expected a text, token ids, or 1 to {} of these", kMaxPrompts);
  }
  for (const std::vector<std::int32_t>& ids : task.prompts) {
    if (ids.empty()) refuse("prompt", "prompt: it has no tokens");
  }
}

class CompletionWriter final : public AnswerWriter {
 public:
  CompletionWriter(const OpenAiFrame& frame, const CompletionTask& task)
      : frame_(frame),
        id_(random_id("cmpl-")),
        created_(std::time(nullptr)),
        prompts_(task.prompts.size()),
        each_(static_cast<std::size_t>(task.chat.choices)),
        echoes_(task.echoes) {
    for (const std::string& echo : echoes_) {
      offsets_.insert(offsets_.end(), each_, echo.size());
    }
    offsets_.resize(prompts_ * each_, 0);
  }

  Json whole(const std::vector<Choice>& choices) override {
    Json result = frame();
    for (std::size_t i = 0; i < choices.size(); ++i) {
      result["choices"].push_back(choice_json(i, echo(i) + choices[i].text,
                                              logprobs_json(i, choices[i].tokens),
                                              openai_finish(choices[i])));
    }
    result["usage"] = openai_usage(choices, prompts_);
    result["timings"] = timings_json(choices.front().outcome);
    return result;
  }

  std::string begin(std::size_t choices) override {
    std::string events;
    if (echoes_.empty()) return events;
    for (std::size_t i = 0; i < choices; ++i) events += chunk(i, echo(i), nullptr, nullptr);
    return events;
  }
  std::string news(std::size_t index, const Deltas& deltas, const std::vector<TokenInfo>& tokens,
                   const Choice&) override {
    std::string text;
    for (const Delta& delta : deltas) text += delta.text;
    if (text.empty() && (frame_.tokenizer == nullptr || tokens.empty())) return {};
    return chunk(index, text, logprobs_json(index, tokens), nullptr);
  }
  std::string ended(std::size_t index, const Choice& choice) override {
    return chunk(index, "", nullptr, openai_finish(choice));
  }
  std::string finish(const std::vector<Choice>& choices) override {
    std::string events;
    if (frame_.include_usage) {
      Json last = frame();
      last["usage"] = openai_usage(choices, prompts_);
      last["timings"] = timings_json(choices.front().outcome);
      events = sse("", last);
    }
    return events + "data: [DONE]\n\n";
  }
  std::string error(const ApiError& error) override { return sse("", openai_error(error)); }

 private:
  [[nodiscard]] std::string echo(std::size_t index) const {
    return echoes_.empty() ? std::string() : echoes_[index / each_];
  }

  Json frame() const {
    return {{"id", id_},
            {"object", "text_completion"},
            {"created", created_},
            {"model", frame_.model},
            {"system_fingerprint", frame_.fingerprint},
            {"choices", Json::array()}};
  }
  static Json choice_json(std::size_t index, const std::string& text, Json logprobs, Json finish) {
    return {{"text", text},
            {"index", index},
            {"logprobs", std::move(logprobs)},
            {"finish_reason", std::move(finish)}};
  }
  std::string chunk(std::size_t index, const std::string& text, Json logprobs, Json finish) const {
    Json event = frame();
    event["choices"].push_back(choice_json(index, text, std::move(logprobs), std::move(finish)));
    if (frame_.include_usage) event["usage"] = nullptr;
    return sse("", event);
  }

  Json logprobs_json(std::size_t index, const std::vector<TokenInfo>& tokens) {
    if (frame_.tokenizer == nullptr) return nullptr;
    Json result = {{"tokens", Json::array()},
                   {"token_logprobs", Json::array()},
                   {"top_logprobs", Json::array()},
                   {"text_offset", Json::array()}};
    for (const TokenInfo& token : tokens) {
      const std::string_view piece = frame_.tokenizer->piece(token.id);
      result["tokens"].push_back(piece);
      result["token_logprobs"].push_back(token.logprob);
      Json top = Json::object();
      for (const runtime::TokenLogprob& other : token.top) {
        // Keys must be UTF-8 also while they are compared.
        const std::string key = text::decode(*frame_.tokenizer, {&other.id, 1},
                                             {.show_control = true, .at_text_start = false});
        if (!top.contains(key)) top[key] = other.logprob;
      }
      result["top_logprobs"].push_back(std::move(top));
      result["text_offset"].push_back(offsets_[index]);
      offsets_[index] += piece.size();
    }
    return result;
  }

  OpenAiFrame frame_;
  std::string id_;
  std::time_t created_;
  std::size_t prompts_, each_;
  std::vector<std::string> echoes_;
  std::vector<std::size_t> offsets_;  // of each choice's next token, in bytes
};

}  // namespace

CompletionTask read_openai_completion(const Json& body, const text::Tokenizer& tokenizer,
                                      const runtime::SamplingParams& defaults) {
  const Fields fields(body, "");
  fields.refuse_all({{"suffix", "", "this model fills no gaps"},
                     {"best_of", 1, "this server does not choose among answers; use n"}});
  CompletionTask task;
  ChatTask& chat = task.chat;
  chat.sampling = defaults;
  chat.max_tokens = 16;  // OpenAI's default
  read_prompts(fields.need("prompt"), tokenizer, task);
  read_sampling(fields, chat);
  read_stops(fields, "stop", chat);
  if (const auto most = fields.integer("max_tokens", -1, std::int64_t{1} << 40)) {
    chat.max_tokens = *most;
  }
  if (const auto n = fields.integer("n", 1, kMaxChoices)) chat.choices = static_cast<int>(*n);
  if (const auto top = fields.integer("logprobs", 0, kMaxTopLogprobs)) {
    chat.top_logprobs = static_cast<int>(*top);
  }
  if (fields.boolean("echo").value_or(false)) {
    if (chat.top_logprobs >= 0) refuse("echo", "echo: not together with logprobs");
    for (const std::vector<std::int32_t>& prompt : task.prompts) {
      task.echoes.push_back(text::decode(tokenizer, prompt));
    }
  }
  if (const std::optional<Fields> format = fields.object("response_format")) {
    const std::optional<Fields> named = format->object("json_schema");
    read_format(*format, named ? &named->need("schema") : nullptr, chat);
  }
  chat.stream = fields.boolean("stream").value_or(false);
  return task;
}

std::unique_ptr<AnswerWriter> make_openai_completion_writer(const OpenAiFrame& frame,
                                                            const CompletionTask& task) {
  return std::make_unique<CompletionWriter>(frame, task);
}

}  // namespace strata::serve
