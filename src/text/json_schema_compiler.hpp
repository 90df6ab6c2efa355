// Writes the rules of a grammar for a JSON schema.
#pragma once

#include "src/text/grammar_rules.hpp"
#include "src/text/json_schema_relations.hpp"
#include "src/text/json_schema_shape.hpp"
#include "src/text/json_schema_strings.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace strata::text::schema {

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& schema, grammar::Budget& budget);
  // Error(kUsage) as compile_json_schema says.
  [[nodiscard]] std::shared_ptr<const Grammar> compile();

 private:
  using State = grammar::State;
  using RuleId = grammar::RuleId;
  using Nfa = grammar::Nfa;

  // Properties that are not named: what their names may be, and their values.
  struct Unlisted {
    std::optional<grammar::Dfa> keys;  // none: any name, however it is written
    SchemaSet values;
  };

  [[nodiscard]] RuleId rule_for(SchemaSet set);
  void write_value(Nfa& nfa, State from, const SchemaSet& set, State to);
  void write_alternatives(Nfa& nfa, State from, const SchemaSet& set, State to);
  void check_excluded(const Shape& shape);
  void write_shape(Nfa& nfa, State from, const Shape& shape, State to);
  void write_string(Nfa& nfa, State from, const Shape& shape, State to);
  void write_array(Nfa& nfa, State from, const Shape& shape, State to);
  void write_object(Nfa& nfa, State from, const Shape& shape, State to);
  [[nodiscard]] std::vector<Unlisted> unlisted(const Shape& shape,
                                               const std::vector<std::string>& listed);
  // `"key": ` from here; returns where the value begins.
  [[nodiscard]] State write_key(Nfa& nfa, State from, const std::string& key);
  [[nodiscard]] State write_key(Nfa& nfa, State from, const Unlisted& property);
  [[nodiscard]] State write_colon(Nfa& nfa, State from);
  [[nodiscard]] State write_space(Nfa& nfa, State from);
  [[nodiscard]] State write_comma(Nfa& nfa, State from);
  // `,` and an item, min to max times.
  [[nodiscard]] State write_more_items(Nfa& nfa, State from, const SchemaSet& item,
                                       std::uint32_t min, std::uint32_t max);

  const Json& root_;
  SchemaDocument document_;
  StringLanguages strings_;
  Relations relations_;
  grammar::RuleSet rules_;
  RuleId space_;
  std::map<SchemaSet, RuleId> known_;
  std::vector<std::pair<SchemaSet, RuleId>> open_;  // whose rules are still to be written
  std::map<std::pair<std::uint32_t, std::uint32_t>, RuleId> counted_characters_;
};

}  // namespace strata::text::schema
