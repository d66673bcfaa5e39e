#include "net/access.h"

#include <gtest/gtest.h>

#include "net/server_testing.h"

namespace penstock::net {

using testing::RawClient;
using testing::TestServer;
namespace {

// The status that a request with these fields gets from a server that listens on `address`.
int status_of(const Address& address, const AccessOptions& options, const std::string& fields) {
  const AccessPolicy policy{address, options};
  TestServer server{[&](Exchange& exchange) {
    const int refused = policy.refusal(exchange);
    exchange.respond(refused == 0 ? 200 : refused, {}, {});
  }};
  RawClient client{server.address()};
  client.send("GET /metrics HTTP/1.1\r\n" + fields + "\r\n");
  return client.read_answer().status;
}

Address at(std::string_view host) { return *Address::parse(host, 8081); }

TEST(AccessPolicy, TakesRequestsForItsOwnNamesOnly) {
  struct Case {
    const char *listening, *host;
    int status;
  };
  for (const Case& each :
       {Case{"127.0.0.1", "127.0.0.1:8081", 200}, Case{"127.0.0.1", "localhost", 200},
        Case{"127.0.0.1", "LocalHost.:8081", 200}, Case{"127.0.0.1", "[::1]:8081", 200},
        Case{"127.0.0.1", "127.8.9.10", 200}, Case{"127.0.0.1", "evil.example", 421},
        Case{"127.0.0.1", "evil.example:8081", 421}, Case{"127.0.0.1", "127.0.0.1.evil.example", 421},
        Case{"127.0.0.1", "localhost.evil.example", 421}, Case{"127.0.0.1", "10.0.0.7", 421},
        Case{"10.0.0.7", "10.0.0.7:8081", 200}, Case{"10.0.0.7", "10.0.0.8:8081", 421},
        Case{"0.0.0.0", "10.0.0.8:8081", 200}, Case{"0.0.0.0", "[2001:db8::1]:80", 200},
        Case{"0.0.0.0", "evil.example", 421}, Case{"::", "10.0.0.8", 200},
        Case{"127.0.0.1", "gateway.internal:8081", 200}, Case{"127.0.0.1", "Gateway.Internal", 200}})
    EXPECT_EQ(
        status_of(at(each.listening), {{"gateway.internal"}, {}, false}, std::string{"Host: "} + each.host + "\r\n"),
        each.status)
        << each.listening << " " << each.host;
}

TEST(AccessPolicy, NeedsATokenIfThereAreTokens) {
  const AccessOptions options{{}, {"first-token", "second-token"}, false};
  const std::string host = "Host: localhost\r\n";
  const auto status = [&](const std::string& field) { return status_of(Address{}, options, host + field); };
  EXPECT_EQ(status(""), 401);
  EXPECT_EQ(status("Authorization: Bearer first-token\r\n"), 200);
  EXPECT_EQ(status("Authorization: bearer second-token\r\n"), 200);
  EXPECT_EQ(status("Authorization: Bearer first-toke\r\n"), 401);
  EXPECT_EQ(status("Authorization: Bearer first-token2\r\n"), 401);
  EXPECT_EQ(status("Authorization: first-token\r\n"), 401);
  // As browsers send it: "operator:first-token", "operator:no".
  EXPECT_EQ(status("Authorization: Basic b3BlcmF0b3I6Zmlyc3QtdG9rZW4=\r\n"), 200);
  EXPECT_EQ(status("Authorization: Basic b3BlcmF0b3I6bm8=\r\n"), 401);
  EXPECT_EQ(status("Authorization: Basic ====\r\n"), 401);
  EXPECT_EQ(status("Authorization: Basic first-token\r\n"), 401);
  EXPECT_EQ(status_of(Address{}, options, "Host: evil.example\r\nAuthorization: Bearer first-token\r\n"), 421);
}

TEST(AccessPolicy, PrivatePathsNeedCredentialsInAnyCase) {
  const auto refused = [](const AccessOptions& options, bool is_private, const std::string& field) {
    const AccessPolicy policy{Address{}, options};
    int status = -1;
    TestServer server{[&](Exchange& exchange) {
      status = policy.refusal(exchange, is_private);
      exchange.respond(200, {}, {});
    }};
    RawClient client{server.address()};
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n" + field + "\r\n");
    static_cast<void>(client.read_answer());
    return status;
  };
  const std::string token = "Authorization: Bearer t\r\n";
  EXPECT_EQ(refused({}, true, ""), 403);
  EXPECT_EQ(refused({}, true, token), 403);
  EXPECT_EQ(refused({}, false, ""), 0);
  const AccessOptions guarded{{}, {"t"}, false, false};
  EXPECT_EQ(refused(guarded, false, ""), 0);
  EXPECT_EQ(refused(guarded, true, ""), 401);
  EXPECT_EQ(refused(guarded, true, token), 0);
}

TEST(AccessPolicy, KnowsLoopbackAddresses) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1"}) EXPECT_TRUE(is_loopback(at(host))) << host;
  for (const char* host : {"0.0.0.0", "10.0.0.7", "::", "2001:db8::1"}) EXPECT_FALSE(is_loopback(at(host))) << host;
}

}  // namespace
}  // namespace penstock::net
