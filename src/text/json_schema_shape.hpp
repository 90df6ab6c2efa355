// What a JSON schema says, brought to a form that is easy to write grammars from: alternatives of
// shapes, each a plain conjunction.
#pragma once

#include "src/text/grammar_automaton.hpp"

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::text::schema {

using Json = nlohmann::ordered_json;

// Schemas that hold together, sorted, each once. They are parts of the document, so their addresses
// tell them apart.
using SchemaSet = std::vector<const Json*>;
void insert(SchemaSet& set, const Json* schema);

using Types = std::uint8_t;
inline constexpr Types kNull = 1;
inline constexpr Types kBoolean = 2;
inline constexpr Types kNumber = 4;
inline constexpr Types kString = 8;
inline constexpr Types kArray = 16;
inline constexpr Types kObject = 32;
inline constexpr Types kAnyType = 63;
[[nodiscard]] Types type_of(const Json& value);

// Lengths and counts: larger ones are cut to kMany, which no text reaches.
inline constexpr std::uint32_t kMany = 1'000'000'000;
struct CountRange {
  std::uint32_t min = 0;
  std::uint32_t max = kMany;  // kMany: no limit
  [[nodiscard]] bool contains(std::size_t count) const noexcept {
    return count >= min && (count <= max || max == kMany);
  }
};

struct NumberBound {
  Json value;  // a number
  bool exclusive = false;
};

// One way to satisfy a set of schemas, after $ref and allOf are followed and an alternative of each
// anyOf and oneOf is chosen.
struct Shape {
  SchemaSet schemas;   // whose own keywords hold, all of them: what follows was read from these
  SchemaSet excluded;  // and none of these schemas: the other alternatives of oneOf, and `not`

  Types types = kAnyType;
  bool typed = false;                              // "type" says so, not only the other keywords
  std::optional<std::vector<const Json*>> values;  // enum and const

  CountRange characters;
  std::vector<const std::string*> patterns, formats;
  bool integer = false;
  std::optional<NumberBound> lower, upper;
  std::vector<const Json*> multiples;
  CountRange items, properties;
  std::vector<std::string> required;

  // The types of the values that are written: without "type", those that other keywords speak of.
  [[nodiscard]] Types written_types() const noexcept {
    return types & (typed ? kAnyType : implied);
  }
  Types implied = kAnyType;
};

// A schema that holds for everything.
[[nodiscard]] const Json* anything();

class SchemaDocument {
 public:
  // Both must outlive the document.
  SchemaDocument(const Json& root, grammar::Budget& budget);

  // A value satisfies the set if it satisfies one of these. Empty: nothing does. Error(kUsage) as
  // compile_json_schema says.
  [[nodiscard]] std::vector<Shape> expand(const SchemaSet& set);

  // Error(kUsage): "schema, <JSON pointer of `schema` and `keyword`>: <reason>".
  [[noreturn]] void fail_at(const Json& schema, std::string_view keyword,
                            std::string_view reason) const;
  // The first of these schemas that has one of the keywords, for errors.
  [[noreturn]] void fail_at(const SchemaSet& schemas, std::string_view keyword,
                            std::string_view reason) const;

  [[nodiscard]] grammar::Budget& budget() const noexcept { return budget_; }

 private:
  struct Choice {
    SchemaSet schemas, excluded;
    bool operator==(const Choice&) const = default;
  };
  using Choices = std::vector<Choice>;

  void check_size(const Json& value, std::size_t depth);
  void check_keywords(const Json& schema) const;
  [[nodiscard]] const Choices& choices(const Json& schema);
  [[nodiscard]] Choices find_choices(const Json& schema);
  [[nodiscard]] Choices product(const Choices& a, const Choices& b, const Json& schema) const;
  [[nodiscard]] const Json& resolve(const Json& schema) const;
  [[nodiscard]] Shape merge(const Choice& choice) const;
  void merge_schema(Shape& shape, const Json& schema) const;
  void merge_types(Shape& shape, const Json& schema) const;
  void merge_values(Shape& shape, const Json& schema) const;
  void merge_counts(CountRange& range, const Json& schema, const char* min, const char* max) const;
  void merge_bounds(Shape& shape, const Json& schema) const;

  const Json& root_;
  grammar::Budget& budget_;
  std::size_t bytes_ = 0;
  std::map<const Json*, Choices> known_;
  SchemaSet open_;  // whose choices are being found
};

}  // namespace strata::text::schema
