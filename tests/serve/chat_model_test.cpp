// From a chat to tokens for models of different kinds: thinking, tools, structure.
#include "src/serve/chat_model.hpp"

#include "src/serve/openai_chat.hpp"
#include "strata/text/detokenizer.hpp"
#include "tests/gguf/temp_folder.hpp"
#include "tests/support/tiny_model.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace strata::serve {
namespace {

constexpr const char* kPlain =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";
constexpr const char* kThinking =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}";
constexpr const char* kTools =
    "{% if tools %}{{ tools | length }} tools {% endif %}{% for m in messages %}[{{ m.role }}]"
    "{{ m.content }}{% endfor %}[assistant]";
constexpr const char* kHarmony =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{{ reasoning_effort | default('medium') }}<|start|>assistant"
    "{# <|channel|> #}";

class ChatModelTest : public ::testing::Test {
 protected:
  ChatModel& load(const std::string& chat_template) {
    strata::testing::TinyShape shape;
    shape.context = 1000;
    strata::testing::TinyModel file(shape);
    if (!chat_template.empty()) file.metadata["tokenizer.chat_template"] = chat_template;
    file.write(folder_ / "tiny.gguf");
    EngineOptions options;
    options.model = folder_ / "tiny.gguf";
    options.threads = 1;
    options.pin_threads = false;
    engine_ = Engine::load(options);
    model_ = std::make_unique<ChatModel>(*engine_, "tiny");
    return *model_;
  }

  static ChatTask task(const std::string& json) {
    return read_openai_chat(parse_body(json), runtime::SamplingParams{});
  }
  static ChatTask hello(const std::string& more = "") {
    return task(R"({"messages": [{"role": "user", "content": "Hi"}])" + more + "}");
  }
  [[nodiscard]] std::string text(const std::vector<std::int32_t>& ids) const {
    return text::decode(engine_->tokenizer(), ids);
  }
  [[nodiscard]] std::string prompt(const ChatTask& task) const {
    return text(model_->plan(task, "").requests.front().prompt);
  }
  // The refusal's message.
  [[nodiscard]] std::string refusal(const ChatTask& task) const {
    try {
      (void)model_->plan(task, "");
    } catch (const ApiError& error) {
      EXPECT_EQ(error.status, 400);
      return error.what();
    }
    return "not refused";
  }

  static constexpr const char* kTool =
      R"(, "tools": [{"type": "function", "function": {"name": "get", "parameters":
         {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
          "additionalProperties": false}}}])";

  gguf::test::TempFolder folder_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ChatModel> model_;
};

TEST_F(ChatModelTest, APlainChat) {
  load(kPlain);
  EXPECT_TRUE(model_->can_chat());
  EXPECT_FALSE(model_->can_think());
  EXPECT_EQ(prompt(hello()), "[user]Hi[assistant]");
  EXPECT_EQ(prompt(task(R"({"messages": [{"role": "developer", "content": "Be"},
                            {"role": "user", "content": [{"type": "text", "text": "a"},
                                                         {"type": "text", "text": "b"}]}]})")),
            "[system]Be[user]a\nb[assistant]");
  EXPECT_FALSE(model_->plan(hello(), "").requests.front().thinking);
  EXPECT_EQ(model_->count_tokens(hello()), 19u);
}

TEST_F(ChatModelTest, ChoicesHaveSeedsOfTheirOwn) {
  load(kPlain);
  const ChatPlan plan = model_->plan(hello(R"(, "n": 3, "seed": 10)"), "me");
  ASSERT_EQ(plan.requests.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(plan.requests[i].sampling.seed, 10 + i);
    EXPECT_EQ(plan.requests[i].client, "me");
  }
  const auto seed = [&] { return model_->plan(hello(), "").requests[0].sampling.seed; };
  EXPECT_FALSE(seed() == seed() && seed() == seed());
}

TEST_F(ChatModelTest, AnAnswerGoesOnWithItsBeginning) {
  load(kPlain);
  const std::string begun =
      R"({"messages": [{"role": "user", "content": "Hi"},
                       {"role": "assistant", "content": "So"}]})";
  EXPECT_EQ(prompt(task(begun)), "[user]Hi[assistant]So");
  load(kThinking);
  EXPECT_EQ(prompt(task(begun)), "[user]Hi[assistant]<think>\n\n</think>\n\nSo")
      << "what was begun is the answer, not the thinking";
  EXPECT_FALSE(model_->plan(task(begun), "").style.starts_inside);
}

TEST_F(ChatModelTest, ThinkingBeginsInThePromptOrNot) {
  load(kThinking);
  EXPECT_TRUE(model_->can_think());
  const ChatPlan open = model_->plan(hello(), "");
  EXPECT_TRUE(open.style.starts_inside);
  EXPECT_TRUE(open.requests[0].thinking->starts_open);
  EXPECT_EQ(open.requests[0].thinking->budget, -1);
  const ChatPlan closed = model_->plan(hello(R"(, "reasoning_effort": "none")"), "");
  EXPECT_FALSE(closed.style.starts_inside);
  EXPECT_EQ(closed.requests[0].thinking->budget, 0) << "should it think all the same";
  EXPECT_EQ(prompt(hello(R"(, "chat_template_kwargs": {"enable_thinking": false})")),
            "[user]Hi[assistant]<think>\n\n</think>\n\n");
}

