// Which Strata this is.
#pragma once

#include <string_view>

namespace strata::app {

[[nodiscard]] std::string_view version() noexcept;  // "0.1.0"
// `git describe` of the sources, "-dirty" added for uncommitted changes; "unknown" outside git.
[[nodiscard]] std::string_view commit() noexcept;

}  // namespace strata::app
