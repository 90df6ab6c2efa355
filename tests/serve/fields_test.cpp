// Reading JSON of clients: bounds, types, and errors that name the field.
#include "src/serve/fields.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace strata::serve {
namespace {

// The message of the ApiError(400) that is thrown, with the field in front.
std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param + ": " + error.what();
  }
  return "nothing was thrown";
}

void expect_refused(const std::function<void()>& action, std::initializer_list<const char*> parts) {
  const std::string text = refusal(action);
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(ParseBody, TakesObjectsOnly) {
  EXPECT_EQ(parse_body(R"({"a": [1, "\u00e4"]})")["a"][1], "\xC3\xA4");
  for (const char* body : {"", "[]", "1", "{", "{\"a\": }", "{} {}", "{\"a\": \"\xFF\"}",
                           "{\"a\": \"\\ud800\"}", "{\"a\": 1,}", "nul"}) {
    expect_refused([&] { (void)parse_body(body); }, {"JSON"});
  }
}

TEST(ParseBody, IsBounded) {
  expect_refused([&] { (void)parse_body("{\"a\": 1e999}"); }, {"number", "too large"});
  const auto nested = [](std::size_t depth) {
    return "{\"a\": " + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_NO_THROW((void)parse_body(nested(kMaxJsonDepth)));
  expect_refused([&] { (void)parse_body(nested(kMaxJsonDepth + 1)); }, {"deep", "64"});
  expect_refused([&] { (void)parse_body("{\"a\": " + std::string(1'000'000, '[')); }, {"deep"});
  std::string keys = "{";
  for (std::size_t i = 0; i <= kMaxJsonKeys; ++i) keys += "\"" + std::to_string(i) + "\":0,";
  expect_refused([&] { (void)parse_body(keys + "\"x\":0}"); }, {"1024", "members"});
  std::string values = "{\"a\": [0";
  for (std::size_t i = 0; i <= kMaxJsonValues; ++i) values += ",0";
  expect_refused([&] { (void)parse_body(values + "]}"); }, {"500000", "values"});
}

TEST(Fields, ReadsWhatIsThere) {
  const Json json = parse_body(
      R"({"n": 3, "whole": 4.0, "x": 0.5, "b": true, "t": "text", "none": null, "o": {"p": 1},
          "list": ["a", "b"]})");
  const Fields fields(json, "");
  EXPECT_EQ(fields.integer("n", 0, 5), 3);
  EXPECT_EQ(fields.integer("whole", 0, 5), 4);
  EXPECT_EQ(fields.number("x", 0, 1), 0.5);
  EXPECT_EQ(fields.boolean("b"), true);
  EXPECT_EQ(fields.text("t"), "text");
  EXPECT_EQ(fields.text("none"), std::nullopt);
  EXPECT_FALSE(fields.has("none"));
  EXPECT_EQ(fields.object("o")->integer("p", 0, 1), 1);
  EXPECT_EQ(fields.texts("t", 4).size(), 1u);
  EXPECT_EQ(fields.texts("list", 4).size(), 2u);
  EXPECT_TRUE(fields.texts("absent", 4).empty());
  EXPECT_TRUE(fields.array("absent").empty());
}

TEST(Fields, NamesWhatIsWrong) {
  const Json json = parse_body(
      R"({"n": 3.5, "big": 99999999999999999999, "s": "x", "o": {"b": 1}, "list": ["a", 1]})");
  const Fields fields(json, "");
  expect_refused([&] { (void)fields.integer("n", 0, 5); }, {"n: n", "whole number", "0", "5"});
  expect_refused([&] { (void)fields.integer("big", 0, 5); }, {"big"});
  expect_refused([&] { (void)fields.number("s", 0, 1); }, {"s: s", "number from 0 to 1"});
  expect_refused([&] { (void)fields.number("n", 0, 1); }, {"number from 0 to 1"});
  expect_refused([&] { (void)fields.boolean("s"); }, {"true or false"});
  expect_refused([&] { (void)fields.text("n"); }, {"n: n", "string"});
  expect_refused([&] { (void)fields.object("s"); }, {"s: s", "object"});
  expect_refused([&] { (void)fields.object("o")->boolean("b"); }, {"o.b: o.b"});
  expect_refused([&] { (void)fields.need("absent"); }, {"absent: absent", "missing"});
  expect_refused([&] { (void)fields.texts("list", 4); }, {"list", "strings"});
  expect_refused([&] { (void)fields.array("o"); }, {"o: o", "array"});
  expect_refused([&] { fields.refuse_all({{"s", "y", "not here"}}); }, {"s: s: not here"});
  EXPECT_NO_THROW(fields.refuse_all({{"s", "x", "not here"}, {"absent", nullptr, "no"}}));
}

}  // namespace
}  // namespace strata::serve
