// Who may ask: the checks before a request is looked at.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::serve {

struct AccessRules {
  std::string api_key{};                     // empty: none is asked for
  std::vector<std::string> allowed_hosts{};  // names, besides localhost and plain addresses
  std::vector<std::string> cors_origins{};   // "https://example.org", or "*"
};

// What a browser or a client says about itself; empty where a header is missing.
struct AccessHeaders {
  std::string_view host{}, origin{}, authorization{}, x_api_key{};
};

struct Denial {
  int status;
  std::string text;
};

// A web page can make a browser send requests to this machine. With a name of its own that it has
// resolve to our address (DNS rebinding) it could even read the replies: so the host must be an
// address, localhost, or a name that was allowed. And a request that a foreign page sends carries
// its Origin: so that must be ours, or one that was allowed.
[[nodiscard]] std::optional<Denial> check_access(const AccessRules& rules,
                                                 const AccessHeaders& headers, bool needs_key);

// The value of Access-Control-Allow-Origin for this origin; empty: none.
[[nodiscard]] std::string allowed_origin(const AccessRules& rules, std::string_view origin);

// Whether only this machine can reach a server that listens there.
[[nodiscard]] bool is_loopback(std::string_view host);

}  // namespace strata::serve