TEST_F(ChatModelTest, EffortAndBudgetLimitThinking) {
  load(kThinking);
  const auto budget = [&](const std::string& more) {
    return model_->plan(hello(more), "").requests[0].thinking->budget;
  };
  EXPECT_EQ(budget(R"(, "reasoning_effort": "low")"), 1024);
  EXPECT_EQ(budget(R"(, "reasoning_effort": "medium")"), 8192);
  EXPECT_EQ(budget(R"(, "reasoning_effort": "high")"), -1);
  EXPECT_EQ(budget(R"(, "reasoning_effort": "low", "reasoning_budget_tokens": 7)"), 7);
  EXPECT_EQ(text(model_->plan(hello(), "").requests[0].thinking->closing), "\n</think>\n\n");
}

TEST_F(ChatModelTest, EffortGoesToATemplateThatKnowsIt) {
  load(kHarmony);
  EXPECT_EQ(prompt(hello(R"(, "reasoning_effort": "high")")), "[user]Hihigh<|start|>assistant");
  const ChatPlan plan = model_->plan(hello(R"(, "reasoning_effort": "low")"), "");
  EXPECT_EQ(plan.style.form, OutputForm::kHarmony);
  EXPECT_EQ(plan.requests[0].thinking->budget, -1);
}

TEST_F(ChatModelTest, ToolsGoToATemplateThatKnowsThem) {
  load(kTools);
  EXPECT_EQ(prompt(hello(kTool)), "1 tools [user]Hi[assistant]");
  EXPECT_EQ(model_->plan(hello(kTool), "").style.tools.size(), 1u);
  const ChatTask none = hello(std::string(kTool) + R"(, "tool_choice": "none")");
  EXPECT_EQ(prompt(none), "[user]Hi[assistant]");
  EXPECT_TRUE(model_->plan(none, "").style.tools.is_null());
}

TEST_F(ChatModelTest, OtherTemplatesGetToolsAsText) {
  load(kPlain);
  const std::string told = prompt(task(
      R"({"messages": [{"role": "user", "content": "Hi"},
          {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": "get", "arguments": "{\"n\": 1}"}}]},
          {"role": "tool", "tool_call_id": "1", "content": "one"}])" +
      std::string(kTool) + "}"));
  for (const char* part : {"[system]", "<tools>\n{\"type\":\"function\"", "\"name\":\"get\"",
                           "[user]Hi", "{\"name\": \"get\", \"arguments\": {\"n\": 1}}",
                           "<tool_response>\none\n</tool_response>"}) {
    EXPECT_NE(told.find(part), std::string::npos) << part << " in:\n" << told;
  }
}

TEST_F(ChatModelTest, ACallIsAScript) {
  load(kPlain);
  const auto script = [&](const std::string& more) {
    return model_->plan(hello(kTool + more), "").requests[0].script;
  };
  EXPECT_TRUE(script("").empty()) << "a model that may choose is not forced";
  for (const char* choice :
       {R"(, "tool_choice": "required")",
        R"(, "tool_choice": {"type": "function", "function": {"name": "get"}})"}) {
    std::vector<ScriptStep> steps = script(choice);
    ASSERT_EQ(steps.size(), 3u);
    EXPECT_EQ(text(steps[0].given), "<tool_call>\n{\"name\": \"");
    EXPECT_TRUE(steps[0].grammar->accept_text("get\""));
    EXPECT_TRUE(steps[0].grammar->is_complete());
    text::GrammarMatcher arguments = steps[1].by_choice.at("get\"");
    EXPECT_FALSE(arguments.accept_text("{\"m\""));
    EXPECT_TRUE(arguments.accept_text("{\"n\": 12}"));
    EXPECT_EQ(text(steps[2].given), "}\n</tool_call>");
  }
  load(kHarmony);
  std::vector<ScriptStep> steps = script(R"(, "tool_choice": "required")");
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(text(steps[0].given), "<|channel|>commentary to=functions.");
  EXPECT_TRUE(steps[0].grammar->accept_text("get "));
}

TEST_F(ChatModelTest, StructureIsAScriptThatComesAfterTheThinking) {
  load(kThinking);
  const std::string form = R"(, "response_format": {"type": "json_schema", "json_schema": {"name":
      "x", "schema": {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"]}}})";
  const GenerationRequest request = model_->plan(hello(form), "").requests[0];
  ASSERT_EQ(request.script.size(), 1u);
  EXPECT_TRUE(request.thinking->starts_open);
  text::GrammarMatcher grammar = *request.script[0].grammar;
  EXPECT_FALSE(grammar.accept_text("{\"a\": 2"));
  EXPECT_TRUE(grammar.accept_text("{\"a\": 1}"));
  load(kHarmony);
  const GenerationRequest harmony = model_->plan(hello(form), "").requests[0];
  EXPECT_TRUE(harmony.thinking->starts_open) << "until the last channel";
  EXPECT_EQ(harmony.thinking->close, "<|channel|>final<|message|>");
}

TEST_F(ChatModelTest, WhatCannotBeDoneIsRefused) {
  load("");
  EXPECT_FALSE(model_->can_chat());
  EXPECT_NE(refusal(hello()).find("/v1/completions"), std::string::npos);
  load("{{ raise_exception('no such role') }}");
  EXPECT_THROW((void)model_->plan(hello(), ""), Error);
  load(kPlain);
  EXPECT_NE(refusal(task(R"({"messages": [{"role": "user", "content": ")" + std::string(1000, 'x') +
                         R"("}]})"))
                .find("1017 tokens"),
            std::string::npos);
  EXPECT_NE(refusal(hello(R"(, "grammar": "root ::= nothing")")).find("nothing"),
            std::string::npos);
}

TEST_F(ChatModelTest, ATemplateThatIsNoneIsAnErrorAtOnce) { EXPECT_THROW(load("{% if %}"), Error); }

}  // namespace
}  // namespace strata::serve
