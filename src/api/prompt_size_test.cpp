#include "api/prompt_size.h"

#include <gtest/gtest.h>

#include <string>

#include "api/request.h"

namespace penstock::api {
namespace {

InferenceRequest read(Endpoint endpoint, const std::string& body) {
  RequestReader reader;
  InferenceRequest request;
  const auto done = reader.read(endpoint, body, request);
  EXPECT_TRUE(done) << done.error().message();
  return request;
}

TEST(RequestSize, TheLimitThatTheEndpointsEngineReadsCounts) {
  const auto of = [](Endpoint endpoint, const std::string& fields) {
    return read(endpoint, R"({"model":"m",)" + fields + "}");
  };
  const std::string both = R"("prompt":"p","max_completion_tokens":1,"max_tokens":4000)";
  const InferenceRequest completion = of(Endpoint::kCompletions, both);
  EXPECT_EQ(completion.max_tokens, 4000U);
  EXPECT_TRUE(completion.limits_differ);
  BodyChanges changes;
  changes.max_tokens = 7;
  std::string out;
  const std::string body = R"({"model":"m",)" + both + "}";
  ASSERT_TRUE(append_changed_body(out, body, Endpoint::kCompletions, completion.edit, changes));
  EXPECT_EQ(out, R"({"model":"m","prompt":"p","max_completion_tokens":7,"max_tokens":7})");
  EXPECT_FALSE(of(Endpoint::kCompletions, R"("prompt":"p","max_completion_tokens":9)").max_tokens);
  EXPECT_TRUE(of(Endpoint::kCompletions, R"("prompt":"p","max_completion_tokens":9)").limits_differ);
  const std::string chat = R"("messages":[{"role":"user","content":"c"}],)";
  EXPECT_EQ(of(Endpoint::kChatCompletions, chat + R"("max_tokens":4000,"max_completion_tokens":1)").max_tokens, 1U);
  EXPECT_EQ(of(Endpoint::kChatCompletions, chat + R"("max_tokens":40,"max_completion_tokens":null)").max_tokens, 40U);
  EXPECT_FALSE(of(Endpoint::kResponses, R"("input":"p","max_tokens":9)").max_tokens);
}

TEST(RequestSize, CountsPromptsAndChoices) {
  const auto size_of = [](const std::string& fields, Endpoint endpoint = Endpoint::kCompletions) {
    return read(endpoint, R"({"model":"m",)" + fields + "}").size;
  };
  EXPECT_EQ(size_of(R"("prompt":"p")").prompts, 1U);
  EXPECT_EQ(size_of(R"("prompt":["a","b","c"])").prompts, 3U);
  EXPECT_EQ(size_of(R"("prompt":[1,2,3])").prompts, 1U);
  EXPECT_EQ(size_of(R"("prompt":[[1,2],[3]])").prompts, 2U);
  EXPECT_EQ(size_of(R"("input":["a","b"])", Endpoint::kEmbeddings).prompts, 2U);
  EXPECT_EQ(size_of(R"("prompt":"p","n":3)").choices, 3U);
  EXPECT_EQ(size_of(R"("prompt":"p","n":3,"best_of":5)").choices, 5U);
  const PromptSize pairs = size_of(R"("query":"four","documents":["a","bc","d"])", Endpoint::kRerank);
  EXPECT_EQ(pairs.prompts, 3U);
  EXPECT_GE(pairs.text_bytes, 3U * 4U + 4U);
}

TEST(RequestSize, MediaAreNoText) {
  const std::string picture = "data:image/png;base64," + std::string(1000, 'A');
  const std::string messages = R"({"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"what"},)"
                               R"({"type":"image_url","image_url":{"url":")" +
                               picture + R"("}},{"type":"input_audio","input_audio":{"data":")" +
                               std::string(500, 'B') + R"(","format":"wav"}},{"type":"file","file":{"file_data":")" +
                               picture + R"("}}]}]})";
  const InferenceRequest chat = read(Endpoint::kChatCompletions, messages);
  EXPECT_EQ(chat.size.images, 1U);
  EXPECT_EQ(chat.size.audios, 1U);
  EXPECT_EQ(chat.size.files, 1U);
  EXPECT_LT(chat.size.text_bytes, 20U);
  EXPECT_GT(chat.text.size(), 2500U) << "equal media are equal prompts";
  const std::string input = R"({"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"what"},)"
                            R"({"type":"input_image","image_url":")" +
                            picture + R"("},{"type":"input_file","file_data":")" + picture + R"("}]}]})";
  const InferenceRequest response = read(Endpoint::kResponses, input);
  EXPECT_EQ(response.size.images, 1U);
  EXPECT_EQ(response.size.files, 1U);
  EXPECT_LT(response.size.text_bytes, 200U);
  EXPECT_EQ(read(Endpoint::kCompletions, R"({"model":"m","prompt":"ä"})").size.non_ascii_bytes, 2U);
}

