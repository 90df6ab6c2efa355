// The language, case by case, against what jinja2 makes of it.
#include "tests/text/jinja_cases.hpp"

#include <gtest/gtest.h>

namespace strata::text::test {
namespace {

class JinjaLanguage : public ::testing::TestWithParam<const char*> {};

TEST_P(JinjaLanguage, AgreesWithJinja2) {
  const nlohmann::ordered_json context = load("context.json");
  const nlohmann::ordered_json cases = load(GetParam());
  ASSERT_GT(cases.size(), 10U);
  for (const auto& each : cases) {
    const auto source = each["template"].get<std::string>();
    const Outcome outcome = render(source, each.contains("context") ? each["context"] : context);
    EXPECT_EQ(difference(outcome, each), "") << "template: " << source;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, JinjaLanguage, ::testing::Values("language.json"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace strata::text::test
