// The strings of JSON: patterns, formats and lengths as automata over the text between the quotes.
//
// These automata know one way to write a character: as it is, or, where JSON does not allow that,
// with the shortest escape. So equal strings are equal texts, and languages can be intersected.
#pragma once

#include "src/text/grammar_automaton.hpp"
#include "src/text/grammar_utf8.hpp"
#include "src/text/json_schema_shape.hpp"

#include <map>
#include <string>
#include <string_view>

namespace strata::text::schema {

// Edges for one character of `set` inside a string, in its one way.
void add_string_characters(grammar::Nfa& nfa, grammar::State from, const grammar::CharSet& set,
                           grammar::State to);
// Edges for any character, in all its ways.
void add_any_character(grammar::Nfa& nfa, grammar::State from, grammar::State to);

// As it stands in JSON, in its one way, without quotes. Error(kUsage) for bytes that are not UTF-8.
[[nodiscard]] std::string escaped_string(const std::string& text);

// The regular expression's language: ECMA-262 without look-around, back references, \b and \p, as
// JSON Schema uses them: it may match anywhere unless it says ^ and $. Error(kUsage) with the
// reason.
[[nodiscard]] grammar::Dfa pattern_language(std::string_view pattern, grammar::Budget& budget);
// Of texts outside of strings: numbers. The pattern is ours, and matches all of the text.
[[nodiscard]] grammar::Dfa whole_text_language(std::string_view pattern, grammar::Budget& budget);

// A pattern for what `format` stands for, or for the part of it that we write; empty: unknown.
[[nodiscard]] std::string format_pattern(std::string_view format);
[[nodiscard]] std::string known_formats();

// Finds and keeps the languages of a document's strings.
class StringLanguages {
 public:
  explicit StringLanguages(SchemaDocument& document) : document_(document) {}

  // Whether `shape` asks for more of its strings than a length.
  [[nodiscard]] static bool is_special(const Shape& shape) {
    return shape.values || !shape.patterns.empty() || !shape.formats.empty();
  }
  // All strings of the shape, its excluded schemas aside.
  [[nodiscard]] grammar::Dfa of(const Shape& shape);
  // Those of any shape of the set.
  [[nodiscard]] grammar::Dfa of(const SchemaSet& set);
  // Those in which `pattern` matches. `schema` has it, under `keyword`, for errors.
  [[nodiscard]] const grammar::Dfa& of_pattern(const std::string& pattern, const Json& schema,
                                               std::string_view keyword);
  [[nodiscard]] bool holds(const std::string& text, const Shape& shape);

 private:
  [[nodiscard]] const grammar::Dfa& of_pattern(const std::string& pattern, const Shape& shape);
  [[nodiscard]] const grammar::Dfa& of_format(const std::string& format, const Shape& shape);
  [[nodiscard]] grammar::Dfa of_length(const CountRange& characters);

  SchemaDocument& document_;
  std::map<std::string, grammar::Dfa> patterns_, formats_;
};

}  // namespace strata::text::schema
