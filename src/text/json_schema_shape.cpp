#include "src/text/json_schema_shape.hpp"

#include "strata/base/error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace strata::text::schema {
namespace {

struct Keyword {
  std::string_view name;
  Types types;  // that it speaks of; 0 for all
};

constexpr std::array kEnforced = {
    Keyword{"$ref", 0},
    Keyword{"allOf", 0},
    Keyword{"anyOf", 0},
    Keyword{"oneOf", 0},
    Keyword{"not", 0},
    Keyword{"type", 0},
    Keyword{"enum", 0},
    Keyword{"const", 0},
    Keyword{"minLength", kString},
    Keyword{"maxLength", kString},
    Keyword{"pattern", kString},
    Keyword{"format", kString},
    Keyword{"minimum", kNumber},
    Keyword{"maximum", kNumber},
    Keyword{"exclusiveMinimum", kNumber},
    Keyword{"exclusiveMaximum", kNumber},
    Keyword{"multipleOf", kNumber},
    Keyword{"items", kArray},
    Keyword{"prefixItems", kArray},
    Keyword{"additionalItems", kArray},
    Keyword{"minItems", kArray},
    Keyword{"maxItems", kArray},
    Keyword{"uniqueItems", kArray},
    Keyword{"properties", kObject},
    Keyword{"required", kObject},
    Keyword{"additionalProperties", kObject},
    Keyword{"patternProperties", kObject},
    Keyword{"propertyNames", kObject},
    Keyword{"minProperties", kObject},
    Keyword{"maxProperties", kObject},
};

// Say nothing about values. Names that begin with "x-" do not either.
constexpr std::array<std::string_view, 18> kAnnotations = {
    "$schema",
    "$id",
    "id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "default",
    "description",
    "example",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "discriminator",
    "contentEncoding",
    "contentMediaType",
    "$anchor",
};

const Keyword* find_keyword(std::string_view name) {
  const auto found = std::find_if(kEnforced.begin(), kEnforced.end(),
                                  [&](const Keyword& keyword) { return keyword.name == name; });
  return found == kEnforced.end() ? nullptr : &*found;
}

// "#/a~1b%20c" -> "/a/b c", with ~0 and ~1 left to whoever follows the pointer.
std::optional<std::string> pointer_of_reference(std::string_view reference) {
  if (!reference.starts_with('#')) return std::nullopt;
  std::string text;
  for (std::size_t i = 1; i < reference.size(); ++i) {
    if (reference[i] != '%') {
      text += reference[i];
      continue;
    }
    const std::string hex(reference.substr(i + 1, 2));
    if (hex.size() != 2 || hex.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
      return std::nullopt;
    }
    text += static_cast<char>(std::stoi(hex, nullptr, 16));
    i += 2;
  }
  return text;
}

std::string escaped(std::string_view key) {
  std::string text;
  for (const char c : key) text += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return text;
}

// The JSON pointer of the part of `value` at this address.
bool find_part(const Json& value, const Json* part, std::string& pointer) {
  if (&value == part) return true;
  if (!value.is_structured()) return false;
  std::size_t index = 0;
  for (const auto& item : value.items()) {
    const std::size_t size = pointer.size();
    pointer += "/" + (value.is_object() ? escaped(item.key()) : std::to_string(index++));
    if (find_part(item.value(), part, pointer)) return true;
    pointer.resize(size);
  }
  return false;
}

bool less(const Json& a, const Json& b) { return a < b; }

// The stricter of two bounds; `sign` is 1 for lower ones.
void tighten(std::optional<NumberBound>& bound, NumberBound other, int sign) {
  const bool replace =
      !bound || (sign > 0 ? less(bound->value, other.value) : less(other.value, bound->value));
  if (replace) {
    bound = std::move(other);
  } else if (bound->value == other.value) {
    bound->exclusive = bound->exclusive || other.exclusive;
  }
}

}  // namespace

void insert(SchemaSet& set, const Json* schema) {
  const auto at = std::lower_bound(set.begin(), set.end(), schema);
  if (at == set.end() || *at != schema) set.insert(at, schema);
}

