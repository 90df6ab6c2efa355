// Grammars that say which texts a model may write. Three ways lead to one: GBNF text (here), a JSON
// schema (strata/text/json_schema.hpp), and "any JSON object" (there too). A GrammarMatcher
// (strata/text/grammar_matcher.hpp) then says token by token what may come next.
//
// docs/grammars.md describes the languages and how they are matched.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace strata::text {

// Bounds on what a grammar may cost. Crossing one is an Error of kind kUsage that names the bound.
struct GrammarLimits {
  // Of GBNF text, or of a schema's texts with 8 bytes more for each of its values.
  std::size_t max_source_bytes = std::size_t{1} << 20;
  std::size_t max_nesting = 100;            // groups, patterns or schemas inside one another
  std::size_t max_alternatives = 1000;      // of one schema, with anyOf and allOf multiplied out
  std::size_t max_steps = 20'000'000;       // compiling: states and edges made or visited
  std::size_t max_states = 300'000;         // of the compiled automata, all together
  std::size_t max_depth = 2000;             // matching: rules inside one another in the text
  std::size_t max_parses = 1000;            // matching: readings of the text followed side by side
  std::size_t max_mask_steps = 50'000'000;  // matching: work to find the tokens of one position
};

// A compiled grammar: immutable, safe to share between threads.
struct Grammar;

// Compiles llama.cpp's GBNF; the rule "root" is the whole text. Error(kUsage) with the line and the
// reason for a text that is no grammar, a rule that is missing or begins with itself, a grammar no
// text can satisfy, and a crossed bound.
[[nodiscard]] std::shared_ptr<const Grammar> compile_gbnf(std::string_view source,
                                                          const GrammarLimits& limits = {});

}  // namespace strata::text
