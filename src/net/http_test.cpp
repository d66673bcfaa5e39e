#include "net/http.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::net {
namespace {

std::string with_host(std::string_view first_line, std::string_view fields = {}) {
  return std::string{first_line} + "\r\nHost: test\r\n" + std::string{fields} + "\r\n";
}

TEST(RequestHead, DecodesAParameter) {
  const std::string bytes = with_host("GET /x?model=org%2fname+v%2B&half=%4&odd=%zz%41 HTTP/1.1");
  RequestHead head;
  ASSERT_EQ(parse_request_head(bytes, head).state, HeadState::kComplete);
  EXPECT_EQ(head.decoded_parameter("model"), "org/name v+");
  EXPECT_EQ(head.decoded_parameter("half"), "%4");
  EXPECT_EQ(head.decoded_parameter("odd"), "%zzA");
  EXPECT_EQ(head.decoded_parameter("nothing"), "");
}

TEST(RequestHead, IsParsedInPlace) {
  const std::string bytes = with_host("POST /v1/chat/completions?a=1&b=%20 HTTP/1.1",
                                      "content-LENGTH: 12\r\nX-Empty:\r\nX-Blanks: \t a b \t\r\n") +
                            "body";
  RequestHead head;
  const HeadResult result = parse_request_head(bytes, head);
  ASSERT_EQ(result.state, HeadState::kComplete);
  EXPECT_EQ(result.bytes, bytes.size() - 4);
  EXPECT_EQ(head.method, "POST");
  EXPECT_EQ(head.target, "/v1/chat/completions?a=1&b=%20");
  EXPECT_EQ(head.path(), "/v1/chat/completions");
  EXPECT_EQ(head.query(), "a=1&b=%20");
  EXPECT_EQ(head.parameter("b"), "%20");
  EXPECT_EQ(head.parameter("c"), "");
  EXPECT_EQ(head.content_length, 12u);
  EXPECT_EQ(head.field("HOST"), "test");
  EXPECT_EQ(head.field("x-blanks"), "a b");
  EXPECT_TRUE(head.has_field("X-Empty"));
  EXPECT_FALSE(head.has_field("X-Missing"));
  EXPECT_EQ(head.fields.size(), 4u);
  EXPECT_TRUE(head.keep_alive);
  EXPECT_EQ(head.target.data(), bytes.data() + 5) << "views point into the bytes";
}

TEST(RequestHead, IsNotCompleteBeforeItsEnd) {
  const std::string bytes = "\r\n" + with_host("GET / HTTP/1.1", "X: y\r\n");
  RequestHead head;
  for (std::size_t size = 0; size < bytes.size(); ++size)
    for (const std::size_t searched : {std::size_t{0}, size / 2, size})
      EXPECT_EQ(parse_request_head(std::string_view{bytes}.substr(0, size), head, searched).state,
                HeadState::kIncomplete);
  for (std::size_t searched = 0; searched < bytes.size(); ++searched)
    EXPECT_EQ(parse_request_head(bytes, head, searched).bytes, bytes.size());
}

TEST(RequestHead, AcceptsTheFormsOfATarget) {
  struct Case {
    const char *target, *path, *query;
  };
  for (const Case& c : std::vector<Case>{{"/", "/", ""},
                                         {"/a/b?", "/a/b", ""},
                                         {"/a?b?c", "/a", "b?c"},
                                         {"*", "*", ""},
                                         {"http://test/a?b", "/a", "b"},
                                         {"https://test", "/", ""},
                                         {"http://test?b", "/", "b"}}) {
    RequestHead head;
    const std::string bytes = with_host("GET " + std::string{c.target} + " HTTP/1.1");
    ASSERT_EQ(parse_request_head(bytes, head).state, HeadState::kComplete) << c.target;
    EXPECT_EQ(head.path(), c.path);
    EXPECT_EQ(head.query(), c.query);
  }
}

TEST(RequestHead, DetectsKeepAlive) {
  struct Case {
    const char *version, *fields;
    bool keep_alive;
  };
  for (const Case& c : std::vector<Case>{{"1.1", "", true},
                                         {"1.1", "Connection: close\r\n", false},
                                         {"1.1", "Connection: keep-alive, CLOSE\r\n", false},
                                         {"1.1", "Connection: upgrade\r\nconnection: Close\r\n", false},
                                         {"1.1", "Connection: closed\r\n", true},
                                         {"1.0", "", false},
                                         {"1.0", "Connection: Keep-Alive\r\n", true},
                                         {"1.0", "Connection: keep-alive, close\r\n", false}}) {
    RequestHead head;
    const std::string bytes = with_host("GET / HTTP/" + std::string{c.version}, c.fields);
    ASSERT_EQ(parse_request_head(bytes, head).state, HeadState::kComplete);
    EXPECT_EQ(head.keep_alive, c.keep_alive) << bytes;
    EXPECT_EQ(head.http_1_0, std::string_view{c.version} == "1.0");
  }
}

TEST(RequestHead, DetectsTheFraming) {
  RequestHead head;
  const std::string chunked = with_host("POST / HTTP/1.1", "Transfer-Encoding: Chunked\r\nExpect: 100-Continue\r\n");
  ASSERT_EQ(parse_request_head(chunked, head).state, HeadState::kComplete);
  EXPECT_TRUE(head.chunked);
  EXPECT_TRUE(head.expect_continue);
  EXPECT_FALSE(head.content_length);
  const std::string plain = with_host("GET / HTTP/1.1");
  ASSERT_EQ(parse_request_head(plain, head).state, HeadState::kComplete);
  EXPECT_FALSE(head.chunked || head.expect_continue || head.content_length) << "nothing is left of the head before";
}

TEST(RequestHead, RejectsAmbiguousOrMalformedHeads) {
  struct Case {
    std::string bytes;
    int status;
  };
  std::string many;
  for (int i = 0; i < 200; ++i) many += "X: y\r\n";
  const std::vector<Case> cases = {
      {"GET / HTTP/1.1\nHost: test\n\n", 400},
      {"\nGET / HTTP/1.1\r\nHost: test\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: test\r\nX: a\nb\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: test\r\nX: a\rb\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: user@a\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {with_host("GET /"), 400},
      {with_host("GET"), 400},
      {with_host(" / HTTP/1.1"), 400},
      {with_host("GET  HTTP/1.1"), 400},
      {with_host("GET  / HTTP/1.1"), 400},
      {with_host("GET / HTTP/1.1 "), 400},
      {with_host("GET /a b HTTP/1.1"), 400},
      {with_host("GET /\t HTTP/1.1"), 400},
      {with_host("GET /\x80 HTTP/1.1"), 400},
      {with_host("GET a HTTP/1.1"), 400},
      {with_host("CONNECT a:80 HTTP/1.1"), 400},
      {with_host("G@T / HTTP/1.1"), 400},
      {with_host("GET / http/1.1"), 400},
      {with_host("GET / HTTP/1.10"), 400},
      {with_host("GET / HTTP/2.0"), 505},
      {with_host("GET / HTTP/0.9"), 505},
      {with_host("GET / HTTP/1.1", "X : y\r\n"), 400},
      {with_host("GET / HTTP/1.1", " X: y\r\n"), 400},
      {with_host("GET / HTTP/1.1", "X: a\r\n b\r\n"), 400},
      {with_host("GET / HTTP/1.1", ": y\r\n"), 400},
      {with_host("GET / HTTP/1.1", "X\r\n"), 400},
      {with_host("GET / HTTP/1.1", "X: \x01\r\n"), 400},
      {with_host("GET / HTTP/1.1", "X: \x7f\r\n"), 400},
      {with_host("GET / HTTP/1.1", "X: " + std::string(1, '\0') + "\r\n"), 400},
      {with_host("GET / HTTP/1.1", "X\x80: y\r\n"), 400},
      {with_host("GET / HTTP/1.1", many), 431},
      {with_host("GET / HTTP/1.1", "Content-Length: 5\r\nContent-Length: 5\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Content-Length: 5, 5\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Content-Length: +5\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Content-Length: -5\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Content-Length: 0x5\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Content-Length:\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Content-Length: 18446744073709551616\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400},
      {with_host("GET / HTTP/1.0", "Transfer-Encoding: chunked\r\n"), 400},
      {with_host("GET / HTTP/1.1", "Transfer-Encoding: gzip, chunked\r\n"), 501},
      {with_host("GET / HTTP/1.1", "Transfer-Encoding: chunked, identity\r\n"), 501},
      {with_host("GET / HTTP/1.1", "Transfer-Encoding: xchunked\r\n"), 501},
      {with_host("GET / HTTP/1.1", "Transfer-Encoding:\r\n"), 501},
  };
  for (const Case& c : cases) {
    RequestHead head;
    const HeadResult result = parse_request_head(c.bytes, head);
    EXPECT_EQ(result.state, HeadState::kMalformed) << c.bytes;
    EXPECT_EQ(result.status, c.status) << c.bytes;
    EXPECT_STRNE(result.fault, "");
  }
}

TEST(RequestHead, AnotherProtocolIsDetectedAtItsFirstByte) {
  RequestHead head;
  EXPECT_EQ(parse_request_head("\x16", head).state, HeadState::kMalformed);
  EXPECT_EQ(parse_request_head("G", head).state, HeadState::kIncomplete);
}

TEST(ResponseHead, IsParsed) {
  const std::string bytes = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n";
  ResponseHead head;
  const HeadResult result = parse_response_head(bytes, head);
  ASSERT_EQ(result.state, HeadState::kComplete);
  EXPECT_EQ(result.bytes, bytes.size());
  EXPECT_EQ(head.status, 429);
  EXPECT_EQ(head.field("retry-after"), "3");
  EXPECT_EQ(head.content_length, 0u);
}

TEST(ResponseHead, DoesNotRequireAReason) {
  ResponseHead head;
  for (const char* bytes : {"HTTP/1.1 200\r\n\r\n", "HTTP/1.1 200 \r\n\r\n", "HTTP/1.0 200 \xc3\xa9\r\n\r\n"}) {
    ASSERT_EQ(parse_response_head(bytes, head).state, HeadState::kComplete) << bytes;
    EXPECT_EQ(head.status, 200);
  }
  EXPECT_FALSE(head.keep_alive) << "the last was of HTTP/1.0";
}

TEST(ResponseHead, RejectsMalformedHeads) {
  for (const char* bytes :
       {"\r\nHTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\n\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 600 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1\r\n\r\n", "ICY 200 OK\r\n\r\n", "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n"}) {
    ResponseHead head;
    EXPECT_EQ(parse_response_head(bytes, head).state, HeadState::kMalformed) << bytes;
  }
}

TEST(EqualFold, IgnoresCaseOfAsciiOnly) {
  EXPECT_TRUE(equal_fold("Content-TYPE", "content-type"));
  EXPECT_FALSE(equal_fold("a", "ab"));
  EXPECT_FALSE(equal_fold("[", "{"));
  EXPECT_FALSE(equal_fold("\xc4", "\xe4"));
}

TEST(ReasonPhrase, IsEmptyForUnknownStatuses) {
  EXPECT_EQ(reason_phrase(404), "Not Found");
  EXPECT_EQ(reason_phrase(299), "");
}

}  // namespace
}  // namespace penstock::net
