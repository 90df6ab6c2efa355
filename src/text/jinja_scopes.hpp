// jinja2's rule for names that are set after they could have been looked up.
//
// In jinja2 a block decides beforehand, for each name it mentions, where the name gets its value
// from when the block starts. A name that the block sets without having read it before starts
// undefined, even if the template was given a variable of that name; inner blocks and macros that
// run before the assignment see it undefined too:
//     {% macro who() %}{{ name }}{% endmacro %}{{ who() }}{% set name = 'x' %}     prints nothing
//     {{ name }}{% set name = 'x' %}                                              prints the
//     variable
#pragma once

#include "src/text/jinja_ast.hpp"

namespace strata::text::jinja {

// Fills in Body::unset everywhere in the program.
void find_unset_names(Program& program);

}  // namespace strata::text::jinja
