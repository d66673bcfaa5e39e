#include "gateway/fields.h"

#include <gtest/gtest.h>

namespace penstock::gateway {
namespace {

net::RequestHead request(std::vector<net::Field> fields) {
  net::RequestHead head;
  head.fields = std::move(fields);
  return head;
}

TEST(ForwardedFields, LeaveOutHopByHopFields) {
  std::string out;
  append_forwarded_request_fields(out,
                                  request({{"Host", "gateway"},
                                           {"Connection", "keep-alive, X-Hop"},
                                           {"X-Hop", "1"},
                                           {"Transfer-Encoding", "chunked"},
                                           {"Upgrade", "h2c"},
                                           {"Content-Type", "application/json"},
                                           {"traceparent", "00-1-2-01"}}),
                                  {});
  EXPECT_EQ(out, "Content-Type: application/json\r\ntraceparent: 00-1-2-01\r\n");
}

TEST(ForwardedFields, NeverHoldTheClientsKey) {
  std::string out;
  append_forwarded_request_fields(out, request({{"authorization", "Bearer sk-secret"}, {"Accept", "*/*"}}), {});
  EXPECT_EQ(out, "Accept: */*\r\n");
}

TEST(ForwardedFields, AreThoseOfTheListAndOfTheOptions) {
  const auto head = request({{"User-Agent", "curl"},
                             {"X-Data-Parallel-Rank", "3"},
                             {"Cookie", "a=b"},
                             {"X-Api-Key", "sk"},
                             {"X-Team", "search"},
                             {"X-Stainless-Lang", "python"},
                             {"Accept-Encoding", "gzip"},
                             {"Connection", "x-hop"},
                             {"X-Hop", "1"},
                             {"Authorization", "Bearer sk"}});
  std::string out;
  append_forwarded_request_fields(out, head, {});
  EXPECT_EQ(out, "User-Agent: curl\r\n");
  const std::vector<std::string> more{"x-team", "x-hop", "authorization", "connection"};
  out.clear();
  append_forwarded_request_fields(out, head, more);
  EXPECT_EQ(out, "User-Agent: curl\r\nX-Team: search\r\n");
}

TEST(HeaderControls, AreFoundInAnyCase) {
  EXPECT_EQ(kHeaderControls[header_control_named("X-Data-Parallel-Rank")], "x-data-parallel-rank");
  EXPECT_EQ(kHeaderControls[header_control_named("COOKIE")], "cookie");
  for (const char* name : {"", "x-request-id", "accept", "cookies", "host"})
    EXPECT_EQ(header_control_named(name), kHeaderControls.size()) << name;
}

TEST(EngineRequestId, IsUniqueAndBeginsWithASafeIdOfTheClient) {
  EXPECT_EQ(engine_request_id("abc-1.2", 255), "abc-1.2-00000000000000ff");
  EXPECT_EQ(engine_request_id("___prefill_addr_10.0.0.1:1", 1), "req-0000000000000001");
  EXPECT_EQ(engine_request_id(std::string(65, 'a'), 1), "req-0000000000000001");
}

TEST(AnswerHead, HidesTheReplicaAndCookiesOfEngines) {
  net::ResponseHead head;
  head.status = 200;
  head.fields = {{"Content-Type", "application/json"}, {"Set-Cookie", "a=b"}};
  std::string out;
  append_answer_head(out, head, "req-1", {}, "prefix");
  EXPECT_EQ(out, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-request-id: req-1\r\n");
}

TEST(AnswerHead, NamesTheReplicaAndTheReason) {
  net::ResponseHead head;
  head.status = 200;
  head.fields = {{"Content-Type", "text/event-stream"},
                 {"Transfer-Encoding", "chunked"},
                 {"Content-Length", "5"},
                 {"X-Request-Id", "engine's"}};
  std::string out;
  append_answer_head(out, head, "req-1", "r1", "prefix");
  EXPECT_EQ(out,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nx-request-id: req-1\r\nx-penstock-replica: r1\r\n"
            "x-penstock-route: prefix\r\n");
  const auto fields = fields_of(out);
  ASSERT_EQ(fields.size(), 4U);
  EXPECT_EQ(fields[0].name, "Content-Type");
  EXPECT_EQ(fields[0].value, "text/event-stream");
  EXPECT_EQ(fields[3].name, "x-penstock-route");
  EXPECT_EQ(fields[3].value, "prefix");
}

TEST(RequestId, IsUsedOnlyIfItIsValidInAHeader) {
  EXPECT_EQ(usable_request_id("abc-123"), "abc-123");
  EXPECT_EQ(usable_request_id("has blank"), "");
  EXPECT_EQ(usable_request_id(std::string(129, 'a')), "");
  EXPECT_EQ(usable_request_id("tab\t"), "");
}

TEST(SessionOf, PrefersTheHeaderThenTheBodysSession) {
  api::InferenceRequest body;
  body.user = "user-7";
  EXPECT_EQ(session_of(request({}), body), "user-7");
  body.session_id = "s-1";
  EXPECT_EQ(session_of(request({}), body), "s-1");
  EXPECT_EQ(session_of(request({{"x-session-id", "s-2"}}), body), "s-2");
}

TEST(TimeBudgetIn, ReadsATimeWithItsUnitAndNothingElse) {
  using namespace std::chrono_literals;
  EXPECT_EQ(time_budget_in("2s"), core::Duration{2s});
  EXPECT_EQ(time_budget_in("1500ms"), core::Duration{1500ms});
  EXPECT_EQ(time_budget_in("0.5m"), core::Duration{30s});
  for (const char* text : {"", "2", "s", "-1s", "0s", "1e3s", "2 s", "2s ", "inf s", "nans", "1000000000s", "2sec"})
    EXPECT_EQ(time_budget_in(text), std::nullopt) << text;
}

TEST(Fields, WritesTheIdOfARequest) {
  std::string id;
  append_request_id(id, 0x1234'5678'9abc'def0);
  EXPECT_EQ(id, "req-123456789abcdef0");
  id.clear();
  append_request_id(id, 7);
  EXPECT_EQ(id, "req-0000000000000007");
}

TEST(RateLimitFields, HaveOpenAisNamesAndFormats) {
  using std::chrono::milliseconds;
  const auto reset = [](core::Duration duration) {
    std::vector<std::pair<std::string, std::string>> fields;
    append_rate_limits(fields, {3000.0, 41.9, duration});
    EXPECT_EQ(fields.size(), 3U);
    EXPECT_EQ(fields[0], (std::pair<std::string, std::string>{"x-ratelimit-limit-tokens", "3000"}));
    EXPECT_EQ(fields[1], (std::pair<std::string, std::string>{"x-ratelimit-remaining-tokens", "41"}));
    EXPECT_EQ(fields[2].first, "x-ratelimit-reset-tokens");
    return fields[2].second;
  };
  EXPECT_EQ(reset({}), "0s");
  EXPECT_EQ(reset(milliseconds{5001}), "6s");
  EXPECT_EQ(reset(milliseconds{60'000}), "1m0s");
  EXPECT_EQ(reset(milliseconds{90'000}), "1m30s");
  EXPECT_EQ(reset(milliseconds{3'605'000}), "1h0m5s");
  std::vector<std::pair<std::string, std::string>> fields;
  append_rate_limits(fields, {});
  EXPECT_TRUE(fields.empty()) << "a tenant without limits";
  append_rate_limits(fields, {0.0, 0.0, {}, 8, 3});
  EXPECT_EQ(fields, (std::vector<std::pair<std::string, std::string>>{{"x-ratelimit-limit-requests", "8"},
                                                                      {"x-ratelimit-remaining-requests", "3"}}));
}

}  // namespace
}  // namespace penstock::gateway