Types type_of(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_boolean()) return kBoolean;
  if (value.is_number()) return kNumber;
  if (value.is_string()) return kString;
  return value.is_array() ? kArray : kObject;
}

const Json* anything() {
  static const Json schema(true);
  return &schema;
}

SchemaDocument::SchemaDocument(const Json& root, grammar::Budget& budget)
    : root_(root), budget_(budget) {
  check_size(root, 0);
}

void SchemaDocument::check_size(const Json& value, std::size_t depth) {
  const GrammarLimits& limits = budget_.limits();
  if (depth > 2 * limits.max_nesting) {  // a schema in a schema is two levels of JSON
    grammar::Budget::crossed("schemas inside one another", "max_nesting", limits.max_nesting);
  }
  bytes_ += 8;
  if (value.is_string()) bytes_ += value.get_ref<const std::string&>().size();
  if (value.is_structured()) {
    for (const auto& item : value.items()) {
      if (value.is_object()) bytes_ += item.key().size();
      check_size(item.value(), depth + 1);
    }
  }
  if (bytes_ > limits.max_source_bytes) {
    grammar::Budget::crossed("bytes in the schema", "max_source_bytes", limits.max_source_bytes);
  }
}

void SchemaDocument::fail_at(const Json& schema, std::string_view keyword,
                             std::string_view reason) const {
  std::string pointer;
  (void)find_part(root_, &schema, pointer);
  if (!keyword.empty()) pointer += "/" + escaped(keyword);
  fail(ErrorKind::kUsage, "schema, {}: {}", pointer.empty() ? "at its root" : pointer, reason);
}

void SchemaDocument::fail_at(const SchemaSet& schemas, std::string_view keyword,
                             std::string_view reason) const {
  for (const Json* schema : schemas) {
    if (schema->is_object() && schema->contains(keyword)) fail_at(*schema, keyword, reason);
  }
  fail_at(schemas.empty() ? root_ : *schemas.front(), "", reason);
}

void SchemaDocument::check_keywords(const Json& schema) const {
  for (const auto& item : schema.items()) {
    const std::string& name = item.key();
    if (find_keyword(name) != nullptr || name.starts_with("x-")) continue;
    if (std::find(kAnnotations.begin(), kAnnotations.end(), name) == kAnnotations.end()) {
      fail_at(schema, name, "keyword '" + name + "' cannot be enforced");
    }
    if ((name == "$id" || name == "id") && &schema != &root_) {
      fail_at(schema, name, "a schema with an identifier of its own cannot be enforced");
    }
  }
}

const SchemaDocument::Choices& SchemaDocument::choices(const Json& schema) {
  const auto known = known_.find(&schema);
  if (known != known_.end()) return known->second;
  if (std::find(open_.begin(), open_.end(), &schema) != open_.end()) {
    fail_at(schema, "", "the schema refers to itself without a value in between");
  }
  if (open_.size() > budget_.limits().max_nesting) {
    grammar::Budget::crossed("schemas that refer to one another", "max_nesting",
                             budget_.limits().max_nesting);
  }
  open_.push_back(&schema);
  Choices found = find_choices(schema);
  open_.pop_back();
  return known_.emplace(&schema, std::move(found)).first->second;
}

SchemaDocument::Choices SchemaDocument::find_choices(const Json& schema) {
  if (schema.is_boolean()) return schema.get<bool>() ? Choices(1) : Choices();
  if (!schema.is_object()) fail_at(schema, "", "a schema must be an object, true or false");
  check_keywords(schema);
  Choices result(1);
  const bool plain = std::any_of(schema.items().begin(), schema.items().end(), [](auto&& item) {
    const Keyword* keyword = find_keyword(item.key());
    return keyword != nullptr && keyword - kEnforced.data() >= 5;  // past those handled here
  });
  if (plain) result[0].schemas = {&schema};
  const auto list = [&](const char* name) -> std::vector<const Json*> {
    std::vector<const Json*> parts;
    const auto found = schema.find(name);
    if (found == schema.end()) return parts;
    if (!found->is_array() || found->empty()) {
      fail_at(schema, name, "must be an array of schemas, at least one");
    }
    for (const Json& part : *found) parts.push_back(&part);
    return parts;
  };
  if (schema.contains("$ref")) result = product(result, choices(resolve(schema)), schema);
  for (const Json* part : list("allOf")) result = product(result, choices(*part), schema);
  for (const char* name : {"anyOf", "oneOf"}) {
    const std::vector<const Json*> parts = list(name);
    if (parts.empty()) continue;
    Choices any;
    for (const Json* part : parts) {
      for (Choice choice : choices(*part)) {
        if (std::string_view(name) == "oneOf") {
          for (const Json* other : parts) {
            if (other != part) insert(choice.excluded, other);
          }
        }
        budget_.spend(choice.schemas.size() + choice.excluded.size() + any.size());
        if (std::find(any.begin(), any.end(), choice) == any.end()) {
          any.push_back(std::move(choice));
        }
      }
    }
    result = product(result, any, schema);
  }
  if (const auto found = schema.find("not"); found != schema.end()) {
    for (Choice& choice : result) insert(choice.excluded, &*found);
  }
  return result;
}

