#include "controller/gateway_feed.h"

#include <gtest/gtest.h>

namespace penstock::controller {
namespace {

const std::string kTraffic = R"({"boot":"b1","now_s":12.5,"next":3,"lost":4,"events":[)"
                             R"(["arrival",7,10.0,"m","batch","shop",1000,[1,9223372036854775807]],)"
                             R"(["first_token",7,10.5,100.0,500.0,256],)"
                             R"(["end",7,12.0,"completed","r1",1100,101,-1.0]]})";
const std::string kOverview =
    R"({"boot":"b1","now_s":12.5,"replicas":[{"id":"r1","url":"http://a:1","model":"llama",)"
    R"("pool":"chat","role":"decode",)"
    R"("phase":"draining","open_requests":3,"open_transfers":2,"eligible":false,"healthy":true}],)"
    R"("queue":{"interactive":2,"batch":3,"oldest_s":9,)"
    R"("models":[{"model":"llama","waiting_for_room":4,"oldest_s":1.5},)"
    R"({"model":"qwen","waiting_for_room":1,"oldest_s":0.5}]},)"
    R"("refused_total":9})";

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

TEST(ReadTraffic, ReadsWhatGatewaysAddedToEvents) {
  const auto page = read_traffic(
      R"({"boot":"b1","now_s":12.5,"next":3,"lost":0,"events":[)"
      R"(["arrival",7,10.0,"m","batch","shop",1000,[],"/v1/completions",false,0.0,42],)"
      R"(["first_token",7,10.5,100.0,500.0,256,3000.0,50.0],["end",7,12.0,"completed","r1",1100,101,-1.0,900.0]]})");
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_FALSE(page->items[0].streamed);
  EXPECT_EQ(page->items[0].expected_output_tokens, 42U);
  EXPECT_DOUBLE_EQ(page->items[1].own_limit_ms, 3000.0);
  EXPECT_DOUBLE_EQ(page->items[1].transfer_ms, 50.0);
  EXPECT_DOUBLE_EQ(page->items[2].client_ms, 900.0);
  const auto older = read_traffic(kTraffic);
  ASSERT_TRUE(older);
  EXPECT_TRUE(older->items[0].streamed);
  EXPECT_EQ(older->items[0].expected_output_tokens, 0U);
}

TEST(ReadTraffic, ReadsEachKindOfEvent) {
  const auto page = read_traffic(kTraffic);
  ASSERT_TRUE(page) << page.error().message();
  EXPECT_EQ(page->boot, "b1");
  EXPECT_DOUBLE_EQ(page->now_s, 12.5);
  EXPECT_EQ(page->next, 3U);
  EXPECT_EQ(page->lost, 4U);
  ASSERT_EQ(page->items.size(), 3U);
  const TrafficItem& arrival = page->items[0];
  EXPECT_EQ(arrival.kind, TrafficItem::Kind::kArrival);
  EXPECT_EQ(arrival.request, 7U);
  EXPECT_EQ(arrival.traffic_class, "batch");
  EXPECT_EQ(arrival.tenant, "shop");
  EXPECT_EQ(arrival.input_tokens, 1000U);
  EXPECT_EQ(arrival.keys, (std::vector<std::uint64_t>{1, 9223372036854775807ULL}));
  EXPECT_EQ(page->items[1].kind, TrafficItem::Kind::kFirstToken);
  EXPECT_DOUBLE_EQ(page->items[1].admission_ms, 100.0);
  EXPECT_DOUBLE_EQ(page->items[1].ttft_ms, 500.0);
  EXPECT_EQ(page->items[1].cached_tokens, 256U);
  EXPECT_EQ(page->items[2].kind, TrafficItem::Kind::kEnd);
  EXPECT_EQ(page->items[2].outcome, "completed");
  EXPECT_EQ(page->items[2].replica, "r1");
  EXPECT_EQ(page->items[2].output_tokens, 101U);
  EXPECT_DOUBLE_EQ(page->items[2].itl_ms, -1.0);
}

TEST(ReadTraffic, NamesTheEventThatIsWrong) {
  const auto page = read_traffic(replaced(kTraffic, "500.0", "\"soon\""));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().message(), "the gateway's traffic: events[1]: lacks a number in its range");
}

TEST(ReadTraffic, RejectsInvalidDocuments) {
  const std::pair<const char*, const char*> changes[] = {
      {R"("boot":"b1")", R"("boot":1)"},
      {R"("now_s":12.5,)", ""},
      {"12.5", "null"},
      {"12.5", "1e300"},
      {R"("next":3)", R"("next":-3)"},
      {R"("lost":4)", R"("lost":4.5)"},
      {R"("events":[)", R"("event":[)"},
      {R"(["arrival",7)", R"(["arrival",-7)"},
      {R"(["arrival")", R"(["departure")"},
      {R"(["arrival")", R"([1)"},
      {"10.0", "\"10\""},
      {"10.0", "-1e300"},
      {R"("shop",1000)", R"("shop",1e3)"},
      {"1000", "4294967296"},
      {"9223372036854775807]", "1.5]"},
      {"[1,9223372036854775807]", "7"},
      {"500.0,256", "500.0"},
      {"500.0", "1e300"},
      {R"("r1",1100,101,-1.0)", R"("r1")"},
      {R"("completed")", "null"},
  };
  for (const auto& [what, with] : changes) EXPECT_FALSE(read_traffic(replaced(kTraffic, what, with))) << with;
  for (const char* text : {"", "null", "[]", "{", "{}", "\xff"}) EXPECT_FALSE(read_traffic(text)) << text;
}

TEST(ReadTraffic, AnEmptyPageIsValid) {
  const auto page = read_traffic(R"({"boot":"b","now_s":0,"next":0,"lost":0,"events":[]})");
  ASSERT_TRUE(page);
  EXPECT_TRUE(page->items.empty());
}

TEST(ReadOverview, AGatewayThatDrainsSaysSoAndAnOlderOneDoesNot) {
  EXPECT_FALSE(read_overview(kOverview)->draining);
  EXPECT_TRUE(read_overview(replaced(kOverview, R"("replicas")", R"("draining":true,"replicas")"))->draining);
  EXPECT_FALSE(read_overview(replaced(kOverview, R"("replicas")", R"("draining":1,"replicas")")));
}

TEST(ReadOverview, ReadsReplicasAndQueue) {
  const auto state = read_overview(kOverview);
  ASSERT_TRUE(state) << state.error().message();
  ASSERT_TRUE(state->replicas.contains("r1"));
  const GatewayReplica& replica = state->replicas.at("r1");
  EXPECT_EQ(replica.url, "http://a:1");
  EXPECT_EQ(replica.model, "llama");
  EXPECT_EQ(replica.pool, "chat");
  EXPECT_EQ(replica.role, "decode");
  EXPECT_EQ(replica.phase, "draining");
  EXPECT_EQ(replica.open_requests, 3U);
  EXPECT_EQ(replica.open_work(), 5U);
  EXPECT_FALSE(replica.eligible);
  EXPECT_TRUE(replica.healthy);
  ASSERT_EQ(state->waiting_by_model.size(), 2U);
  EXPECT_EQ(state->waiting_by_model.at("qwen").requests, 1U);
  EXPECT_DOUBLE_EQ(state->waiting_by_model.at("qwen").oldest_s, 0.5);
  EXPECT_EQ(state->refused_total, 9U);
  EXPECT_EQ(state->json, kOverview);
}

const std::string kDeferred = R"("deferred":{"requests":12,"tokens":900,"next_due_s":41.5,"deferred_total":100,)"
                              R"("sent_spare_total":70,"sent_due_total":15,"missed_total":3},"refused_total":9)";

TEST(ReadOverview, ReadsDeferredRequests) {
  EXPECT_FALSE(read_overview(kOverview)->deferral) << "an older gateway defers nothing";
  const auto state = read_overview(replaced(kOverview, R"("refused_total":9)", kDeferred));
  ASSERT_TRUE(state) << state.error().message();
  ASSERT_TRUE(state->deferral);
  EXPECT_EQ(state->deferral->requests, 12U);
  EXPECT_EQ(state->deferral->next_due_s, 41.5);
  EXPECT_EQ(state->deferral->deferred_total, 100U);
  EXPECT_EQ(state->deferral->sent_spare_total, 70U);
  EXPECT_EQ(state->deferral->sent_due_total, 15U);
  EXPECT_EQ(state->deferral->missed_total, 3U);
  const std::string none = replaced(kDeferred, "41.5", "null");
  EXPECT_FALSE(read_overview(replaced(kOverview, R"("refused_total":9)", none))->deferral->next_due_s);
  for (const auto& [what, with] :
       {std::pair{"12", "-12"}, {"41.5", "\"soon\""}, {"\"missed_total\":3", "\"missed\":3"}})
    EXPECT_FALSE(read_overview(replaced(kOverview, R"("refused_total":9)", replaced(kDeferred, what, with)))) << with;
}

TEST(ReadOverview, RejectsInvalidDocuments) {
  const std::pair<const char*, const char*> changes[] = {
      {R"("boot":"b1",)", ""},
      {R"("replicas":[{)", R"("replicas":[7,{)"},
      {R"("id":"r1",)", ""},
      {R"("healthy":true)", R"("healthy":"yes")"},
      {R"("eligible":false,)", ""},
      {R"("open_requests":3)", R"("open_requests":-3)"},
      {R"("queue")", R"("q")"},
      {R"("models")", R"("m")"},
      {"1.5", "\"long\""},
      {"1.5", "1e300"},
      {R"("refused_total":9)", R"("refused_total":"9")"},
  };
  for (const auto& [what, with] : changes) EXPECT_FALSE(read_overview(replaced(kOverview, what, with))) << what;
  for (const char* text : {"", "null", "[]", "{}", R"({"boot":"b","now_s":1,"replicas":{}})"})
    EXPECT_FALSE(read_overview(text)) << text;
}

const std::string kPrefixes = R"({"boot":"b1","now_s":1.0,"prefixes":[{"model":"m","path":"/v1/chat/completions",)"
                              R"("tokens":512,"hits":7,"idle_s":1.5,"body":"{\"model\":\"m\"}"}]})";

TEST(ReadPrefixes, ReadsRequestsAndTheirPaths) {
  const auto read = read_prefixes(kPrefixes);
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_EQ(read->size(), 1U);
  EXPECT_EQ(read->front().path, "/v1/chat/completions");
  EXPECT_EQ(read->front().body, R"({"model":"m"})");
  EXPECT_EQ(read->front().tokens, 512U);
  EXPECT_EQ(read->front().hits, 7U);
}

TEST(ReadPrefixes, RejectsInvalidDocuments) {
  const std::pair<const char*, const char*> changes[] = {{R"("prefixes":[)", R"("prefix":[)"},
                                                         {"/v1/chat", "/chat"},
                                                         {"/v1/chat", R"(/v1/ HTTP/1.1\r\n)"},
                                                         {"512", "-1"},
                                                         {"7", "7.5"},
                                                         {R"("body":)", R"("text":)"}};
  for (const auto& [what, with] : changes) EXPECT_FALSE(read_prefixes(replaced(kPrefixes, what, with))) << with;
}

}  // namespace
}  // namespace penstock::controller
