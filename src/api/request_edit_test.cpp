#include <gtest/gtest.h>

#include "api/engine_controls.h"
#include "api/request.h"

namespace penstock::api {
namespace {

constexpr std::string_view kKeep =
    R"("kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,)"
    R"("remote_block_ids":null,"remote_host":null,"remote_port":null})";

std::string changed(const std::string& body, const BodyChanges& changes) {
  RequestReader reader;
  InferenceRequest request;
  EXPECT_TRUE(reader.read(Endpoint::kCompletions, body, request)) << body;
  std::string out;
  if (!append_changed_body(out, body, Endpoint::kCompletions, request.edit, changes)) out = body;
  EXPECT_TRUE(reader.read(Endpoint::kCompletions, out, request)) << out;
  return out;
}

std::string clamped(const std::string& body, std::uint32_t max_tokens) {
  BodyChanges changes;
  changes.max_tokens = max_tokens;
  const std::string out = changed(body, changes);
  RequestReader reader;
  InferenceRequest request;
  EXPECT_TRUE(reader.read(Endpoint::kCompletions, out, request)) << out;
  EXPECT_EQ(request.max_tokens, max_tokens) << out;
  return out;
}

TEST(UsageOption, IsAddedAndNothingElseChanges) {
  BodyChanges usage;
  usage.include_usage = true;
  const struct {
    const char *before, *after;
  } cases[] = {
      {R"({"model":"m","prompt":"p","stream":true} )",
       R"({"model":"m","prompt":"p","stream":true,"stream_options":{"include_usage":true}} )"},
      {R"({"model":"m","stream_options":null,"prompt":"p","stream":true})",
       R"({"model":"m","stream_options":{"include_usage":true},"prompt":"p","stream":true})"},
      {R"({"model":"m","stream_options": { } ,"prompt":"p","stream":true})",
       R"({"model":"m","stream_options": {"include_usage":true } ,"prompt":"p","stream":true})"},
      {R"({"model":"m","stream_options":{"x":1},"prompt":"p","stream":true})",
       R"({"model":"m","stream_options":{"include_usage":true,"x":1},"prompt":"p","stream":true})"},
      {R"({"model":"m","stream_options":{"include_usage":false,"x":1},"prompt":"p","stream":true})",
       R"({"model":"m","stream_options":{"include_usage":true,"x":1},"prompt":"p","stream":true})"},
      {R"({"model":"m","stream_options":{"include_usage":null},"prompt":"p","stream":true})",
       R"({"model":"m","stream_options":{"include_usage":true},"prompt":"p","stream":true})"},
      {R"({"model":"m","prompt":"p","stream":true,"priority":3})",
       R"({"model":"m","prompt":"p","stream":true,"stream_options":{"include_usage":true}})"},
  };
  for (const auto& each : cases) EXPECT_EQ(changed(each.before, usage), each.after);
  usage.max_tokens = 5;
  EXPECT_EQ(changed(R"({"model":"m","stream_options":{},"max_tokens":9,"prompt":"p","stream":true})", usage),
            R"({"model":"m","stream_options":{"include_usage":true},"max_tokens":5,"prompt":"p","stream":true})");
}

TEST(MaxTokens, ChangesTheNumberAndNothingElse) {
  EXPECT_EQ(clamped(R"( {"max_tokens" : 4096 , "model":"m", "x":[1 ,2], "prompt":"p"} )", 16),
            R"( {"max_tokens" : 16 , "model":"m", "x":[1 ,2], "prompt":"p"} )");
  EXPECT_EQ(clamped(R"({"model":"m","prompt":"p","max_tokens":8,"max_completion_tokens":7})", 3),
            R"({"model":"m","prompt":"p","max_tokens":3,"max_completion_tokens":3})");
  EXPECT_EQ(clamped(R"({"model":"m","prompt":"p","max_tokens":null})", 3),
            R"({"model":"m","prompt":"p","max_tokens":3})");
  EXPECT_EQ(clamped(R"({"model":"m","prompt":"p","max_tokens":8,"max_completion_tokens":null})", 3),
            R"({"model":"m","prompt":"p","max_tokens":3,"max_completion_tokens":null})");
}

// vLLM refuses a request whose min_tokens is above its max_tokens.
TEST(MaxTokens, LowersALargerMinTokensToo) {
  EXPECT_EQ(clamped(R"({"model":"m","min_tokens":64,"max_tokens":500,"prompt":"p"})", 16),
            R"({"model":"m","min_tokens":16,"max_tokens":16,"prompt":"p"})");
  EXPECT_EQ(clamped(R"({"model":"m","prompt":"p","max_tokens":500, "min_tokens" : 64.0 })", 16),
            R"({"model":"m","prompt":"p","max_tokens":16, "min_tokens" : 16 })");
  EXPECT_EQ(clamped(R"({"model":"m","prompt":"p","min_tokens":64})", 16),
            R"({"model":"m","prompt":"p","min_tokens":16,"max_tokens":16})");
  for (const char* kept : {"16", "0", "null", "\"64\""})
    EXPECT_EQ(clamped(R"({"model":"m","prompt":"p","max_tokens":500,"min_tokens":)" + std::string{kept} + "}", 16),
              R"({"model":"m","prompt":"p","max_tokens":16,"min_tokens":)" + std::string{kept} + "}");
  const std::string unchanged = R"({"model":"m","prompt":"p","max_tokens":500,"min_tokens":600})";
  EXPECT_EQ(changed(unchanged, {}), unchanged);
}

TEST(MaxTokens, AddsTheFieldWhereThereIsNone) {
  EXPECT_EQ(clamped("{\"model\":\"m\",\"prompt\":\"p\" }\n", 16),
            "{\"model\":\"m\",\"prompt\":\"p\" ,\"max_tokens\":16}\n");
}

TEST(EngineControls, AreDroppedWithOneComma) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"priority":-1,"model":"m","prompt":"p"})", R"({"model":"m","prompt":"p"})"},
      {R"({ "priority" : -1 , "model":"m","prompt":"p"})", R"({ "model":"m","prompt":"p"})"},
      {R"({"model":"m", "kv_transfer_params":{"a":[{"b":"}"}],"remote_port":70000} ,"prompt":"p"})",
       R"({"model":"m", "prompt":"p"})"},
      {R"({"model":"m","prompt":"p" , "cache_salt":"s" })", R"({"model":"m","prompt":"p" })"},
      {R"({"model":"m","prompt":"p","vllm_xargs":{},"rid":"a" , "nvext":null})", R"({"model":"m","prompt":"p"})"},
      {R"({"rid":1,"model":"m","rid":[2],"rid":3,"prompt":"p","bootstrap_host":"h","lora_path":""}  )",
       R"({"model":"m","prompt":"p"}  )"},
      {R"({"model":"m","prompt":"p","\u0070riority":9,"x":1})", R"({"model":"m","prompt":"p","x":1})"},
      {R"({"model":"m","prompt":"p","x":{"priority":1},"user":"priority"})",
       R"({"model":"m","prompt":"p","x":{"priority":1},"user":"priority"})"},
  };
  for (const auto& [body, expected] : cases) EXPECT_EQ(changed(body, {}), expected) << body;
  BodyChanges changes;
  changes.kept_controls = 1ULL << engine_control_named("rid");
  EXPECT_EQ(changed(R"({"model":"m","prompt":"p","rid":1,"priority":2})", changes),
            R"({"model":"m","prompt":"p","rid":1})");
  EXPECT_EQ(changed(R"({"priority":2,"rid":1,"model":"m","prompt":"p","cache_salt":"3","rid":{}})", changes),
            R"({"rid":1,"model":"m","prompt":"p","rid":{}})");
}

