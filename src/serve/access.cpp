#include "src/serve/access.hpp"

#include "src/serve/ascii.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace strata::serve {
namespace {

// "[::1]:8080" -> "::1", "localhost:8080" -> "localhost"
std::string name_of(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return std::string(host.substr(1, end == std::string_view::npos ? end : end - 1));
  }
  return lower(host.substr(0, host.find(':')));
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> binary{};
  return ::inet_pton(AF_INET, name.c_str(), binary.data()) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), binary.data()) == 1;
}

bool host_is_allowed(const AccessRules& rules, std::string_view host) {
  const std::string name = name_of(host);
  return name == "localhost" || is_address(name) ||
         std::ranges::any_of(rules.allowed_hosts,
                             [&](const std::string& allowed) { return lower(allowed) == name; });
}

bool is_same_origin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return lower(origin.substr(scheme.size())) == lower(host);
  }
  return false;
}

// In a time that tells nothing about where they differ.
bool equal_keys(std::string_view a, std::string_view b) {
  unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ (b.empty() ? '\0' : b[i % b.size()]));
  }
  return difference == 0;
}

bool has_key(const AccessRules& rules, const AccessHeaders& headers) {
  constexpr std::string_view kBearer = "bearer ";
  std::string_view given = headers.x_api_key;
  if (lower(headers.authorization.substr(0, kBearer.size())) == kBearer) {
    given = headers.authorization.substr(kBearer.size());
  }
  return equal_keys(given, rules.api_key);
}

}  // namespace

std::string allowed_origin(const AccessRules& rules, std::string_view origin) {
  if (origin.empty()) return {};
  for (const std::string& allowed : rules.cors_origins) {
    if (allowed == "*" || lower(allowed) == lower(origin)) return std::string(origin);
  }
  return {};
}

std::optional<Denial> check_access(const AccessRules& rules, const AccessHeaders& headers,
                                   bool needs_key) {
  if (!headers.host.empty() && !host_is_allowed(rules, headers.host)) {
    return Denial{403, fmt::format("the host '{}' is not this server's; --allowed-host adds a name",
                                   name_of(headers.host))};
  }
  if (!headers.origin.empty() && !is_same_origin(headers.origin, headers.host) &&
      allowed_origin(rules, headers.origin).empty()) {
    return Denial{403, fmt::format("pages of '{}' may not use this server; --cors-origin lets them",
                                   headers.origin)};
  }
  if (needs_key && !rules.api_key.empty() && !has_key(rules, headers)) {
    return Denial{401, "no API key, or a wrong one: send 'Authorization: Bearer KEY'"};
  }
  return std::nullopt;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && is_address(std::string(host)));
}

}  // namespace strata::serve
