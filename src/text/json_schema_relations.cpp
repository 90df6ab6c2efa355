#include "src/text/json_schema_relations.hpp"

#include "src/text/json_schema_numbers.hpp"

#include <algorithm>

namespace strata::text::schema {
namespace {

constexpr int kDepth = 6;  // values inside values that are looked into to tell shapes apart

const Json* find(const Json& schema, const char* keyword) {
  const auto found = schema.find(keyword);
  return found == schema.end() ? nullptr : &*found;
}

// The schemas of the first items: "prefixItems", or "items" as an array as of old.
const Json* prefix_of(const SchemaDocument& document, const Json& schema) {
  if (const Json* prefix = find_array(document, schema, "prefixItems")) return prefix;
  const Json* items = find(schema, "items");
  return items != nullptr && items->is_array() ? items : nullptr;
}

// The schema of the items behind them.
const Json* rest_of(const Json& schema) {
  const Json* items = find(schema, "items");
  return items != nullptr && items->is_array() ? find(schema, "additionalItems") : items;
}

bool overlap(const CountRange& a, const CountRange& b) {
  return (a.max == kMany || b.min <= a.max) && (b.max == kMany || a.min <= b.max);
}

}  // namespace

const Json* find_array(const SchemaDocument& document, const Json& schema, const char* keyword) {
  const Json* part = find(schema, keyword);
  if (part != nullptr && !part->is_array()) {
    document.fail_at(schema, keyword, "must be an array of schemas");
  }
  return part;
}

const Json* find_object(const SchemaDocument& document, const Json& schema, const char* keyword) {
  const Json* part = find(schema, keyword);
  if (part != nullptr && !part->is_object()) {
    document.fail_at(schema, keyword, "must be an object whose values are schemas");
  }
  return part;
}

SchemaSet Relations::property(const Shape& shape, const std::string& key) {
  SchemaSet set;
  for (const Json* schema : shape.schemas) {
    bool known = false;
    const auto take = [&](const Json& part) {
      insert(set, &part);
      known = true;
    };
    if (const Json* properties = find_object(document_, *schema, "properties")) {
      const auto found = properties->find(key);
      if (found != properties->end()) take(*found);
    }
    if (const Json* patterns = find_object(document_, *schema, "patternProperties")) {
      for (const auto& item : patterns->items()) {
        const auto& language = strings_.of_pattern(item.key(), *schema, "patternProperties");
        if (language.accepts(escaped_string(key))) take(item.value());
      }
    }
    const Json* others = find(*schema, "additionalProperties");
    if (!known && others != nullptr) take(*others);
  }
  return set;
}

SchemaSet Relations::item(const Shape& shape, std::size_t index) const {
  SchemaSet set;
  for (const Json* schema : shape.schemas) {
    const Json* prefix = prefix_of(document_, *schema);
    if (prefix != nullptr && index < prefix->size()) {
      insert(set, &(*prefix)[index]);
    } else if (const Json* rest = rest_of(*schema)) {
      insert(set, rest);
    }
  }
  return set;
}

std::size_t Relations::prefix_size(const Shape& shape) const {
  std::size_t size = 0;
  for (const Json* schema : shape.schemas) {
    if (const Json* prefix = prefix_of(document_, *schema)) size = std::max(size, prefix->size());
  }
  return size;
}

std::vector<std::string> Relations::listed(const Shape& shape) const {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& key) {
    document_.budget().spend(keys.size() / 8 + 1);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  };
  for (const Json* schema : shape.schemas) {
    if (const Json* properties = find_object(document_, *schema, "properties")) {
      for (const auto& item : properties->items()) add(item.key());
    }
  }
  for (const std::string& key : shape.required) add(key);
  return keys;
}

bool Relations::writes_unlisted(const Shape& shape) const {
  bool speaks = false;
  for (const Json* schema : shape.schemas) {
    speaks = speaks || find(*schema, "additionalProperties") != nullptr ||
             find(*schema, "patternProperties") != nullptr;
  }
  return speaks || listed(shape).empty();
}

bool Relations::writes_more_items(const Shape& shape) const {
  return prefix_size(shape) == 0 || shape.items.min > prefix_size(shape) ||
         std::any_of(shape.schemas.begin(), shape.schemas.end(),
                     [](const Json* schema) { return rest_of(*schema) != nullptr; });
}

bool Relations::may_be_named(const Shape& shape, const std::string& key) {
  return std::all_of(shape.schemas.begin(), shape.schemas.end(), [&](const Json* schema) {
    const Json* names = find(*schema, "propertyNames");
    return names == nullptr || holds(Json(key), SchemaSet{names});
  });
}

