// What models write, as reasoning, answer and calls: whole, and cut at every place.
#include "src/serve/output_parser.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata::serve {
namespace {

struct Parsed {
  std::string reasoning, text;
  std::vector<ToolCall> calls;
};

Parsed parse(const OutputStyle& style, const std::vector<std::string>& pieces) {
  const std::unique_ptr<OutputParser> parser = OutputParser::make(style);
  Deltas deltas;
  for (const std::string& piece : pieces) parser->feed(piece, deltas);
  parser->finish(deltas);
  Parsed parsed;
  for (const Delta& delta : deltas) {
    if (delta.kind == Delta::Kind::kReasoning) parsed.reasoning += delta.text;
    if (delta.kind == Delta::Kind::kText) parsed.text += delta.text;
    if (delta.kind == Delta::Kind::kToolCall) parsed.calls.push_back(delta.call);
  }
  return parsed;
}

std::vector<std::string> letters(const std::string& text) {
  std::vector<std::string> pieces;
  for (const char c : text) pieces.emplace_back(1, c);
  return pieces;
}

// Whole, letter by letter, and cut in two at each place, the result is the same.
Parsed parse(const OutputStyle& style, const std::string& text) {
  const Parsed whole = parse(style, std::vector<std::string>{text});
  std::vector<std::vector<std::string>> cuts = {letters(text)};
  for (std::size_t at = 0; at <= text.size(); ++at) {
    cuts.push_back({text.substr(0, at), text.substr(at)});
  }
  for (const std::vector<std::string>& pieces : cuts) {
    const Parsed other = parse(style, pieces);
    EXPECT_EQ(other.reasoning, whole.reasoning);
    EXPECT_EQ(other.text, whole.text);
    EXPECT_EQ(other.calls.size(), whole.calls.size());
    for (std::size_t i = 0; i < std::min(other.calls.size(), whole.calls.size()); ++i) {
      EXPECT_EQ(other.calls[i].name, whole.calls[i].name);
      EXPECT_EQ(other.calls[i].arguments, whole.calls[i].arguments);
    }
  }
  return whole;
}

Json tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "get", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
                                     "raw": {"type": ["string"]}, "any": {}}}}}])");
}

const OutputStyle kThinks{.form = OutputForm::kTagged, .thinks = true};
const OutputStyle kInside{.form = OutputForm::kTagged, .thinks = true, .starts_inside = true};
OutputStyle with_tools(OutputStyle style) {
  style.tools = tools();
  return style;
}

TEST(OutputParser, PlainTextIsLeftAlone) {
  const std::string text = "\n <think> a <tool_call> \n";
  EXPECT_EQ(parse({}, text).text, text);
  const OutputStyle tagged{.form = OutputForm::kTagged};
  EXPECT_EQ(parse(tagged, text).text, text) << "a model that does not think, no tools";
}

TEST(OutputParser, ThinkingIsSplitOff) {
  const Parsed parsed = parse(kThinks, "<think>\nHm, well.\n</think>\n\nIt is 4.\n");
  EXPECT_EQ(parsed.reasoning, "Hm, well.");
  EXPECT_EQ(parsed.text, "It is 4.\n");
  const Parsed inside = parse(kInside, "Hm </thin </think> 4");
  EXPECT_EQ(inside.reasoning, "Hm </thin");
  EXPECT_EQ(inside.text, "4");
  EXPECT_EQ(parse(kInside, "never ends").reasoning, "never ends");
  EXPECT_EQ(parse(kThinks, "<think></think>4").text, "4");
}

TEST(OutputParser, ThinkingComesFirstOrNotAtAll) {
  EXPECT_EQ(parse(kThinks, "The tag <think> opens.").text, "The tag <think> opens.");
  EXPECT_EQ(parse(kThinks, "<think>a</think>b<think>c").text, "b<think>c");
  EXPECT_EQ(parse(kThinks, "  <think>a</think>b").reasoning, "a");
}

