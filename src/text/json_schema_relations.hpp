// What shapes say about the parts of arrays and objects, about values, and about one another.
#pragma once

#include "src/text/json_schema_shape.hpp"
#include "src/text/json_schema_strings.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace strata::text::schema {

class Relations {
 public:
  Relations(SchemaDocument& document, StringLanguages& strings)
      : document_(document), strings_(strings) {}

  // What the value of this property must satisfy if it is there.
  [[nodiscard]] SchemaSet property(const Shape& shape, const std::string& key);
  // What this item of an array must satisfy if it is there.
  [[nodiscard]] SchemaSet item(const Shape& shape, std::size_t index) const;
  // How many items have schemas of their own.
  [[nodiscard]] std::size_t prefix_size(const Shape& shape) const;
  // The properties that the shape names, in order; then those it only requires.
  [[nodiscard]] std::vector<std::string> listed(const Shape& shape) const;
  // Whether properties that it does not name, or items beyond its prefix, are written: where it
  // speaks of them, or names none at all.
  [[nodiscard]] bool writes_unlisted(const Shape& shape) const;
  [[nodiscard]] bool writes_more_items(const Shape& shape) const;

  // Whether "propertyNames" allows the name.
  [[nodiscard]] bool may_be_named(const Shape& shape, const std::string& key);

  // By the rules of JSON Schema.
  [[nodiscard]] bool holds(const Json& value, const SchemaSet& set);
  [[nodiscard]] bool holds(const Json& value, const Shape& shape);

  // True: no value that is written for `a` satisfies `b`. False: perhaps one does.
  [[nodiscard]] bool apart(const Shape& a, const Shape& b, int depth = 0);

 private:
  [[nodiscard]] bool apart(const SchemaSet& a, const SchemaSet& b, int depth);
  [[nodiscard]] bool strings_apart(const Shape& a, const Shape& b);
  [[nodiscard]] bool arrays_apart(const Shape& a, const Shape& b, int depth);
  [[nodiscard]] bool objects_apart(const Shape& a, const Shape& b, int depth);
  [[nodiscard]] bool array_holds(const Json& value, const Shape& shape);
  [[nodiscard]] bool object_holds(const Json& value, const Shape& shape);

  SchemaDocument& document_;
  StringLanguages& strings_;
};

// A part of `schema` that must be a schema, or an array or object of schemas.
[[nodiscard]] const Json* find_array(const SchemaDocument& document, const Json& schema,
                                     const char* keyword);
[[nodiscard]] const Json* find_object(const SchemaDocument& document, const Json& schema,
                                      const char* keyword);

}  // namespace strata::text::schema
