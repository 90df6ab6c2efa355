// Whole chat templates on whole conversations, against what jinja2 makes of them: every *.jinja in
// tests/data/templates with every conversation of conversations.json.
#include "tests/text/jinja_cases.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace strata::text::test {
namespace {

std::string read_template(const std::string& name) {
  std::ifstream file(data_path(name + ".jinja"), std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(JinjaConversations, AgreeWithJinja2ByteForByte) {
  const nlohmann::ordered_json conversations = load("conversations.json");
  const nlohmann::ordered_json expected = load("expected.json");
  ASSERT_GE(expected.size(), 10U);
  ASSERT_GE(conversations.size(), 40U);
  std::size_t texts = 0;
  for (const auto& [name, results] : expected.items()) {
    const std::string source = read_template(name);
    ASSERT_FALSE(source.empty()) << name;
    for (const auto& conversation : conversations) {
      const auto title = conversation["name"].get<std::string>();
      ASSERT_TRUE(results.contains(title)) << name << ", " << title;
      const Outcome outcome = render(source, conversation["context"]);
      EXPECT_EQ(difference(outcome, results[title]), "") << name << ", " << title;
      texts += outcome.error.empty() ? 1 : 0;
    }
  }
  EXPECT_GT(texts, 300U);  // the rest are errors in jinja2 too
}

}  // namespace
}  // namespace strata::text::test
