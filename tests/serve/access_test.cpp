// Who may ask: hosts, origins and keys.
#include "src/serve/access.hpp"

#include <gtest/gtest.h>

namespace strata::serve {
namespace {

int status_of(const AccessRules& rules, const AccessHeaders& headers, bool needs_key = true) {
  const std::optional<Denial> denial = check_access(rules, headers, needs_key);
  return denial ? denial->status : 200;
}

TEST(Access, AddressesAndLocalhostAreThisServer) {
  for (const char* host : {"localhost", "LocalHost:8080", "127.0.0.1:8080", "192.168.1.5",
                           "[::1]:80", "[fe80::1]", ""}) {
    EXPECT_EQ(status_of({}, {.host = host}), 200) << host;
  }
}

TEST(Access, AnotherNameIsNot) {
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example",
                           "127.0.0.1.evil.example", "[evil.example]", "127.0.0.1x"}) {
    EXPECT_EQ(status_of({}, {.host = host}), 403) << host;
  }
  const AccessRules rules{.allowed_hosts = {"Box.Lan"}};
  EXPECT_EQ(status_of(rules, {.host = "box.lan:8080"}), 200);
  EXPECT_EQ(status_of(rules, {.host = "box.lan.evil"}), 403);
}

TEST(Access, ForeignPagesAreRefused) {
  EXPECT_EQ(status_of({}, {.host = "127.0.0.1:8080", .origin = "http://127.0.0.1:8080"}), 200);
  EXPECT_EQ(status_of({}, {.host = "127.0.0.1:8080", .origin = "http://127.0.0.1:9090"}), 403);
  EXPECT_EQ(status_of({}, {.host = "127.0.0.1:8080", .origin = "https://evil.example"}), 403);
  EXPECT_EQ(status_of({}, {.host = "127.0.0.1:8080", .origin = "null"}), 403);
  const AccessRules rules{.cors_origins = {"https://app.example"}};
  EXPECT_EQ(status_of(rules, {.host = "localhost", .origin = "https://app.example"}), 200);
  EXPECT_EQ(status_of(rules, {.host = "localhost", .origin = "https://app.example.evil"}), 403);
  EXPECT_EQ(allowed_origin(rules, "https://app.example"), "https://app.example");
  EXPECT_EQ(allowed_origin(rules, "https://other.example"), "");
  EXPECT_EQ(allowed_origin({.cors_origins = {"*"}}, "https://any.example"), "https://any.example");
  EXPECT_EQ(allowed_origin({}, "https://any.example"), "");
}

TEST(Access, TheKeyMustBeThere) {
  const AccessRules rules{.api_key = "secret"};
  EXPECT_EQ(status_of(rules, {.host = "localhost"}), 401);
  EXPECT_EQ(status_of(rules, {.host = "localhost"}, false), 200);
  EXPECT_EQ(status_of(rules, {.authorization = "Bearer secret"}), 200);
  EXPECT_EQ(status_of(rules, {.authorization = "bearer secret"}), 200);
  EXPECT_EQ(status_of(rules, {.x_api_key = "secret"}), 200);
  for (const char* wrong : {"Bearer secre", "Bearer secrets", "Bearer ", "Bearer", "secret",
                            "Basic secret", "Bearer secretsecret", "Bearer SECRET"}) {
    EXPECT_EQ(status_of(rules, {.authorization = wrong}), 401) << wrong;
  }
}

TEST(Access, LoopbackIsThisMachine) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "192.168.0.1", "127.example", "example.org"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace strata::serve
