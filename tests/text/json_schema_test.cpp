// Which texts the grammars of single schemas accept, and how hostile schemas end.
#include "strata/text/json_schema.hpp"

#include "strata/base/error.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/text/grammar_cases.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace strata::text::test {
namespace {

using nlohmann::ordered_json;
using strata::testing::fails_with;

struct SchemaCase {
  const char* name;
  const char* schema;
  std::vector<std::string> accepted;
  std::vector<std::string> others;
};

class Schema : public ::testing::TestWithParam<SchemaCase> {};

TEST_P(Schema, AcceptsItsTexts) {
  const SchemaCase& each = GetParam();
  const GrammarPtr grammar = compile_json_schema(ordered_json::parse(each.schema));
  for (const std::string& text : each.accepted) EXPECT_TRUE(matches(grammar, text)) << text;
  for (const std::string& text : each.others) EXPECT_FALSE(matches(grammar, text)) << text;
}

void PrintTo(const SchemaCase& each, std::ostream* out) { *out << each.schema; }

INSTANTIATE_TEST_SUITE_P(
    All, Schema,
    ::testing::ValuesIn(std::vector<SchemaCase>{
        {"Space",
         R"({"type": "object", "properties": {"a": {}, "b": {"type": "array"}}})",
         {"{}", "{ }", "\n\n{\"a\":1}", " {\"a\": 1,\n    \"b\": [\n\t1,\n\t2\n]\n}", "{\"b\":[]}"},
         {"", "\n\n\n{}", "{\"a\"  :1}", "{\"a\":  1}", "{}\n", "{\"a\":1 ,\"b\":[]}", "{\n\n}"}},
        {"Order",
         R"({"properties": {"a": {}, "b": {}}, "additionalProperties": {"type": "null"}})",
         {"{\"a\":1,\"b\":2}", "{\"b\":2}", "{\"a\":1,\"x\":null,\"y\":null}", "{\"ab\":null}"},
         {"{\"b\":1,\"a\":2}", "{\"x\":null,\"a\":1}", "{\"a\":1,\"a\":2}", "{\"\\u0061\":null}"}},
        {"ClosedUnlessAsked", R"({"properties": {"a": {}}})", {"{}", "{\"a\":[]}"}, {"{\"b\":1}"}},
        {"Strings",
         R"({"type": "string"})",
         {R"("")", R"("é\n\u00e9\uD83D\uDE00\"\\\/")", "\"\x7F\"", "\"世界\""},
         {R"("\q")", R"("\ud800")", R"("\udc00\ud800")", "\"\n\"", "\"\xFF\"", "\"\xC0\x80\"",
          "'a'", "\"a", "\"\xED\xA0\x80\""}},
        {"LengthCountsCodePoints",
         R"({"type": "string", "minLength": 2, "maxLength": 3})",
         {R"("ab")", R"("世界🌍")", R"("\uD83D\uDE00\n")", R"("\u00e9\u00e9\u00e9")"},
         {R"("a")", R"("abcd")", R"("🌍")", R"("\n")"}},
        {"Integers",
         R"({"type": "integer"})",
         {"0", "-1", "123456789012345678"},
         {"-0", "01", "1.0", "1e3", "+1", "1234567890123456789", "-"}},
        {"Numbers",
         R"({"type": "number"})",
         {"0", "-0.5", "1.25e-9", "3E+02", "-1"},
         {".5", "1.", "00", "1e400", "0x1", "NaN", "1e"}},
        {"IntegerRange",
         R"({"type": "integer", "minimum": -12, "maximum": 305})",
         {"-12", "-9", "0", "7", "99", "100", "299", "305"},
         {"-13", "-20", "-100", "306", "1000", "-0"}},
        {"NumberRange",
         R"({"type": "number", "exclusiveMinimum": 0.5, "maximum": 10})",
         {"0.51", "0.5000000000000002", "1", "9.99", "10", "10.0", "10.000"},
         {"0.5", "0.49", "10.01", "-1", "0.5000000000000000", "1e0"}},
        {"NegativeRange",
         R"({"type": "number", "minimum": -1.5, "exclusiveMaximum": -0.25})",
         {"-1.5", "-1.50", "-1", "-0.26"},
         {"-1.51", "-0.25", "0", "-2", "-0.2"}},
        {"Tuple",
         R"({"prefixItems": [{"type": "integer"}, {"type": "null"}], "minItems": 1})",
         {"[1]", "[1,null]"},
         {"[]", "[null]", "[1,2]", "[1,null,3]", "[1,]"}},
        {"OldTuple",
         R"({"items": [{"type": "integer"}], "additionalItems": {"type": "null"}})",
         {"[]", "[1]", "[1,null,null]"},
         {"[null]", "[1,1]"}},
        {"Values",
         R"({"enum": ["a", 1, null, {"b": [1]}]})",
         {"\"a\"", "1", "null", "{\"b\":[1]}"},
         {"\"b\"", "1.0", "{\"b\": [1]}", "11"}},
        {"KeywordsOfOneType", R"({"minimum": 5})", {"5", "17.5"}, {"4", "\"a\"", "null"}},
        {"EmptySchema", "{}", {"null", "[{\"a\":[true]}]", "\"x\"", "-1.5"}, {"nul", "[,]"}},
        {"SearchedPattern",
         R"({"type": "string", "pattern": "b+"})",
         {"\"b\"", "\"abba\"", "\"\\\"b\\n\""},
         {"\"\"", "\"a\"", "\"\\b\""}},
    }),
    [](const ::testing::TestParamInfo<SchemaCase>& info) { return info.param.name; });