TEST(RequestSize, FieldsOfAPartWithAUuidAreMediaWhateverItsTypeIs) {
  const auto part = [](const std::string& fields) {
    return read(Endpoint::kChatCompletions,
                R"({"model":"m","messages":[{"role":"user","content":[{)" + fields + "}]}]}");
  };
  const InferenceRequest image = part(R"("type":"text","text":"four","uuid":"u","image_url":{"url":"http://h/i"})");
  EXPECT_EQ(image.size.images, 1U);
  EXPECT_GE(image.size.text_bytes, 4U);
  EXPECT_EQ(part(R"("type":"image_url","uuid":"u","image_url":null,"video_url":null)").size.files, 1U);
  EXPECT_EQ(part(R"("type":"text","text":"t","uuid":"u","image_pil":null)").size.images, 1U);
  EXPECT_EQ(part(R"("type":"audio_embeds","audio_embeds":null,"uuid":"u")").size.audios, 1U);
  EXPECT_EQ(part(R"("type":"video_embeds","video_embeds":null,"uuid":"u")").size.files, 1U);
  // Without a uuid the type decides.
  const InferenceRequest text = part(R"("type":"text","text":")" + std::string(5000, 'x') + R"(","image_url":null)");
  EXPECT_EQ(text.size.images, 0U);
  EXPECT_GE(text.size.text_bytes, 5000U);
  EXPECT_FALSE(image.size.has_embeds || text.size.has_embeds);
  EXPECT_TRUE(part(R"("type":"prompt_embeds","data":"AAAA")").size.has_embeds);
  EXPECT_TRUE(part(R"("type":"text","text":"a","uuid":"u","prompt_embeds":1,"data":"AAAA")").size.has_embeds);
}

TEST(RequestSize, AResponseMayContinueWhatAnEngineKeeps) {
  const auto response = [](const std::string& fields) {
    return read(Endpoint::kResponses, R"({"model":"m","input":"i")" + fields + "}");
  };
  EXPECT_FALSE(response(R"(,"previous_response_id":null,"background":false)").extends_prompt);
  EXPECT_TRUE(response(R"(,"previous_response_id":"resp_1")").extends_prompt);
  EXPECT_TRUE(response(R"(,"conversation":{"id":"c"})").extends_prompt);
  EXPECT_TRUE(response(R"(,"prompt":{"id":"p"})").extends_prompt);
  RequestReader reader;
  InferenceRequest request;
  const auto refused = reader.read(Endpoint::kResponses, R"({"model":"m","input":"i","background":true})", request);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "background");
}

TEST(RequestSize, ReasoningIsHiddenOnlyIfTheRequestLeavesItOut) {
  const auto chat = [](const std::string& fields) {
    return read(Endpoint::kChatCompletions,
                R"({"model":"m","messages":[{"role":"user","content":"c"}])" + fields + "}");
  };
  EXPECT_TRUE(chat(R"(,"include_reasoning":false)").hides_reasoning);
  EXPECT_FALSE(chat(R"(,"include_reasoning":true)").hides_reasoning);
  EXPECT_FALSE(chat("").hides_reasoning);
}

TEST(RequestSize, CountsWhatATemplateMayRender) {
  const auto rendered = [](const std::string& message, const std::string& fields) {
    return read(Endpoint::kChatCompletions,
                R"({"model":"m","messages":[{"role":"user","content":"c")" + message + "}]" + fields + "}")
        .size.rendered_bytes;
  };
  EXPECT_EQ(rendered("", R"(,"metadata":{"a":"bcd"})"), 0U);
  EXPECT_EQ(rendered(R"(,"reasoning_content":"abc")", ""), 5U);
  EXPECT_EQ(rendered("", R"(,"documents":[{"text":"abc"}])"), std::string{R"([{"text":"abc"}])"}.size());
}

}  // namespace
}  // namespace penstock::api
