#include "src/text/json_schema_compiler.hpp"

#include "src/text/json_schema_numbers.hpp"
#include "strata/base/error.hpp"
#include "strata/text/json_schema.hpp"

#include <algorithm>

namespace strata::text {
namespace schema {
namespace {

// Of a line's indentation.
constexpr int kMostSpaces = 64;
constexpr int kMostTabs = 16;

bool says_nothing(const Json& schema) {
  return schema.is_boolean() ? schema.get<bool>() : schema.is_object() && schema.empty();
}

// A space, or a line break and the next line's indentation.
void draft_space(grammar::RuleDraft& rule) {
  const auto indent = [&](grammar::State at, char c, int most) {
    for (int i = 0; i < most; ++i) {
      rule.nfa.empty(at, rule.accept);
      at = rule.nfa.literal(at, std::string_view(&c, 1));
    }
    rule.nfa.empty(at, rule.accept);
  };
  rule.nfa.empty(rule.nfa.literal(rule.start, " "), rule.accept);
  const grammar::State line = rule.nfa.literal(rule.start, "\n");
  indent(line, ' ', kMostSpaces);
  indent(line, '\t', kMostTabs);
}

// What models put in front of an answer: nothing, a space, or up to two line breaks.
grammar::State write_lead(grammar::Nfa& nfa, grammar::State from) {
  const grammar::State to = nfa.add();
  nfa.empty(from, to);
  nfa.empty(nfa.literal(from, " "), to);
  const grammar::State line = nfa.literal(from, "\n");
  nfa.empty(line, to);
  nfa.empty(nfa.literal(line, "\n"), to);
  return to;
}

}  // namespace

SchemaCompiler::SchemaCompiler(const Json& schema, grammar::Budget& budget)
    : root_(schema),
      document_(schema, budget),
      strings_(document_),
      relations_(document_, strings_),
      rules_(budget),
      space_(rules_.add("space")) {}

std::shared_ptr<const Grammar> SchemaCompiler::compile() {
  draft_space(rules_[space_]);
  // Nothing may be left out between parts: who needs no space goes past it.
  rules_[space_].nfa.empty(rules_[space_].start, rules_[space_].accept);
  const RuleId text = rules_.add("text");
  Nfa& nfa = rules_[text].nfa;
  nfa.call(write_lead(nfa, rules_[text].start), rule_for({&root_}), rules_[text].accept);
  while (!open_.empty()) {
    const auto [set, id] = std::move(open_.back());
    open_.pop_back();
    grammar::RuleDraft& rule = rules_[id];
    write_alternatives(rule.nfa, rule.start, set, rule.accept);
  }
  auto linked = link(rules_, text);
  if (linked == nullptr) fail(ErrorKind::kUsage, "schema: no value satisfies it");
  return linked;
}

grammar::RuleId SchemaCompiler::rule_for(SchemaSet set) {
  std::erase_if(set, [](const Json* schema) { return says_nothing(*schema); });
  const auto known = known_.find(set);
  if (known != known_.end()) return known->second;
  const RuleId id = rules_.add("value");
  known_.emplace(set, id);
  open_.emplace_back(std::move(set), id);
  return id;
}

void SchemaCompiler::write_value(Nfa& nfa, State from, const SchemaSet& set, State to) {
  const bool literal = set.size() == 1 && set[0]->is_object() &&
                       (set[0]->contains("const") || set[0]->contains("enum"));
  if (literal) {  // on the spot: the alternatives of a oneOf often differ in nothing else
    write_alternatives(nfa, from, set, to);
  } else {
    nfa.call(from, rule_for(set), to);
  }
}

void SchemaCompiler::write_alternatives(Nfa& nfa, State from, const SchemaSet& set, State to) {
  for (const Shape& shape : document_.expand(set)) {
    if (!shape.values) {
      check_excluded(shape);
      write_shape(nfa, from, shape, to);
      continue;
    }
    for (const Json* value : *shape.values) {
      if (relations_.holds(*value, shape)) nfa.empty(nfa.literal(from, value->dump()), to);
    }
  }
}

void SchemaCompiler::check_excluded(const Shape& shape) {
  for (const Json* schema : shape.excluded) {
    for (const Shape& other : document_.expand({schema})) {
      if (relations_.apart(shape, other)) continue;
      document_.fail_at(*schema, "",
                        "a value may satisfy this and another alternative, so \"oneOf\" or \"not\" "
                        "cannot be enforced; if that does not matter, use \"anyOf\"");
    }
  }
}

void SchemaCompiler::write_shape(Nfa& nfa, State from, const Shape& shape, State to) {
  const Types types = shape.written_types();
  if ((types & kNull) != 0) nfa.empty(nfa.literal(from, "null"), to);
  if ((types & kBoolean) != 0) {
    nfa.empty(nfa.literal(from, "true"), to);
    nfa.empty(nfa.literal(from, "false"), to);
  }
  if ((types & kNumber) != 0) nfa.embed(from, number_language(shape, document_), to);
  if ((types & kString) != 0) write_string(nfa, from, shape, to);
  if ((types & kArray) != 0) write_array(nfa, from, shape, to);
  if ((types & kObject) != 0) write_object(nfa, from, shape, to);
}

void SchemaCompiler::write_string(Nfa& nfa, State from, const Shape& shape, State to) {
  const State begin = nfa.literal(from, "\"");
  State end = nfa.add();
  if (StringLanguages::is_special(shape)) {
    nfa.embed(begin, strings_.of(shape), end);
  } else if (shape.characters.min == 0 && shape.characters.max == kMany) {
    nfa.empty(begin, end);
    add_any_character(nfa, end, end);
  } else if (shape.characters.min > shape.characters.max) {
    return;
  } else {
    const auto range = std::make_pair(shape.characters.min, shape.characters.max);
    auto counted = counted_characters_.find(range);
    if (counted == counted_characters_.end()) {
      const RuleId id = rules_.add_counted(
          "characters", range.first, range.second == kMany ? Grammar::kEndless : range.second);
      add_any_character(rules_[id].nfa, rules_[id].start, rules_[id].accept);
      counted = counted_characters_.emplace(range, id).first;
    }
    nfa.call(begin, counted->second, end);
  }
  nfa.bytes(end, '"', '"', to);
}

void SchemaCompiler::write_array(Nfa& nfa, State from, const Shape& shape, State to) {
  const std::uint32_t min = shape.items.min;
  const std::uint32_t max = shape.items.max;
  for (const Json* schema : shape.schemas) {
    const auto unique = schema->find("uniqueItems");
    if (unique != schema->end() && *unique != false && max > 1) {
      document_.fail_at(*schema, "uniqueItems", "keyword 'uniqueItems' cannot be enforced");
    }
  }
  if (min > max) return;  // nothing satisfies the shape
  const auto close = [&](State at) { nfa.bytes(write_space(nfa, at), ']', ']', to); };
  State at = write_space(nfa, nfa.literal(from, "["));
  if (min == 0) nfa.bytes(at, ']', ']', to);
  const auto prefix = static_cast<std::uint32_t>(relations_.prefix_size(shape));
  std::uint32_t count = 0;
  for (; count < prefix && count < max; ++count) {
    if (count > 0) at = write_comma(nfa, at);
    const State next = nfa.add();
    write_value(nfa, at, relations_.item(shape, count), next);
    at = next;
    if (count + 1 >= min) close(at);
  }
  if (count >= max || !relations_.writes_more_items(shape)) return;
  const SchemaSet rest = relations_.item(shape, count);
  if (count > 0) at = write_comma(nfa, at);
  const State first = nfa.add();
  write_value(nfa, at, rest, first);
  ++count;
  close(write_more_items(nfa, first, rest, min - std::min(min, count),
                         max == kMany ? Grammar::kEndless : max - count));
}

grammar::State SchemaCompiler::write_more_items(Nfa& nfa, State from, const SchemaSet& item,
                                                std::uint32_t min, std::uint32_t max) {
  const State to = nfa.add();
  if (min == 0 && max == Grammar::kEndless) {
    nfa.empty(from, to);
    write_value(nfa, write_comma(nfa, to), item, to);
    return to;
  }
  const RuleId id = rules_.add_counted("items", min, max);
  grammar::RuleDraft& rule = rules_[id];
  write_value(rule.nfa, write_comma(rule.nfa, rule.start), item, rule.accept);
  nfa.call(from, id, to);
  return to;
}

grammar::State SchemaCompiler::write_space(Nfa& nfa, State from) {
  const State to = nfa.add();
  nfa.call(from, space_, to);
  return to;
}

grammar::State SchemaCompiler::write_comma(Nfa& nfa, State from) {
  return write_space(nfa, nfa.literal(from, ","));
}

}  // namespace schema

std::shared_ptr<const Grammar> compile_json_schema(const nlohmann::ordered_json& schema,
                                                   const GrammarLimits& limits) {
  grammar::Budget budget(limits);
  try {
    return schema::SchemaCompiler(schema, budget).compile();
  } catch (const nlohmann::ordered_json::exception& error) {  // such as text that is not UTF-8
    fail(ErrorKind::kUsage, "schema: {}", error.what());
  }
}

std::shared_ptr<const Grammar> json_object_grammar() {
  return compile_json_schema({{"type", "object"}});
}

}  // namespace strata::text