TEST(JsonObject, IsAnyObjectAndNothingElse) {
  const GrammarPtr grammar = json_object_grammar();
  for (const char* text : {"{}", R"({"a": {"b": [1, 2.5e3, "x", null, true, {}]}, "": []})"}) {
    EXPECT_TRUE(matches(grammar, text)) << text;
  }
  for (const char* text : {"[]", "1", "{", "{\"a\"}", "{\"a\":1,}", "{} {}"}) {
    EXPECT_FALSE(matches(grammar, text)) << text;
  }
}

ordered_json nested(int levels, const char* keyword) {
  ordered_json schema = {{"type", "null"}};
  for (int i = 0; i < levels; ++i) {
    ordered_json outer;
    if (std::string_view(keyword) == "allOf") {
      outer["allOf"] = ordered_json::array({std::move(schema)});
    } else {
      outer[keyword] = std::move(schema);
    }
    schema = std::move(outer);
  }
  return schema;
}

ordered_json alternatives(int lists, int each) {
  ordered_json all = ordered_json::array();
  for (int i = 0; i < lists; ++i) {
    ordered_json any = ordered_json::array();
    for (int j = 0; j < each; ++j) any.push_back({{"required", {std::to_string(100 * i + j)}}});
    all.push_back({{"anyOf", any}});
  }
  return {{"type", "object"}, {"allOf", all}};
}

ordered_json optional_properties(int count) {
  ordered_json schema = {{"type", "object"}};
  for (int i = 0; i < count; ++i) {
    schema["properties"]["a property of this number: " + std::to_string(i)] = true;
  }
  return schema;
}

TEST(SchemaBounds, HostileSchemasEndSoonAndNameTheBound) {
  const auto refused = [](const ordered_json& schema, std::string_view bound) {
    return fails_with(ErrorKind::kUsage, {bound}, [&] { (void)compile_json_schema(schema); });
  };
  EXPECT_TRUE(refused(nested(10'000, "items"), "max_nesting"));
  EXPECT_TRUE(refused(nested(10'000, "allOf"), "max_nesting"));
  EXPECT_TRUE(refused({{"const", std::string(2 << 20, 'a')}}, "max_source_bytes"));
  EXPECT_TRUE(refused(ordered_json{{"enum", std::vector<int>(200'000, 1)}}, "max_source_bytes"));
  EXPECT_TRUE(refused(alternatives(8, 8), "max_alternatives"));
  EXPECT_TRUE(refused(optional_properties(2000), "max_s"));
  EXPECT_TRUE(refused({{"pattern", "^[ab]*a[ab]{40}$"}}, "max_s"));
  EXPECT_TRUE(refused({{"pattern", "^((((a{90}){90}){90}){90}){90}$"}}, "max_s"));
  EXPECT_TRUE(refused({{"pattern", "a{1000000000}"}}, "max_s"));
  EXPECT_TRUE(refused({{"pattern", std::string(100'000, '(')}}, "max_nesting"));
  EXPECT_TRUE(refused({{"pattern", "^a"}, {"minLength", 900'000'000}}, "max_s"));
  EXPECT_TRUE(refused(ordered_json::parse(R"({"additionalProperties": true,
                                              "maxProperties": 900000000})"),
                      "max_s"));
}

TEST(SchemaBounds, LargeSchemasOfGoodWillCompile) {
  ordered_json words = ordered_json::array();
  for (int i = 0; i < 5000; ++i) words.push_back("word number " + std::to_string(i * 7919));
  EXPECT_NO_THROW((void)compile_json_schema({{"enum", words}}));
  EXPECT_NO_THROW((void)compile_json_schema(optional_properties(80)));
  ordered_json required = optional_properties(2000);
  ordered_json names = ordered_json::array();
  for (const auto& property : required["properties"].items()) names.push_back(property.key());
  required["required"] = names;
  EXPECT_NO_THROW((void)compile_json_schema(required));
  EXPECT_NO_THROW(
      (void)compile_json_schema({{"type", "array"},
                                 {"items", {{"type", "string"}, {"maxLength", 1'000'000}}},
                                 {"minItems", 1000},
                                 {"maxItems", 1'000'000}}));
  EXPECT_NO_THROW((void)compile_json_schema(nested(90, "items")));
}

TEST(SchemaBounds, TextThatIsNotUtf8IsRefused) {
  for (const ordered_json& schema :
       {ordered_json{{"const", "\xFF"}}, ordered_json{{"enum", {"\xC3"}}},
        ordered_json{{"pattern", "\xFF"}}, ordered_json{{"required", {"\xFF"}}},
        ordered_json{{"patternProperties", {{"\xFF", true}}}}}) {
    EXPECT_TRUE(
        fails_with(ErrorKind::kUsage, {"UTF-8"}, [&] { (void)compile_json_schema(schema); }));
  }
}

}  // namespace
}  // namespace strata::text::test
