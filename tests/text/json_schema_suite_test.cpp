// Hundreds of schemas, random texts for each: every one must be JSON that satisfies its schema, by
// the judgement of a validator of its own. tools/check_schemas.py asks Python's jsonschema, too.
#include "strata/base/error.hpp"
#include "strata/text/json_schema.hpp"
#include "tests/text/grammar_cases.hpp"
#include "tests/text/json_schema_validator.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace strata::text::test {
namespace {

using nlohmann::ordered_json;

std::vector<ordered_json> read_cases(const std::string& name) {
  std::ifstream file(std::string(STRATA_SOURCE_DIR) + "/tests/data/schemas/" + name);
  std::vector<ordered_json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(ordered_json::parse(line));
  if (cases.empty()) throw std::runtime_error("cannot read " + name);
  return cases;
}

// Returns how many different texts were written.
std::size_t expect_valid_texts(const ordered_json& schema, const VocabPtr& vocab, unsigned seed,
                               int texts) {
  const GrammarPtr grammar = compile_json_schema(schema);
  const GrammarMatcher start(grammar, vocab);
  const SchemaValidator validator(schema);
  std::mt19937 random(seed);
  std::set<std::string> written;
  for (int i = 0; i < texts; ++i) {
    const std::string text =
        random_text(grammar, start, *vocab, random, static_cast<int>(random() % 60));
    written.insert(text);
    const ordered_json value = ordered_json::parse(text, nullptr, false);
    if (value.is_discarded()) {
      ADD_FAILURE() << schema << "\nis not JSON: " << text;
    } else if (!validator.valid(value)) {
      ADD_FAILURE() << schema << "\nis not satisfied by: " << text;
    }
  }
  return written.size();
}

void run_suite(const std::string& name, const VocabPtr& vocab, int texts) {
  unsigned seed = 1;
  for (const ordered_json& each : read_cases(name)) {
    SCOPED_TRACE(each.value("name", ""));
    try {
      EXPECT_GT(expect_valid_texts(each.at("schema"), vocab, ++seed, texts), 0U);
    } catch (const std::exception& error) {
      ADD_FAILURE() << each.at("schema") << "\n" << error.what();
    }
  }
}

TEST(SchemaSuite, FeaturesByteByByte) { run_suite("features.jsonl", byte_vocab(), 12); }
TEST(SchemaSuite, FeaturesInTokens) { run_suite("features.jsonl", demo_vocab(), 6); }
TEST(SchemaSuite, RandomSchemasByteByByte) { run_suite("random.jsonl", byte_vocab(), 6); }
TEST(SchemaSuite, RandomSchemasInTokens) { run_suite("random.jsonl", demo_vocab(), 3); }

TEST(SchemaSuite, WhatCannotBeEnforcedIsRefusedAndNamed) {
  for (const ordered_json& each : read_cases("refused.jsonl")) {
    try {
      (void)compile_json_schema(each.at("schema"));
      ADD_FAILURE() << "nothing was thrown: " << each;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      for (const std::string part : each.at("parts")) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
            << part << " is not in: " << error.what() << "\n"
            << each;
      }
    }
  }
}

// The judge itself: a value that satisfies, and one that does not.
TEST(SchemaSuite, TheValidatorTellsRightFromWrong) {
  const std::vector<std::array<const char*, 3>> cases = {
      {R"({"type": "integer"})", "1.0", "1.5"},
      {R"({"type": ["null", "string"]})", "null", "1"},
      {R"({"enum": [1, [2]]})", "[2]", "[3]"},
      {R"({"const": {"a": 1}})", R"({"a": 1})", R"({"a": 2})"},
      {R"({"minLength": 2, "maxLength": 3})", "\"é🌍\"", "\"é🌍ab\""},
      {R"({"pattern": "^a.c$"})", "\"abc\"", "\"abcd\""},
      {R"({"minimum": 2, "exclusiveMaximum": 3})", "2", "3"},
      {R"({"multipleOf": 3})", "-9", "-8"},
      {R"({"prefixItems": [{"type": "null"}], "items": false})", "[null]", "[null, 1]"},
      {R"({"minItems": 1, "maxItems": 2})", "[1]", "[]"},
      {R"({"properties": {"a": false}})", R"({"b": 1})", R"({"a": 1})"},
      {R"({"required": ["a"]})", R"({"a": 1})", "{}"},
      {R"({"patternProperties": {"^x": {"type": "null"}}, "additionalProperties": false})",
       R"({"xa": null})", R"({"a": null})"},
      {R"({"propertyNames": {"maxLength": 1}})", R"({"a": 1})", R"({"ab": 1})"},
      {R"({"minProperties": 1, "maxProperties": 1})", R"({"a": 1})", R"({"a": 1, "b": 1})"},
      {R"({"oneOf": [{"minimum": 3}, {"maximum": 5}]})", "6", "4"},
      {R"({"anyOf": [{"const": 1}, {"const": 2}]})", "2", "3"},
      {R"({"allOf": [{"minimum": 3}, {"maximum": 5}]})", "4", "6"},
      {R"({"not": {"type": "null"}})", "1", "null"},
      {R"({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "null"}}})", "[null]", "[1]"},
      {R"({"format": "date"})", "\"2024-02-29\"", "\"2023-02-29\""},
      {R"({"format": "date"})", "\"2023-11-30\"", "\"2023-11-31\""},
      {R"({"format": "time"})", "\"23:59:59.5+01:00\"", "\"24:00:00Z\""},
      {R"({"format": "date-time"})", "\"2023-12-31T00:00:00Z\"", "\"2023-12-32T00:00:00Z\""},
      {R"({"format": "uuid"})", "\"123e4567-e89b-12d3-a456-426614174000\"", "\"123e4567\""},
      {R"({"format": "email"})", "\"a.b@c-d.org\"", "\"a..b@c.org\""},
      {R"({"format": "hostname"})", "\"a-b.c\"", "\"a-.c\""},
      {R"({"format": "ipv4"})", "\"1.2.3.255\"", "\"1.2.3.256\""},
      {R"({"format": "ipv6"})", "\"1::2\"", "\"1::2::3\""},
      {R"({"format": "ipv6"})", "\"1:2:3:4:5:6:7:8\"", "\"1:2:3:4:5:6:7\""},
      {R"({"format": "duration"})", "\"P1DT2M\"", "\"P1DT\""},
      {R"({"format": "uri"})", "\"https://a.b/c?d#e\"", "\"//a.b\""},
  };
  for (const auto& [schema, right, wrong] : cases) {
    const ordered_json parsed = ordered_json::parse(schema);
    const SchemaValidator validator(parsed);
    EXPECT_TRUE(validator.valid(ordered_json::parse(right))) << schema << right;
    EXPECT_FALSE(validator.valid(ordered_json::parse(wrong))) << schema << wrong;
  }
}

}  // namespace
}  // namespace strata::text::test
