#include "api/request.h"
#include "api/kv_transfer.h"

#include <gtest/gtest.h>

#include <array>
#include "core/random.h"

namespace penstock::api {
namespace {

struct Read {
  core::Result<void> result;
  InferenceRequest request;
};

Read read(Endpoint endpoint, const std::string& body) {
  RequestReader reader;
  Read read;
  read.result = reader.read(endpoint, body, read.request);
  return read;
}
Read chat(const std::string& body) { return read(Endpoint::kChatCompletions, body); }
Read completion(const std::string& body) { return read(Endpoint::kCompletions, body); }

InferenceRequest good(const Read& read) {
  EXPECT_TRUE(read.result.has_value()) << read.result.error().message();
  return read.request;
}
std::string wrong(const Read& read) { return read.result ? "nothing is wrong" : read.result.error().message(); }

// A chat with one message and the given fields.
std::string many_stops(int count) {
  std::string stops;
  for (int i = 0; i < count; ++i) stops += R"(,"a")";
  return stops;
}
std::string with(const std::string& fields) {
  return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + fields + "}";
}
std::string with_message(const std::string& message) { return R"({"model":"m","messages":[)" + message + "]}"; }

TEST(RequestReader, ReadsAChat) {
  const auto request = good(chat(R"( {"model" : "llama", "messages": [{"role":"system","content":"Be brief."},
    {"role":"user","content":"\"Hé\" \ud83d\ude00\n"}], "stream":true, "stream_options":{"include_usage":true},
    "temperature":0.5, "max_tokens": 32, "n":2, "stop":["a","\n"], "user":"u1", "session_id":"s1", "ignore_eos":true,
    "priority":-3, "logit_bias":{"1":[2.5e1,null,{"x":"\t"}]} } )"));
  EXPECT_EQ(request.model, "llama");
  EXPECT_EQ(request.text, "system\nBe brief.\nuser\n\"Hé\" \xF0\x9F\x98\x80\n\n");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(request.max_tokens, 32U);
  EXPECT_EQ(request.choices, 2U);
  EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "\n"}));
  EXPECT_EQ(request.user, "u1");
  EXPECT_EQ(request.session_id, "s1");
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.priority, -3);
  EXPECT_TRUE(request.kv_transfer_params.empty());
}