TEST(OutputParser, CallsAsJson) {
  const Parsed parsed =
      parse(with_tools(kThinks),
            "<think>x</think>\n\nI look.\n\n<tool_call>\n{\"name\": \"get\", "
            "\"arguments\": {\"city\": \"K\xC3\xB6ln\", \"days\": 2}}\n</tool_call>\n"
            "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>");
  EXPECT_EQ(parsed.reasoning, "x");
  EXPECT_EQ(parsed.text, "I look.");
  ASSERT_EQ(parsed.calls.size(), 2u);
  EXPECT_EQ(parsed.calls[0].name, "get");
  EXPECT_EQ(parsed.calls[0].arguments, "{\"city\":\"K\xC3\xB6ln\",\"days\":2}");
  EXPECT_EQ(parsed.calls[1].arguments, "{}");
  EXPECT_TRUE(parsed.calls[0].id.starts_with("call_"));
  EXPECT_NE(parsed.calls[0].id, parsed.calls[1].id);
}

TEST(OutputParser, ACallWhoseEndIsMissingIsStillACall) {
  const Parsed parsed =
      parse(with_tools(kThinks), "<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n");
  ASSERT_EQ(parsed.calls.size(), 1u);
  EXPECT_EQ(parsed.text, "");
}

TEST(OutputParser, WhatIsNoCallIsText) {
  for (const std::string text :
       {"<tool_call>no JSON</tool_call>", "<tool_call>[1]</tool_call>", "a <tool_call>{\"x\": 1}",
        "<tool_call>{\"name\": 5}</tool_call>", "1 < 2 <tool"}) {
    const Parsed parsed = parse(with_tools(kThinks), text);
    EXPECT_EQ(parsed.text, text);
    EXPECT_TRUE(parsed.calls.empty());
  }
}

TEST(OutputParser, CallsAsXmlHaveTheTypesOfTheirSchema) {
  const std::string body =
      "<function=get>\n<parameter=city>\n12\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
      "<parameter=raw>\ntrue\n</parameter>\n<parameter=any>\n[1, 2]\n</parameter>\n"
      "<parameter=more>\nfree text\nof two lines\n</parameter>\n</function>";
  for (const std::string& text : {"<tool_call>\n" + body + "\n</tool_call>", body}) {
    const Parsed parsed = parse(with_tools(kThinks), text);
    ASSERT_EQ(parsed.calls.size(), 1u);
    EXPECT_EQ(parsed.text, "");
    EXPECT_EQ(parsed.calls[0].name, "get");
    EXPECT_EQ(Json::parse(parsed.calls[0].arguments),
              Json::parse(R"({"city": "12", "days": 3, "raw": "true", "any": [1, 2],
                              "more": "free text\nof two lines"})"));
  }
  const Parsed cut = parse(with_tools(kThinks), "<tool_call><function=get>\n<parameter=city>\nBer");
  ASSERT_EQ(cut.calls.size(), 1u);
  EXPECT_EQ(cut.calls[0].arguments, "{\"city\":\"Ber\"}");
}

const OutputStyle kHarmonyStyle{.form = OutputForm::kHarmony, .thinks = true};

TEST(OutputParser, HarmonysChannels) {
  const Parsed parsed = parse(
      kHarmonyStyle,
      "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>4 "
      "< 5");
  EXPECT_EQ(parsed.reasoning, "Hm.");
  EXPECT_EQ(parsed.text, "4 < 5");
  EXPECT_EQ(parse(kHarmonyStyle, "<|channel|>commentary<|message|>I begin.<|end|>").text,
            "I begin.");
}

TEST(OutputParser, HarmonysCalls) {
  for (const char* header : {"<|channel|>commentary to=functions.get <|constrain|>json<|message|>",
                             " to=functions.get<|channel|>commentary json<|message|>",
                             "<|channel|>analysis to=functions.get code<|message|>"}) {
    const Parsed parsed = parse(with_tools(kHarmonyStyle),
                                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" +
                                    std::string(header) + "{\"days\": 1}");
    EXPECT_EQ(parsed.reasoning, "Hm.");
    EXPECT_EQ(parsed.text, "");
    ASSERT_EQ(parsed.calls.size(), 1u) << header;
    EXPECT_EQ(parsed.calls[0].name, "get");
    EXPECT_EQ(parsed.calls[0].arguments, "{\"days\": 1}");
  }
}

}  // namespace
}  // namespace strata::serve
