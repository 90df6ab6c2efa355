// JSON schemas as grammars: every text the grammar accepts is valid JSON that satisfies the schema.
//
// The reverse need not hold: of the texts that satisfy it the grammar leaves out unusual ones, such
// as properties in another order than the schema lists them. docs/grammars.md has the list, and the
// keywords of JSON Schema 2020-12 (https://json-schema.org/draft/2020-12) that are enforced.
#pragma once

#include "strata/text/grammar.hpp"

#include <memory>
#include <nlohmann/json.hpp>

namespace strata::text {

// Error(kUsage) that names the keyword and its JSON pointer: one that cannot be enforced, is
// unknown or has a malformed value; also a schema that nothing satisfies, and a crossed bound.
[[nodiscard]] std::shared_ptr<const Grammar> compile_json_schema(
    const nlohmann::ordered_json& schema, const GrammarLimits& limits = {});

// Any JSON object ("response_format": {"type": "json_object"}).
[[nodiscard]] std::shared_ptr<const Grammar> json_object_grammar();

}  // namespace strata::text