TEST(RequestReader, TakesNullForAFieldThatIsNotThere) {
  const auto request = good(chat(with(R"(,"stream":null,"stream_options":null,"max_tokens":null,"n":null,"stop":null,
    "user":null,"session_id":null,"session_params":null,"kv_transfer_params":null,"priority":null,"tools":null,
    "ignore_eos":null)")));
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_EQ(request.choices, 1U);
  EXPECT_TRUE(request.stop.empty());
  EXPECT_TRUE(request.kv_transfer_params.empty());
  EXPECT_EQ(request.text, "user\nhi\n");
}

TEST(RequestReader, LeavesNothingOfTheRequestBefore) {
  RequestReader reader;
  InferenceRequest request;
  ASSERT_TRUE(reader.read(Endpoint::kChatCompletions,
                          with(R"(,"stream":true,"stop":"x","n":3,"max_tokens":5,"user":"u","session_id":"s",
                               "kv_transfer_params":{"do_remote_decode":true},"priority":1,"ignore_eos":true)"),
                          request));
  ASSERT_TRUE(reader.read(Endpoint::kCompletions, R"({"model":"n","prompt":[1,2]})", request));
  EXPECT_EQ(request.endpoint, Endpoint::kCompletions);
  EXPECT_EQ(request.model, "n");
  EXPECT_EQ(request.text, std::string("\1\0\0\0\2\0\0\0", 8));
  EXPECT_EQ(request.prompt_tokens_given, 2U);
  EXPECT_FALSE(request.stream || request.ignore_eos || request.max_tokens || request.priority);
  EXPECT_TRUE(request.kv_transfer_params.empty() && request.edit.controls.empty());
  EXPECT_TRUE(request.stop.empty() && request.user.empty() && request.session_id.empty());
  EXPECT_EQ(request.choices, 1U);
  EXPECT_EQ(request.edit.max_tokens.size, 0U);
}

TEST(RequestReader, WritesEqualBeginningsOfChatsAsEqualTexts) {
  const std::string first = R"({"role":"system","content":"s"},{"role":"user","content":"u"})";
  const auto shorter = good(chat(with_message(first)));
  const auto longer = good(chat(with_message(first + R"(,{"role":"assistant","content":"a"})")));
  EXPECT_TRUE(longer.text.starts_with(shorter.text));
  EXPECT_GT(longer.text.size(), shorter.text.size());
}

TEST(RequestReader, PutsTheRoleInFrontWhereverItStands) {
  EXPECT_EQ(
      good(chat(with_message(R"({"content":"hi","role":"user"},{"content":"ho","name":"x","role":"user"})"))).text,
      "user\nhi\nuser\nho\n");
}

TEST(RequestReader, PutsToolsInFrontWhereverTheyStand) {
  const std::string tools = R"([ {"type":"function", "function":{"name":"f\u00e9"}} ])";
  EXPECT_EQ(good(chat(with(R"(,"tools":)" + tools + R"( ,"n":1)"))).text, tools + "\nuser\nhi\n");
  EXPECT_EQ(good(chat(R"({"tools": )" + tools + R"(,"model":"m","messages":[{"role":"user","content":"hi"}]})")).text,
            tools + "\nuser\nhi\n");
}

TEST(RequestReader, TakesAnAssistantWithoutContentIfItCalls) {
  EXPECT_EQ(good(chat(with_message(R"({"role":"assistant","content":null,"tool_calls":[ {"id":"1"} ] })"))).text,
            "assistant\n\n[ {\"id\":\"1\"} ]\n");
  EXPECT_EQ(good(chat(with_message(R"({"tool_calls":[{"id":"1"}],"role":"assistant","content":"c"})"))).text,
            "assistant\nc\n[{\"id\":\"1\"}]\n");
}

TEST(RequestReader, JoinsThePartsOfAMessage) {
  EXPECT_EQ(
      good(chat(with_message(R"({"role":"user","content":[{"type":"text","text":"a\t"},{"text":"b","type":"text"},"c",
              {"type":"image_url", "image_url":{"url":"data:x"}} ]})")))
          .text,
      "user\na\t\nb\nc\n{\"type\":\"image_url\", \"image_url\":{\"url\":\"data:x\"}}\n");
}

TEST(RequestReader, ReadsPromptsOfAllKinds) {
  EXPECT_EQ(good(completion(R"({"model":"m","prompt":"a\\b"})")).text, "a\\b");
  EXPECT_EQ(good(completion(R"({"model":"m","prompt":["a","b"]})")).text, "a\nb");
  const auto numbers = good(completion(R"({"model":"m","prompt":[1,258,4294967295]})"));
  EXPECT_EQ(numbers.text, std::string("\1\0\0\0\2\1\0\0\xff\xff\xff\xff", 12));
  EXPECT_EQ(numbers.prompt_tokens_given, 3U);
  EXPECT_EQ(good(completion(R"({"model":"m","prompt":[[1,2],[3]]})")).prompt_tokens_given, 3U);
}

TEST(RequestReader, ReadsWhereTheKvOfAPromptIs) {
  const auto request = good(chat(with(R"(,"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,
    "remote_engine_id":"e1","remote_block_ids":[[1,2],[9007199254740993]],"remote_host":"10.0.0.1","remote_port":5600,
    "tp_size":2})")));
  const auto transfer = read_kv_transfer(request.kv_transfer_params);
  ASSERT_TRUE(transfer);
  EXPECT_TRUE(transfer->do_remote_prefill);
  EXPECT_FALSE(transfer->do_remote_decode);
  EXPECT_EQ(transfer->remote_engine_id, "e1");
  EXPECT_EQ(transfer->remote_host, "10.0.0.1");
  EXPECT_EQ(transfer->remote_port, 5600U);
  EXPECT_EQ(transfer->remote_block_ids, (std::vector<std::uint64_t>{1, 2, 9007199254740993}));
}

TEST(RequestReader, PrefersTheNewerLimitAndTheNearerSession) {
  for (const char* fields :
       {R"(,"max_tokens":7,"max_completion_tokens":9)", R"(,"max_completion_tokens":9,"max_tokens":7)"})
    EXPECT_EQ(good(chat(with(fields))).max_tokens, 9U);
  EXPECT_EQ(good(chat(with(R"(,"max_tokens":7,"max_completion_tokens":null)"))).max_tokens, 7U);
  EXPECT_EQ(good(chat(with(R"(,"session_params":{"session_id":"b"},"session_id":"a")"))).session_id, "a");
  EXPECT_EQ(good(chat(with(R"(,"session_params":{"session_id":"b"})"))).session_id, "b");
}

// Engines accept null content of an assistant that reasoned, refused or called tools, of tools, and more.
TEST(RequestReader, LeavesNullContentToTheEngine) {
  for (const char* message :
       {R"({"role":"assistant","content":null,"reasoning_content":"hm"})",
        R"({"role":"assistant","content":null,"refusal":"no"})", R"({"role":"assistant","refusal":"no"})",
        R"({"role":"tool","tool_call_id":"1","content":null})", R"({"role":"user","content":null})"}) {
    const auto request = good(chat(with_message(message)));
    EXPECT_TRUE(request.text.ends_with("\n\n")) << message;
  }
  EXPECT_EQ(good(chat(with_message(R"({"role":"user","content":null},{"role":"user","content":"a"})"))).text,
            "user\n\nuser\na\n");
}

TEST(RequestReader, ANumberWithoutAFractionIsAWholeNumber) {
  for (const char* number : {"100.0", "1e2", "1.0E+2", "1000e-1", "100"})
    EXPECT_EQ(good(chat(with(R"(,"max_tokens":)" + std::string{number}))).max_tokens, 100U) << number;
  EXPECT_EQ(good(chat(with(R"(,"priority":-3.0)"))).priority, -3);
  EXPECT_EQ(good(completion(R"({"model":"m","prompt":[1.0,2]})")).text, std::string("\1\0\0\0\2\0\0\0", 8));
}

TEST(RequestReader, ACompletionThatEchoesMayHaveNoTokensAndIsChargedOne) {
  for (const char* body : {R"({"model":"m","prompt":"p","max_tokens":0,"echo":true,"logprobs":1})",
                           R"({"model":"m","prompt":"p","echo":true,"max_tokens":0.0})"})
    EXPECT_EQ(good(completion(body)).max_tokens, 1U) << body;
  for (const char* more : {"", R"(,"echo":false)", R"(,"echo":null)"})
    EXPECT_EQ(wrong(completion(R"({"model":"m","prompt":"p","max_tokens":0)" + std::string{more} + "}")),
              "max_tokens: must be at least 1, is 0; only a completion with echo may have 0");
}

TEST(RequestReader, AnEmptySessionIsNone) {
  EXPECT_EQ(good(chat(with(R"(,"session_id":"")"))).session_id, "");
  EXPECT_EQ(good(chat(with(R"(,"session_id":"","session_params":{"session_id":"b"})"))).session_id, "b");
  EXPECT_EQ(good(chat(with(R"(,"session_params":{"session_id":""})"))).session_id, "");
}

TEST(RequestReader, RejectsInvalidChats) {
  const std::pair<std::string, std::string> kCases[] = {
      {"", "the body is empty"},
      {"[]", "the body must be a JSON object"},
      {"7", "the body must be a JSON object"},
      {"}", "the body must be a JSON object"},
      {"<html>", "the body must be a JSON object"},
      {"\xEF\xBB\xBF{}", "the body must be a JSON object"},
      {R"({"model":)", "the body is not valid JSON: the JSON ends early"},
      {R"({"model":"}","x":[{"y":1}])", "the body is not valid JSON: the JSON ends early"},
      {R"({"model":"m"} x)", "the body is not valid JSON: bytes follow the JSON object from byte 13 on"},
      {R"( {"model":"\"}"}{})", "the body is not valid JSON: bytes follow the JSON object from byte 16 on"},
      {"{}", "model: is missing"},
      {R"({"model":"m"})", "messages: is missing"},
      {R"({"model":"","messages":[]})", "model: must not be empty"},
      {R"({"model":null,"messages":[]})", "model: must be a string, is null"},
      {R"({"model":")" + std::string(257, 'm') + R"(","messages":[]})", "model: must have at most 256 bytes, has 257"},
      {R"({"model":"m","messages":[]})", "messages: must not be empty"},
      {R"({"model":"m","messages":{}})", "messages: must be an array, is an object"},
      {R"({"model":"m","messages":null})", "messages: must be an array, is null"},
      {R"({"messages":[{"role":"user","content":"hi"}]})", "model: is missing"},
      {with_message("3"), "messages[0]: must be an object, is a number"},
      {with_message(R"({"content":"x"})"), "messages[0].role: is missing"},
      {with_message(R"({"role":1,"content":"x"})"), "messages[0].role: must be a string, is a number"},
      {with_message(R"({"role":"user","content":"x"},{"role":"user"})"),
       "messages[1].content: is missing; only an assistant message may omit it"},
      {with_message(R"({"role":"tool","tool_calls":[1]})"),
       "messages[0].content: is missing; only an assistant message may omit it"},
      {with_message(R"({"role":"user","content":null,"content":"b"})"), "messages[0].content: must not be repeated"},
      {with_message(R"({"role":"user","content":5})"),
       "messages[0].content: must be a string or an array of parts, is a number"},
      {with_message(R"({"role":"user","content":[5]})"), "messages[0].content[0]: must be an object, is a number"},
      {with_message(R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text"}]})"),
       "messages[0].content[1].text: is missing"},
      {with_message(R"({"role":"user","content":[{"text":"a"}]})"), "messages[0].content[0].type: is missing"},
      {with_message(R"({"role":"user","content":"a","content":"b"})"), "messages[0].content: must not be repeated"},
      {with(R"(,"n":0)"), "n: must be a whole number of 1 to 128, is 0"},
      {with(R"(,"n":129)"), "n: must be a whole number of 1 to 128, is 129"},
      {with(R"(,"max_tokens":0)"), "max_tokens: must be a whole number of 1 to 4294967295, is 0"},
      {with(R"(,"max_tokens":-1)"), "max_tokens: must be a whole number of 1 to 4294967295, is -1"},
      {with(R"(,"max_tokens":1.5)"), "max_tokens: must be a whole number of 1 to 4294967295, is 1.5"},
      {with(R"(,"max_tokens":0.0)"), "max_tokens: must be a whole number of 1 to 4294967295, is 0.0"},
      {with(R"(,"max_tokens":1e10)"), "max_tokens: must be a whole number of 1 to 4294967295, is 1e10"},
      {with(R"(,"max_tokens":1e999)"), "max_tokens: must be a whole number of 1 to 4294967295, is 1e999"},
      {with(R"(,"max_tokens":0,"echo":true)"), "max_tokens: must be a whole number of 1 to 4294967295, is 0"},
      {with(R"(,"min_tokens":5,"min_tokens":500)"), "min_tokens: must not be repeated"},
      {with(R"(,"session_id":3)"), "session_id: must be a string, is a number"},
      {with(R"(,"max_completion_tokens":4294967296)"),
       "max_completion_tokens: must be a whole number of 1 to 4294967295, is 4294967296"},
      {with(R"(,"max_tokens":"5")"), "max_tokens: must be a whole number, is a string"},
      {with(R"(,"max_tokens":5,"max_tokens":500)"), "max_tokens: must not be repeated"},
      {with(R"(,"max_tokens":5,"max\u005ftokens":500)"), "max_tokens: must not be repeated"},
      {with(R"(,"stream":1)"), "stream: must be a boolean, is a number"},
      {with(R"(,"stream_options":{"include_usage":true})"), "stream_options: must not be given unless stream is true"},
      {with(R"(,"stream":true,"stream_options":{"include_usage":3})"),
       "stream_options.include_usage: must be a boolean, is a number"},
      {with(R"(,"stop":["a")" + many_stops(1024) + "]"), "stop: must have at most 1024 strings"},
      {with(R"(,"stop":["a",1])"), "stop[1]: must be a string, is a number"},
      {with(R"(,"stop":{})"), "stop: must be a string or an array of strings, is an object"},
      {with(R"(,"user":[])"), "user: must be a string, is an array"},
      {with(R"(,"priority":2147483648)"),
       "priority: must be a whole number of -2147483648 to 2147483647, is 2147483648"},
      {with(R"(,"cache_salt":1)"), "cache_salt: must be a string, is a number"},
      {with(R"(,"session_params":"s")"), "session_params: must be an object, is a string"},
  };
  for (const auto& [body, message] : kCases) EXPECT_EQ(wrong(chat(body)), message) << body;
}

TEST(KvTransfer, ReportsWhichFieldIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"1", "kv_transfer_params: must be an object, is a number"},
      {R"({"remote_port":70000})", "kv_transfer_params.remote_port: must be a whole number of 0 to 65535, is 70000"},
      {R"({"do_remote_decode":"yes"})", "kv_transfer_params.do_remote_decode: must be a boolean, is a string"},
      {R"({"remote_host":""})", "kv_transfer_params.remote_host: must not be empty"},
      {R"({"remote_block_ids":[-1]})",
       "kv_transfer_params.remote_block_ids: must be a whole number of 0 to 18446744073709551615, is -1"},
  };
  for (const auto& [json, message] : cases) EXPECT_EQ(read_kv_transfer(json).error().message(), message) << json;
}