SchemaDocument::Choices SchemaDocument::product(const Choices& a, const Choices& b,
                                                const Json& schema) const {
  const std::size_t limit = budget_.limits().max_alternatives;
  if (a.size() * b.size() > limit) {
    fail_at(schema, "",
            fmt::format("more than {} alternatives, multiplied out (max_alternatives)", limit));
  }
  Choices result;
  for (const Choice& left : a) {
    for (const Choice& right : b) {
      budget_.spend(left.schemas.size() + right.schemas.size() + right.excluded.size() + 1);
      Choice both = left;
      for (const Json* part : right.schemas) insert(both.schemas, part);
      for (const Json* part : right.excluded) insert(both.excluded, part);
      result.push_back(std::move(both));
    }
  }
  return result;
}

const Json& SchemaDocument::resolve(const Json& schema) const {
  const Json& reference = schema.at("$ref");
  if (!reference.is_string()) fail_at(schema, "$ref", "must be a string");
  const auto& text = reference.get_ref<const std::string&>();
  const auto pointer = pointer_of_reference(text);
  if (!pointer) {
    fail_at(schema, "$ref",
            "'" + text + "' leads out of this schema; only \"#...\" can be followed");
  }
  try {
    return root_.at(Json::json_pointer(*pointer));
  } catch (const Json::exception&) {
    fail_at(schema, "$ref", "'" + text + "' leads to no schema");
  }
}

