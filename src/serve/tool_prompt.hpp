// Tools for models whose chat template knows none: told in the system message, in the form that
// Hermes made common and many models have been trained on.
#pragma once

#include "src/serve/fields.hpp"

namespace strata::serve {

// The messages with the tools in the system message, calls as <tool_call> elements in the
// assistant's texts and results as <tool_response> elements in the user's.
[[nodiscard]] Json with_tools_as_text(const Json& messages, const Json& tools);

}  // namespace strata::serve
