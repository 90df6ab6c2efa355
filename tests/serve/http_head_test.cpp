// Heads of requests: what is taken, and what could mean two things and is refused.
#include "src/serve/http_head.hpp"

#include <gtest/gtest.h>

#include <string>

namespace strata::serve {
namespace {

// 0: taken.
int status_of(const std::string& head) {
  const auto checked = check_head(head);
  const auto* problem = std::get_if<HeadProblem>(&checked);
  return problem == nullptr ? 0 : problem->status;
}
std::string get(const std::string& headers, const std::string& line = "GET / HTTP/1.1") {
  return line + "\r\nHost: x\r\n" + headers + "\r\n";
}

TEST(HttpHead, OrdinaryRequestsAreTaken) {
  EXPECT_EQ(status_of(get("")), 0);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 0);
  EXPECT_EQ(status_of(get("Accept:*/*\r\nX-A:\tb \r\nX-Empty:\r\n", "GET /a?b=%20&c HTTP/1.1")), 0);
  EXPECT_EQ(status_of(get("", "OPTIONS * HTTP/1.1")), 0);
  EXPECT_EQ(status_of(get("X: \xC3\xA4\r\n")), 0) << "bytes beyond ASCII are nobody's business";
  const auto checked = check_head(get("content-LENGTH: 17\r\nExpect: 100-Continue\r\n"));
  ASSERT_TRUE(std::holds_alternative<HeadFacts>(checked));
  EXPECT_EQ(std::get<HeadFacts>(checked).content_length, 17u);
  EXPECT_FALSE(std::get<HeadFacts>(checked).chunked);
  EXPECT_TRUE(std::get<HeadFacts>(check_head(get("Transfer-Encoding: chunked\r\n"))).chunked);
}

TEST(HttpHead, WhatSmugglesRequestsIsRefused) {
  for (const char* headers : {
           "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
           "Content-Length: 5\r\nContent-Length: 6\r\n",
           "Content-Length: 5\r\nContent-Length: 5\r\n",
           "Content-Length: +5\r\n",
           "Content-Length: 5, 5\r\n",
           "Content-Length: 0x5\r\n",
           "Content-Length: \r\n",
           "Content-Length: 99999999999999999999\r\n",
           "Content-Length : 5\r\n",
           " Content-Length: 5\r\n",
           "X: a\r\n folded\r\n",
           "X: a\nContent-Length: 5\r\n",
           "X: a\rContent-Length: 5\r\n",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
           "Host: y\r\n",
           ": nameless\r\n",
           "no colon\r\n",
           "X\x01: a\r\n",
       }) {
    EXPECT_EQ(status_of(get(headers)), 400) << headers;
  }
  EXPECT_EQ(status_of(get(std::string("X: a\0b\r\n", 8))), 400);
  EXPECT_EQ(status_of(get("Transfer-Encoding: gzip, chunked\r\n")), 501);
  EXPECT_EQ(status_of(get("Transfer-Encoding: xchunked\r\n")), 501);
  EXPECT_EQ(status_of("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400) << "no Host";
}

TEST(HttpHead, MalformedRequestLinesAreRefused) {
  for (const char* line : {"", "GET", "GET /", "GET  HTTP/1.1", " GET / HTTP/1.1", "G@T / HTTP/1.1",
                           "GET http://x/ HTTP/1.1", "GET x HTTP/1.1", "GET /a b HTTP/1.1",
                           "GET /\x7F HTTP/1.1", "GET * HTTP/1.1"}) {
    EXPECT_EQ(status_of(get("", line)), 400) << line;
  }
  EXPECT_EQ(status_of(get("", "GET / HTTP/2.0")), 505);
  EXPECT_EQ(status_of(get("", "GET / http/1.1")), 505);
  EXPECT_EQ(status_of(get("", "GET /" + std::string(kMaxTargetBytes, 'a') + " HTTP/1.1")), 414);
}

TEST(HttpHead, OtherLimits) {
  std::string many;
  for (std::size_t i = 0; i < kMaxHeaders; ++i) many += "X: a\r\n";
  EXPECT_EQ(status_of(get(many)), 431) << "with Host it is one more";
  EXPECT_EQ(status_of(get("Content-Encoding: gzip\r\n")), 415);
  EXPECT_EQ(status_of(get("Content-Encoding: identity\r\n")), 0);
  EXPECT_EQ(status_of(get("Expect: a-miracle\r\n")), 417);
}

TEST(HttpHead, TheEndIsFoundHoweverLinesEnd) {
  EXPECT_EQ(find_head_end("GET / HTTP/1.1\r\n\r\nbody"), 18u);
  EXPECT_EQ(find_head_end("a\n\nb"), 3u);
  EXPECT_EQ(find_head_end("a\n\r\nb"), 4u);
  EXPECT_EQ(find_head_end("a\r\nb\r\n"), std::nullopt);
  EXPECT_EQ(find_head_end("a\r\n\r"), std::nullopt);
  EXPECT_EQ(find_head_end(""), std::nullopt);
}

}  // namespace
}  // namespace strata::serve