TEST(EngineControls, OfTheGatewayReplaceThoseOfTheClient) {
  BodyChanges changes;
  changes.priority = -3;
  changes.cache_salt = "a\"b";
  changes.max_tokens = 7;
  EXPECT_EQ(
      changed(R"({"priority":1,"max_tokens":100,"cache_salt":"x","model":"m","prompt":"p","priority_":1})", changes),
      R"({"max_tokens":7,"model":"m","prompt":"p","priority_":1,"priority":-3,"cache_salt":"a\"b"})");
  EXPECT_EQ(changed(R"({"model":"m","prompt":"p","cache_salt":"x"})", changes),
            R"({"model":"m","prompt":"p","max_tokens":7,"priority":-3,"cache_salt":"a\"b"})");
}

TEST(StreamedBody, RequestsAStreamWithUsage) {
  EXPECT_EQ(streamed_body(R"({"model":"m","prompt":"p" })").value(),
            R"({"model":"m","prompt":"p","stream":true,"stream_options":{"include_usage":true} })");
  EXPECT_EQ(streamed_body(R"({"stream":false,"stream_options":null,"model":"m"})").value(),
            R"({"stream":true,"stream_options":{"include_usage":true},"model":"m"})");
}

TEST(PrefillBody, RequestsOneTokenAndKeepsTheKv) {
  EXPECT_EQ(prefill_body(R"({ "model":"m", "stream" : true, "stream_options":{"include_usage":true},"max_tokens":100,)"
                         R"("max_completion_tokens":null,"min_tokens":5,"prompt":"}\"{", "x" : 1e5 })")
                .value(),
            std::string{R"({ "model":"m", "stream" : false,"max_tokens":1,"max_completion_tokens":1,"prompt":"}\"{", )"
                        R"("x" : 1e5,)"} +
                std::string{kKeep} + " }");
}