bool Relations::holds(const Json& value, const SchemaSet& set) {
  const std::vector<Shape> shapes = document_.expand(set);
  return std::any_of(shapes.begin(), shapes.end(),
                     [&](const Shape& shape) { return holds(value, shape); });
}

bool Relations::holds(const Json& value, const Shape& shape) {
  document_.budget().spend(10);
  if ((type_of(value) & shape.types) == 0) return false;
  if (shape.values && std::none_of(shape.values->begin(), shape.values->end(),
                                   [&](const Json* each) { return *each == value; })) {
    return false;
  }
  bool holds_itself = true;
  if (value.is_number()) holds_itself = number_holds(value, shape);
  if (value.is_string()) {
    holds_itself = strings_.holds(value.get_ref<const std::string&>(), shape);
  }
  if (value.is_array()) holds_itself = array_holds(value, shape);
  if (value.is_object()) holds_itself = object_holds(value, shape);
  return holds_itself &&
         std::none_of(shape.excluded.begin(), shape.excluded.end(),
                      [&](const Json* schema) { return holds(value, SchemaSet{schema}); });
}

bool Relations::array_holds(const Json& value, const Shape& shape) {
  if (!shape.items.contains(value.size())) return false;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (!holds(value[i], item(shape, i))) return false;
  }
  return true;
}

bool Relations::object_holds(const Json& value, const Shape& shape) {
  if (!shape.properties.contains(value.size())) return false;
  for (const std::string& key : shape.required) {
    if (!value.contains(key)) return false;
  }
  for (const auto& member : value.items()) {
    if (!may_be_named(shape, member.key()) ||
        !holds(member.value(), property(shape, member.key()))) {
      return false;
    }
  }
  return true;
}

bool Relations::apart(const SchemaSet& a, const SchemaSet& b, int depth) {
  const std::vector<Shape> ones = document_.expand(a);
  const std::vector<Shape> others = document_.expand(b);
  return std::all_of(ones.begin(), ones.end(), [&](const Shape& one) {
    return std::all_of(others.begin(), others.end(),
                       [&](const Shape& other) { return apart(one, other, depth); });
  });
}

bool Relations::apart(const Shape& a, const Shape& b, int depth) {
  document_.budget().spend(10);
  const auto none_holds = [&](const std::vector<const Json*>& values, const Shape& shape,
                              const Shape& own) {
    return std::none_of(values.begin(), values.end(), [&](const Json* value) {
      return holds(*value, own) && holds(*value, shape);
    });
  };
  if (a.values) return none_holds(*a.values, b, a);
  if (b.values) return none_holds(*b.values, a, b);
  const Types common = a.written_types() & b.types;
  if ((common & (kNull | kBoolean)) != 0 || depth > kDepth) return common == 0;
  return ((common & kNumber) == 0 || numbers_apart(a, b)) &&
         ((common & kString) == 0 || strings_apart(a, b)) &&
         ((common & kArray) == 0 || arrays_apart(a, b, depth + 1)) &&
         ((common & kObject) == 0 || objects_apart(a, b, depth + 1));
}

bool Relations::strings_apart(const Shape& a, const Shape& b) {
  if (!overlap(a.characters, b.characters)) return true;
  if (!StringLanguages::is_special(a) || !StringLanguages::is_special(b)) return false;
  return intersect(strings_.of(a), strings_.of(b), document_.budget()).accepts_nothing();
}

// An item that one of them must have, and that is not the same in both.
bool Relations::arrays_apart(const Shape& a, const Shape& b, int depth) {
  if (!overlap(a.items, b.items)) return true;
  constexpr std::uint32_t kLookedAt = 16;
  const std::uint32_t count = std::min(std::max(a.items.min, b.items.min), kLookedAt);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (apart(item(a, i), item(b, i), depth)) return true;
  }
  return false;
}

// A property that one of them must have, and that is not the same in both, or not written for `a`.
bool Relations::objects_apart(const Shape& a, const Shape& b, int depth) {
  if (!overlap(a.properties, b.properties)) return true;
  const std::vector<std::string> listed_by_a = listed(a);
  const bool open = writes_unlisted(a);
  const auto decides = [&](const std::string& key) {
    const bool written =
        open || std::find(listed_by_a.begin(), listed_by_a.end(), key) != listed_by_a.end();
    return !written || apart(property(a, key), property(b, key), depth);
  };
  return std::any_of(b.required.begin(), b.required.end(), decides) ||
         std::any_of(a.required.begin(), a.required.end(), decides);
}

}  // namespace strata::text::schema
