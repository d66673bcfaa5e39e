#include "connect/prometheus/query_answer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace penstock::connect {
namespace {

std::string vector_of(const std::string& result) {
  return R"({"status":"success","data":{"resultType":"vector","result":[)" + result + "]}}";
}

TEST(QueryAnswer, KeepsTheLastValueOfEachSeries) {
  const auto series =
      parse_query_answer(200,
                         R"({"status":"success","data":{"resultType":"matrix","result":[)"
                         R"({"metric":{"__name__":"q","instance":"a:1"},"values":[[100.5,"3"],[105.5,"4"]]}]}})",
                         "q[30s]");
  ASSERT_TRUE(series) << series.error().message();
  ASSERT_EQ(series->size(), 1U);
  EXPECT_EQ(series->front().name, "q");
  EXPECT_EQ(series->front().labels.at("instance"), "a:1");
  EXPECT_EQ(series->front().value, 4.0);
  EXPECT_EQ(series->front().at_s, 105.5);
}

TEST(QueryAnswer, NanInfinityAndEmptyResultsAreMissing) {
  const auto series = parse_query_answer(200,
                                         vector_of(R"({"metric":{"instance":"a:1"},"value":[1,"NaN"]},)"
                                                   R"({"metric":{"instance":"a:1"},"value":[1,"+Inf"]},)"
                                                   R"({"metric":{"instance":"b:1"},"value":[1,"0"]})"),
                                         "up");
  ASSERT_TRUE(series);
  QueriedReplicas replicas;
  add_signal(replicas, "queued_requests", *series, "instance");
  EXPECT_FALSE(replicas.contains("a:1"));
  EXPECT_EQ(replicas.at("b:1").scrape.queued_requests, 0U);
  EXPECT_FALSE(replicas.at("b:1").scrape.running_requests);
  const auto empty = parse_query_answer(200, vector_of(""), "up");
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
}

TEST(QueryAnswer, AnErrorNamesTheQueryAndThePositionThatPrometheusReports) {
  const auto series = parse_query_answer(
      400, R"x({"status":"error","error":"invalid parameter \"query\": 1:5: parse error: unexpected\n\")\""})x",
      "sum()");
  ASSERT_FALSE(series);
  EXPECT_NE(series.error().message().find("1:5: parse error"), std::string::npos) << series.error().message();
  EXPECT_NE(series.error().message().find("sum()"), std::string::npos);
  EXPECT_EQ(series.error().message().find('\n'), std::string::npos);
}

TEST(QueryAnswer, RefusesWhatIsNoAnswer) {
  for (const char* body :
       {"", "<html>", "[]", "{}", R"({"status":"success"})", R"({"status":"success","data":7})",
        R"({"status":"success","data":{"resultType":"string","result":[1,"a"]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[7]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":7}]}})",
        R"({"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,2]}]}})",
        R"({"status":"success","data":{"resultType":"scalar","result":["a"]}})"})
    EXPECT_FALSE(parse_query_answer(200, body, "up")) << body;
}

TEST(QueryAnswer, ImpossibleFiguresAreMissing) {
  const auto series = parse_query_answer(200,
                                         vector_of(R"({"metric":{"instance":"a:1"},"value":[1,"1.5"]},)"
                                                   R"({"metric":{"instance":"b:1"},"value":[1,"-1"]},)"
                                                   R"({"metric":{"job":"c"},"value":[1,"0.5"]})"),
                                         "kv");
  ASSERT_TRUE(series);
  QueriedReplicas replicas;
  add_signal(replicas, "kv_usage", *series, "instance");
  EXPECT_TRUE(replicas.empty());
}

TEST(QueryPreset, NamesAllSeriesOfTheAdapter) {
  const std::string query = preset_query("vllm", "job=\"v\"", std::chrono::seconds{30});
  EXPECT_TRUE(query.starts_with("{__name__=~\"")) << query;
  EXPECT_TRUE(query.ends_with(",job=\"v\"}[30000ms]")) << query;
  for (const char* name :
       {"vllm:num_requests_waiting", "vllm:cache_config_info", "vllm:time_to_first_token_seconds_(bucket|sum)"})
    EXPECT_NE(query.find(name), std::string::npos) << name;
  EXPECT_NE(preset_query("llm_d_epp", "", std::chrono::seconds{30}).find("llm_d_epp_inflight_requests"),
            std::string::npos);
}

TEST(QueryPreset, IsReadAsTheMetricsOfEachReplica) {
  const auto one = [](const std::string& labels, const std::string& value) {
    return "{\"metric\":{" + labels + R"(},"values":[[7,")" + value + "\"]]}";
  };
  const std::string a = R"("instance":"a:1","model_name":"m \"x\"","__name__":"vllm:)";
  const auto series =
      parse_query_answer(200,
                         R"({"status":"success","data":{"resultType":"matrix","result":[)" +
                             one(a + "num_requests_waiting\"", "4") + "," + one(a + "num_requests_running\"", "2") +
                             "," + one(a + R"(cache_config_info","block_size":"16","num_gpu_blocks":"100")", "1") +
                             "," + one(R"("instance":"b:1","__name__":"vllm:num_requests_waiting")", "NaN") + "]}}",
                         "vllm");
  ASSERT_TRUE(series) << series.error().message();
  const QueriedReplicas replicas = read_preset(*series, "instance");
  ASSERT_EQ(replicas.size(), 1U);
  const telemetry::EngineScrape& scrape = replicas.at("a:1").scrape;
  EXPECT_EQ(scrape.kind, telemetry::EngineKind::kVllm);
  EXPECT_EQ(scrape.model, "m \"x\"");
  EXPECT_EQ(scrape.queued_requests, 4U);
  EXPECT_EQ(scrape.running_requests, 2U);
  EXPECT_EQ(scrape.kv_capacity_tokens, 1600U);
  EXPECT_FALSE(scrape.kv_usage);
  EXPECT_EQ(replicas.at("a:1").at_s, 7.0);
}

TEST(QueryPreset, OfAnEndpointPickerHasQueueAndRunningRequests) {
  const std::vector<QueriedSeries> series = {
      {"llm_d_epp_per_endpoint_queue_size", {{"endpoint_name", "p"}}, 3.0, 1.0},
      {"llm_d_epp_inflight_requests", {{"endpoint_name", "p"}, {"priority", "0"}}, 4.0, 1.0},
      {"llm_d_epp_inflight_requests", {{"endpoint_name", "p"}, {"priority", "1"}}, 1.0, 1.0}};
  const QueriedReplicas replicas = read_preset(series, "endpoint_name");
  EXPECT_EQ(replicas.at("p").scrape.queued_requests, 3U);
  EXPECT_EQ(replicas.at("p").scrape.running_requests, 2U);
}

}  // namespace
}  // namespace penstock::connect
