// The rules of objects. Properties come in the order of the schema, those it does not name last.
#include "src/text/json_schema_compiler.hpp"

#include <algorithm>

namespace strata::text::schema {
namespace {

using grammar::Budget;
using grammar::Dfa;
using grammar::Nfa;
using grammar::State;

bool says_false(const SchemaSet& set) {
  return std::any_of(set.begin(), set.end(), [](const Json* schema) {
    return schema->is_boolean() && !schema->get<bool>();
  });
}

// A state for each (place in the list of properties, number of those written), where needed.
class Grid {
 public:
  explicit Grid(Nfa& nfa) : nfa_(nfa) {}
  [[nodiscard]] State at(std::size_t place, std::uint32_t count) {
    const auto [entry, added] = states_.try_emplace({place, count}, 0);
    if (added) entry->second = nfa_.add();
    return entry->second;
  }
  [[nodiscard]] bool has(std::size_t place, std::uint32_t count) const {
    return states_.contains({place, count});
  }

 private:
  Nfa& nfa_;
  std::map<std::pair<std::size_t, std::uint32_t>, State> states_;
};

}  // namespace

void SchemaCompiler::write_object(Nfa& nfa, State from, const Shape& shape, State to) {
  struct Property {
    std::string key;
    SchemaSet values;
    bool required;
  };
  const std::vector<std::string> listed = relations_.listed(shape);
  std::vector<Property> properties;
  for (const std::string& key : listed) {
    Property property = {
        key, relations_.property(shape, key),
        std::find(shape.required.begin(), shape.required.end(), key) != shape.required.end()};
    if (!says_false(property.values) && relations_.may_be_named(shape, key)) {
      properties.push_back(std::move(property));
    } else if (property.required) {
      return;  // nothing satisfies the shape
    }
  }
  const std::vector<Unlisted> others = unlisted(shape, listed);
  const std::size_t size = properties.size();
  const CountRange& range = shape.properties;
  // The same name may be written twice among those that are not listed: then there are fewer.
  if (!others.empty() && range.min > (range.max == kMany ? size + 1 : 1)) {
    document_.fail_at(shape.schemas, "minProperties",
                      "cannot be enforced for properties that the schema does not name");
  }
  std::size_t last_required = 0;  // behind the last one
  for (std::size_t i = 0; i < size; ++i) {
    if (properties[i].required) last_required = i + 1;
  }

  // Counts matter up to the largest allowed, or else up to the smallest.
  const auto more = [&](std::uint32_t count) {
    return range.max == kMany ? std::min(count + 1, range.min) : count + 1;
  };
  Grid before(nfa);  // one of the properties from this place on must come
  Grid after(nfa);   // a comma or the end must come
  const State begin = write_space(nfa, nfa.literal(from, "{"));
  if (last_required == 0 && range.min == 0) nfa.bytes(begin, '}', '}', to);
  nfa.empty(begin, before.at(0, 0));
  const std::size_t end = others.empty() ? size : size + 1;  // behind others there are only others
  for (std::size_t place = 0; place <= end; ++place) {
    const auto counted = [&](std::uint32_t count) {
      const std::uint32_t limit = range.max != kMany ? range.max : range.min;
      return count <= limit && (count <= place || after.has(place, count));
    };
    for (std::uint32_t count = 0; counted(count); ++count) {
      if (after.has(place, count)) {
        const State done = after.at(place, count);
        nfa.empty(write_comma(nfa, done), before.at(place, count));
        if (place >= last_required && count >= range.min) {
          nfa.bytes(write_space(nfa, done), '}', '}', to);
        }
      }
      if (!before.has(place, count)) continue;
      const State here = before.at(place, count);
      const bool full = range.max != kMany && count >= range.max;
      if (place < size) {
        const Property& property = properties[place];
        if (!full) {
          write_value(nfa, write_key(nfa, here, property.key), property.values,
                      after.at(place + 1, more(count)));
        }
        if (!property.required) nfa.empty(here, before.at(place + 1, count));
      } else if (!full) {
        // Without a largest count only the first of the others surely adds a name.
        const bool adds = place == size || range.max != kMany;
        const State next = after.at(size + 1, adds ? more(count) : count);
        for (const Unlisted& other : others) {
          write_value(nfa, write_key(nfa, here, other), other.values, next);
        }
      }
    }
  }
}

std::vector<SchemaCompiler::Unlisted> SchemaCompiler::unlisted(
    const Shape& shape, const std::vector<std::string>& listed) {
  if (!relations_.writes_unlisted(shape)) return {};
  struct Class : Unlisted {
    std::vector<const Json*> matched;  // the schemas of which a pattern matches
  };
  const auto uses = [&](const char* keyword) {
    return std::any_of(shape.schemas.begin(), shape.schemas.end(),
                       [&](const Json* schema) { return schema->contains(keyword); });
  };
  Budget& budget = document_.budget();
  std::vector<Class> classes(1);
  if (!listed.empty() || uses("patternProperties") || uses("propertyNames")) {
    Nfa names(budget);
    const State start = names.add();
    const State accept = names.add();
    for (const std::string& key : listed) {
      names.empty(names.literal(start, escaped_string(key)), accept);
    }
    classes[0].keys =
        subtract(strings_.of(Shape()), determinize(names, start, accept, budget), budget);
  }
  for (const Json* schema : shape.schemas) {
    const auto names = schema->find("propertyNames");
    if (names != schema->end()) {
      classes[0].keys = intersect(*classes[0].keys, strings_.of(SchemaSet{&*names}), budget);
    }
  }
  for (const Json* schema : shape.schemas) {
    const Json* patterns = find_object(document_, *schema, "patternProperties");
    if (patterns == nullptr) continue;
    for (const auto& item : patterns->items()) {
      const Dfa& pattern = strings_.of_pattern(item.key(), *schema, "patternProperties");
      std::vector<Class> parts;
      for (Class& each : classes) {
        Class inside = each;
        inside.keys = intersect(*each.keys, pattern, budget);
        insert(inside.values, &item.value());
        inside.matched.push_back(schema);
        each.keys = subtract(*each.keys, pattern, budget);
        for (Class* part : {&inside, &each}) {
          if (!part->keys->accepts_nothing()) parts.push_back(std::move(*part));
        }
      }
      classes = std::move(parts);
    }
  }
  std::vector<Unlisted> result;
  for (Class& each : classes) {
    bool spoken_of = !each.matched.empty() || (listed.empty() && !uses("patternProperties"));
    for (const Json* schema : shape.schemas) {
      const auto others = schema->find("additionalProperties");
      if (others == schema->end() ||
          std::find(each.matched.begin(), each.matched.end(), schema) != each.matched.end()) {
        continue;
      }
      insert(each.values, &*others);
      spoken_of = true;
    }
    if (spoken_of && !says_false(each.values)) result.push_back(std::move(each));
  }
  return result;
}

grammar::State SchemaCompiler::write_key(Nfa& nfa, State from, const std::string& key) {
  return write_colon(nfa, nfa.literal(from, "\"" + escaped_string(key)));
}

grammar::State SchemaCompiler::write_key(Nfa& nfa, State from, const Unlisted& property) {
  const State begin = nfa.literal(from, "\"");
  const State end = nfa.add();
  if (property.keys) {
    nfa.embed(begin, *property.keys, end);
  } else {
    nfa.empty(begin, end);
    add_any_character(nfa, end, end);
  }
  return write_colon(nfa, end);
}

grammar::State SchemaCompiler::write_colon(Nfa& nfa, State from) {
  const State end = nfa.literal(from, "\":");
  const State value = nfa.literal(end, " ");
  nfa.empty(end, value);
  return value;
}

}  // namespace strata::text::schema