TEST(RequestReader, RejectsInvalidPrompts) {
  const std::pair<std::string, std::string> kCases[] = {
      {R"({"model":"m"})", "prompt: is missing"},
      {R"({"model":"m","prompt":""})", "prompt: must not be empty"},
      {R"({"model":"m","prompt":[]})", "prompt: must not be empty"},
      {R"({"model":"m","prompt":[[]]})", "prompt: must not be empty"},
      {R"({"model":"m","prompt":null})",
       "prompt: must be a string, or an array of strings or of token numbers, is null"},
      {R"({"model":"m","prompt":["a",1]})", "prompt[1]: must be of the kind of the first, is a number"},
      {R"({"model":"m","prompt":[true]})", "prompt[0]: must be a string or a token number, is a boolean"},
      {R"({"model":"m","prompt":[-1]})", "prompt: must be a whole number of 0 to 4294967295, is -1"},
      {R"({"model":"m","prompt":[[["a"]]]})", "prompt: must be a whole number, is an array"},
  };
  for (const auto& [body, message] : kCases) EXPECT_EQ(wrong(completion(body)), message) << body;
}

TEST(RequestReader, RejectsInvalidJsonInUnusedFieldsToo) {
  for (const std::string& body : {std::string{"{"},

                                  std::string{R"({"model")"},
                                  with(",\"x\":"),
                                  with(R"(,"x":tru)"),
                                  with(R"(,"x":"a":1)"),
                                  with(R"(,"x":"a":1})"),
                                  with(R"(,"user":"a":1)"),
                                  with(R"(,"x":["a":1])"),
                                  with(R"(,"x":1:1)"),
                                  with(R"(,"x":nullx)"),
                                  with(R"(,"x":1.)"),
                                  with(R"(,"x":01)"),
                                  with(R"(,"x":+1)"),
                                  with(R"(,"x":[1 2])"),
                                  with(R"(,"x":[1,])"),
                                  with(R"(,"x":{"a":1,})"),
                                  with(R"(,"x":{"a" 1})"),
                                  with(R"(,"x":{1:2})"),
                                  with(R"(,"x":"\q")"),
                                  with(R"(,"x":"\u12g4")"),
                                  with(R"(,"x":"\ud800")"),
                                  with(R"(,"x":"\ud800\u0041")"),
                                  with(R"(,"x":"\udc00")"),
                                  with(R"(,"x":[1})"),
                                  with(R"(,"x":{"a":1])"),
                                  with(R"(,"x":"a"b)"),
                                  with(R"(,"x":"a""b")"),
                                  with(R"(,"x":1"b")"),
                                  with("}"),
                                  with("") + "x",
                                  with("") + "{}",
                                  with(R"(,"x":"a)"),
                                  with(",\"x\":\"a\nb\""),
                                  with(",,"),
                                  with(R"(,"user":"\x")"),
                                  with(R"(,"x\q":1)"),
                                  with_message(R"({"role":"user","content":"\u00"})"),
                                  with_message(R"({"role":"user","content":"a"}{})"),
                                  with_message(R"({"role":"user","content":[{"type":"text","text":"\ud800"}]})")}) {
    EXPECT_TRUE(wrong(chat(body)).starts_with("the body is not valid JSON")) << body << ": " << wrong(chat(body));
  }
  for (const std::string bytes : {"\xff", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xf5\x80\x80\x80"})
    EXPECT_EQ(wrong(chat(with(R"(,"x":")" + bytes + "\""))), "the body is not valid UTF-8");
}

TEST(RequestReader, LimitsDepthAndSize) {
  const auto nested = [](int levels) {
    return with(R"(,"x":)" + std::string(static_cast<std::size_t>(levels), '[') +
                std::string(static_cast<std::size_t>(levels), ']'));
  };
  EXPECT_TRUE(chat(nested(kDepthMax - 1)).result.has_value());
  EXPECT_EQ(wrong(chat(nested(kDepthMax))), "the body nests deeper than 128 levels");
  EXPECT_EQ(wrong(chat(nested(1'000'000))), "the body nests deeper than 128 levels");
  EXPECT_EQ(wrong(chat(std::string(kBodyBytesMax + 1, ' '))), "the body has 67108865 bytes, the maximum is 67108864");
  const std::string frame = with_message(R"({"role":"user","content":""})");
  const std::string longest =
      with_message(R"({"role":"user","content":")" + std::string(kBodyBytesMax - frame.size(), 'x') + "\"}");
  RequestReader reader;
  InferenceRequest request;
  ASSERT_TRUE(reader.read(Endpoint::kChatCompletions, longest, request));
  EXPECT_EQ(request.text.size(), kBodyBytesMax - frame.size() + 6);
  ASSERT_TRUE(reader.read(Endpoint::kChatCompletions, with(""), request));
  EXPECT_LT(request.text.capacity(), 1024U);  // The memory of the longest text is released.
}

