#include "src/app/version.hpp"

#include "strata_commit.hpp"

namespace strata::app {

std::string_view version() noexcept { return STRATA_VERSION; }
std::string_view commit() noexcept { return STRATA_COMMIT; }

}  // namespace strata::app