std::vector<Shape> SchemaDocument::expand(const SchemaSet& set) {
  Choices all(1);
  for (const Json* schema : set) all = product(all, choices(*schema), *schema);
  std::vector<Shape> shapes;
  for (const Choice& choice : all) {
    Shape shape = merge(choice);
    if (shape.types != 0 && (!shape.values || !shape.values->empty())) {
      shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

Shape SchemaDocument::merge(const Choice& choice) const {
  Shape shape;
  shape.schemas = choice.schemas;
  shape.excluded = choice.excluded;
  Types spoken = 0;
  for (const Json* schema : choice.schemas) {
    merge_schema(shape, *schema);
    for (const auto& item : schema->items()) {
      if (const Keyword* keyword = find_keyword(item.key())) spoken |= keyword->types;
    }
  }
  if (spoken != 0 && !shape.values) shape.implied = spoken;
  return shape;
}

void SchemaDocument::merge_schema(Shape& shape, const Json& schema) const {
  merge_types(shape, schema);
  merge_values(shape, schema);
  merge_counts(shape.characters, schema, "minLength", "maxLength");
  merge_counts(shape.items, schema, "minItems", "maxItems");
  merge_counts(shape.properties, schema, "minProperties", "maxProperties");
  merge_bounds(shape, schema);
  const auto text = [&](const char* name, std::vector<const std::string*>& list) {
    const auto found = schema.find(name);
    if (found == schema.end()) return;
    if (!found->is_string()) fail_at(schema, name, "must be a string");
    list.push_back(&found->get_ref<const std::string&>());
  };
  text("pattern", shape.patterns);
  text("format", shape.formats);
  if (const auto found = schema.find("required"); found != schema.end()) {
    if (!found->is_array()) fail_at(schema, "required", "must be an array of names");
    for (const Json& name : *found) {
      if (!name.is_string()) fail_at(schema, "required", "must be an array of names");
      const auto& key = name.get_ref<const std::string&>();
      budget_.spend(shape.required.size());
      if (std::find(shape.required.begin(), shape.required.end(), key) == shape.required.end()) {
        shape.required.push_back(key);
      }
    }
  }
}

void SchemaDocument::merge_types(Shape& shape, const Json& schema) const {
  const auto found = schema.find("type");
  if (found == schema.end()) return;
  constexpr std::array<std::pair<std::string_view, Types>, 7> kNames = {{{"null", kNull},
                                                                         {"boolean", kBoolean},
                                                                         {"number", kNumber},
                                                                         {"integer", kNumber},
                                                                         {"string", kString},
                                                                         {"array", kArray},
                                                                         {"object", kObject}}};
  Types types = 0;
  bool number = false;
  bool integer = false;
  const auto add = [&](const Json& name) {
    const auto* entry =
        name.is_string() ? std::find_if(kNames.begin(), kNames.end(),
                                        [&](const auto& each) {
                                          return each.first == name.get_ref<const std::string&>();
                                        })
                         : kNames.end();
    if (entry == kNames.end()) {
      fail_at(schema, "type",
              "must be null, boolean, number, integer, string, array or object, or an array of "
              "these");
    }
    types |= entry->second;
    number = number || entry->first == "number";
    integer = integer || entry->first == "integer";
  };
  if (found->is_array()) {
    for (const Json& name : *found) add(name);
  } else {
    add(*found);
  }
  shape.types &= types;
  shape.typed = true;
  shape.integer = shape.integer || (integer && !number);
}

void SchemaDocument::merge_values(Shape& shape, const Json& schema) const {
  const auto keep = [&](const std::vector<const Json*>& values) {
    if (!shape.values) {
      shape.values = values;
      return;
    }
    std::erase_if(*shape.values, [&](const Json* value) {
      budget_.spend(values.size());
      return std::none_of(values.begin(), values.end(),
                          [&](const Json* other) { return *other == *value; });
    });
  };
  if (const auto found = schema.find("enum"); found != schema.end()) {
    if (!found->is_array()) fail_at(schema, "enum", "must be an array of values");
    std::vector<const Json*> values;
    for (const Json& value : *found) values.push_back(&value);
    keep(values);
  }
  if (const auto found = schema.find("const"); found != schema.end()) keep({&*found});
}

void SchemaDocument::merge_counts(CountRange& range, const Json& schema, const char* min,
                                  const char* max) const {
  const auto read = [&](const char* name) -> std::optional<std::uint32_t> {
    const auto found = schema.find(name);
    if (found == schema.end()) return std::nullopt;
    const double value = found->is_number() ? found->get<double>() : -1;
    if (!(value >= 0) ||
        value != static_cast<double>(static_cast<std::uint64_t>(std::min(value, 1e18)))) {
      fail_at(schema, name, "must be a whole number, 0 or more");
    }
    return static_cast<std::uint32_t>(std::min<double>(value, kMany));
  };
  if (const auto value = read(min)) range.min = std::max(range.min, *value);
  if (const auto value = read(max)) range.max = std::min(range.max, *value);
}

void SchemaDocument::merge_bounds(Shape& shape, const Json& schema) const {
  const auto bound = [&](const char* name, std::optional<NumberBound>& into, int sign,
                         bool exclusive) {
    const auto found = schema.find(name);
    if (found == schema.end()) return;
    if (!found->is_number()) fail_at(schema, name, "must be a number");
    tighten(into, {*found, exclusive}, sign);
  };
  bound("minimum", shape.lower, 1, false);
  bound("exclusiveMinimum", shape.lower, 1, true);
  bound("maximum", shape.upper, -1, false);
  bound("exclusiveMaximum", shape.upper, -1, true);
  if (const auto found = schema.find("multipleOf"); found != schema.end()) {
    if (!found->is_number() || !(found->get<double>() > 0)) {
      fail_at(schema, "multipleOf", "must be a number above 0");
    }
    shape.multiples.push_back(&*found);
  }
}

}  // namespace strata::text::schema