TEST(RequestReader, LeavesFieldsOfTheOtherEndpointAlone) {
  EXPECT_EQ(good(chat(with(R"(,"prompt":7)"))).text, "user\nhi\n");
  EXPECT_EQ(good(completion(R"({"model":"m","prompt":"p","messages":7,"tools":[1]})")).text, "p");
}

// Texts are copied in steps of many bytes and may end anywhere within a step.
TEST(RequestReader, ReadsPlainTextsOfEveryLength) {
  RequestReader reader;
  InferenceRequest request;
  for (std::size_t length = 1; length < 9000; length += length < 600 ? 1 : 31) {
    const std::string plain(length, 'x');
    ASSERT_TRUE(reader.read(Endpoint::kChatCompletions, with_message(R"({"role":"user","content":")" + plain + "\"}"),
                            request));
    ASSERT_EQ(request.text, "user\n" + plain + "\n");
  }
}

TEST(RequestReader, ReadsTheTextOfEveryEndpoint) {
  const struct {
    Endpoint endpoint;
    const char* body;
    const char* text;
  } cases[] = {
      {Endpoint::kResponses, R"({"model":"m","instructions":"Be brief.","input":"h\u0069"})", "Be brief.\nhi\n"},
      {Endpoint::kResponses, R"({"model":"m","input":[{"role":"user","content":"a"}],"instructions":null})",
       "[{\"role\":\"user\",\"content\":\"a\"}]\n"},
      {Endpoint::kResponses, R"({"model":"m","input":"a","tools":[{"x":1}]})", "[{\"x\":1}]\na\n"},
      {Endpoint::kEmbeddings, R"({"model":"m","input":["a","b"]})", "a\nb"},
      {Endpoint::kRerank, R"({"model":"m","query":"q","documents":["a","b"],"top_n":1})", "q\n[\"a\",\"b\"]\n"},
      {Endpoint::kScore, R"({"model":"m","text_1":"a","text_2":["b"]})", "a\n[\"b\"]\n"},
  };
  RequestReader reader;
  InferenceRequest request;
  for (const auto& each : cases) {
    ASSERT_TRUE(reader.read(each.endpoint, each.body, request)) << each.body;
    EXPECT_EQ(request.text, each.text);
  }
  ASSERT_TRUE(reader.read(Endpoint::kEmbeddings, R"({"model":"m","input":[[1,2],[3]]})", request));
  EXPECT_EQ(request.prompt_tokens_given, 3U);
}