TEST(PrefillBody, RemovesTheFirstAndTheLastField) {
  EXPECT_EQ(prefill_body(R"({ "min_tokens":1, "stream_options":{}, "model":"m","min_tokens":2})").value(),
            R"({"model":"m","max_tokens":1,)" + std::string{kKeep} + "}");
  EXPECT_EQ(prefill_body(R"({"min_tokens":1})").value(), R"({"max_tokens":1,)" + std::string{kKeep} + "}");
  EXPECT_EQ(prefill_body("{ }").value(), R"({"max_tokens":1,)" + std::string{kKeep} + " }");
}

TEST(PrefillBody, RejectsABodyThatIsNotAnObject) {
  for (const char* body : {"", "[]", "{\"a\"}", "{\"a\":}", "{} x", "{\"a\":[}", "{\"a\":\"b\":1}"})
    EXPECT_FALSE(prefill_body(body).has_value()) << body;
}

TEST(DecodeBody, ContainsThePrefillEnginesParameters) {
  const std::string params = R"({"do_remote_prefill":true,"remote_block_ids":[1,2]})";
  EXPECT_EQ(decode_body(R"({"model":"m","stream":true})", params).value(),
            R"({"model":"m","stream":true,"kv_transfer_params":)" + params + "}");
  EXPECT_EQ(decode_body(R"({"kv_transfer_params":{"a":[{}]} ,"model":"m"})", params).value(),
            R"({"kv_transfer_params":)" + params + R"( ,"model":"m"})");
  EXPECT_EQ(decode_body("{}", "").error().code, core::ErrorCode::kEnvironment);
}

TEST(KvTransferParams, AreReadFromAnAnswer) {
  EXPECT_EQ(
      kv_transfer_params_of(R"({"id":"x","choices":[{"kv_transfer_params":1}], "kv_transfer_params": {"a":[1, 2]} })"),
      R"({"a":[1, 2]})");
  EXPECT_EQ(kv_transfer_params_of(R"({"id":"x","kv_transfer_params":null})"), "");
  EXPECT_EQ(kv_transfer_params_of(R"({"id":"x"})"), "");
  EXPECT_EQ(kv_transfer_params_of("<html>"), "");
}

}  // namespace
}  // namespace penstock::api