TEST(RequestReader, EveryEndpointNeedsAModelAndAText) {
  RequestReader reader;
  InferenceRequest request;
  for (const Endpoint endpoint : kEndpoints) {
    const auto no_text = reader.read(endpoint, R"({"model":"m"})", request);
    ASSERT_FALSE(no_text) << path_of(endpoint);
    EXPECT_EQ(no_text.error().where, traits_of(endpoint).text.front().name);
    EXPECT_EQ(reader.read(endpoint, "{}", request).error().where, "model");
    const std::string twice{traits_of(endpoint).text.front().name};
    const auto read =
        reader.read(endpoint, R"({"model":"m",")" + twice + R"(":null,")" + twice + R"(":null})", request);
    EXPECT_FALSE(read) << path_of(endpoint);
  }
}

TEST(RequestReader, ReadsTheLimitUnderTheNameOfItsEndpoint) {
  RequestReader reader;
  InferenceRequest request;
  const std::string body = R"({"model":"m","input":"a","stream":true,"max_tokens":5,"max_output_tokens":7})";
  ASSERT_TRUE(reader.read(Endpoint::kResponses, body, request));
  EXPECT_EQ(request.max_tokens, 7U);
  EXPECT_TRUE(request.stream);
  BodyChanges changes;
  changes.max_tokens = 3;
  std::string changed;
  ASSERT_TRUE(append_changed_body(changed, body, Endpoint::kResponses, request.edit, changes));
  EXPECT_EQ(changed, R"({"model":"m","input":"a","stream":true,"max_tokens":5,"max_output_tokens":3})");
  ASSERT_TRUE(reader.read(Endpoint::kEmbeddings, body, request));
  EXPECT_EQ(request.max_tokens, std::nullopt);
  EXPECT_FALSE(request.stream) << "there is nothing to stream";
  ASSERT_TRUE(reader.read(Endpoint::kResponses, R"({"model":"m","input":"a"})", request));
  changed.clear();
  ASSERT_TRUE(
      append_changed_body(changed, R"({"model":"m","input":"a"})", Endpoint::kResponses, request.edit, changes));
  EXPECT_EQ(changed, R"({"model":"m","input":"a","max_output_tokens":3})");
}

TEST(RequestReader, DetectsRequestsForASingleText) {
  RequestReader reader;
  InferenceRequest request;
  const auto is_plain_with = [&](const char* more) {
    const std::string body = R"({"model":"m","prompt":"p")" + std::string{more} + "}";
    EXPECT_TRUE(reader.read(Endpoint::kCompletions, body, request)) << body;
    return request.plain;
  };
  for (const char* more : {"", R"(,"temperature":0.5,"seed":1,"stop":"x","n":1)", R"(,"logprobs":null,"tools":null)"})
    EXPECT_TRUE(is_plain_with(more)) << more;
  for (const char* more : {R"(,"n":2)", R"(,"logprobs":1)", R"(,"tools":[])", R"(,"response_format":{})",
                           R"(,"echo":true)", R"(,"whatever":1)"})
    EXPECT_FALSE(is_plain_with(more)) << more;
  ASSERT_TRUE(reader.read(Endpoint::kCompletions, R"({"model":"m","prompt":[1,2]})", request));
  EXPECT_TRUE(request.plain);
  ASSERT_TRUE(reader.read(Endpoint::kCompletions, R"({"model":"m","prompt":["a","b"]})", request));
  EXPECT_FALSE(request.plain) << "two prompts have two answers";
}

TEST(RequestReader, NotesWhatTheTokensOfAnEngineMayLeaveOut) {
  RequestReader reader;
  InferenceRequest request;
  const auto read = [&](const std::string& more) {
    EXPECT_TRUE(reader.read(Endpoint::kCompletions, R"({"model":"m","prompt":"p")" + more + "}", request)) << more;
    return std::array{request.cuts_prompt, request.hides_output, request.repeats_prompt};
  };
  EXPECT_EQ(read(R"(,"temperature":1,"echo":null,"logit_bias":null)"), (std::array{false, false, false}));
  EXPECT_EQ(read(R"(,"truncate_prompt_tokens":5)"), (std::array{true, false, false}));
  EXPECT_EQ(read(R"(,"tools":[])"), (std::array{true, false, false}));
  for (const char* name : {"include_reasoning", "reasoning", "logit_bias", "detokenize"})
    EXPECT_EQ(read(",\"" + std::string{name} + "\":false"), (std::array{false, true, false})) << name;
  EXPECT_EQ(read(R"(,"echo":true)"), (std::array{false, false, true}));
}

// Long texts are unescaped in pieces; escapes must be correct at every boundary.
TEST(RequestReader, UnescapesTextsOfEveryLength) {
  core::RandomStream random{7};
  RequestReader reader;
  InferenceRequest request;
  const std::pair<std::string, std::string> kPieces[] = {
      {"a", "a"},     {"\\n", "\n"},           {"\\\\", "\\"}, {"\\u00e9", "é"},
      {"\\\"", "\""}, {"\\ud83d\\ude00", "😀"}, {"é", "é"},     {"plain text", "plain text"}};
  for (int i = 0; i < 300; ++i) {
    std::string escaped, plain;
    const std::uint64_t pieces = random.below(3000);
    for (std::uint64_t piece = 0; piece < pieces; ++piece) {
      const auto& [from, to] = kPieces[random.below(std::size(kPieces))];
      escaped += from;
      plain += to;
    }
    ASSERT_TRUE(reader.read(Endpoint::kChatCompletions, with_message(R"({"role":"user","content":")" + escaped + "\"}"),
                            request));
    ASSERT_EQ(request.text, "user\n" + plain + "\n");
  }
}

}  // namespace
}  // namespace penstock::api
