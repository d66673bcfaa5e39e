// The fields and their order match the responses of vLLM and OpenAI.
#include "api/answer.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/json_text.h"

namespace penstock::api {
namespace {

void append_number(std::string& out, std::int64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

std::string_view name_of(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : reason == FinishReason::kLength ? "length" : "abort";
}

// {"id":…,"object":…,"created":…,"model":…,"choices":[
void append_head(std::string& out, const AnswerFrame& frame, std::string_view object) {
  out += R"({"id":)";
  append_json_string(out, frame.id);
  out += R"(,"object":")";
  out += object;
  out += R"(","created":)";
  append_number(out, frame.created);
  out += R"(,"model":)";
  append_json_string(out, frame.model);
  out += R"(,"choices":[)";
}

void append_event_head(std::string& out, const AnswerFrame& frame) {
  out += "data: ";
  append_head(out, frame, frame.chat ? "chat.completion.chunk" : "text_completion");
}

void append_or_null(std::string& out, std::string_view text) {
  if (text.empty())
    out += "null";
  else
    append_json_string(out, text);
}

}  // namespace

void append_usage(std::string& out, const Usage& usage) {
  out += R"("usage":{"prompt_tokens":)";
  append_number(out, usage.prompt_tokens);
  out += R"(,"total_tokens":)";
  append_number(out, std::int64_t{usage.prompt_tokens} + usage.completion_tokens);
  out += R"(,"completion_tokens":)";
  append_number(out, usage.completion_tokens);
  out += R"(,"prompt_tokens_details":{"cached_tokens":)";
  append_number(out, usage.cached_tokens);
  out += "}}";
}

std::string error_body(const ApiError& error) {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, error.message);
  out += R"(,"type":)";
  append_json_string(out, error.type);
  out += R"(,"param":)";
  append_or_null(out, error.param);
  out += R"(,"code":)";
  append_or_null(out, error.code);
  out += "}}";
  return out;
}

std::optional<ApiError> encoding_error(std::string_view content_encoding) {
  constexpr std::size_t kShownBytes = 40;
  constexpr std::string_view kIdentity = "identity";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (std::equal(content_encoding.begin(), content_encoding.end(), kIdentity.begin(), kIdentity.end(), same) ||
      content_encoding.empty())
    return std::nullopt;
  std::string message = "Content-Encoding ";
  message.append(content_encoding.substr(0, kShownBytes)).append(" is not supported; send the body uncompressed");
  return ApiError{415, "invalid_request_error", "unsupported_content_encoding", std::move(message), {}};
}

std::string whole_answer(const AnswerFrame& frame, std::string_view text, FinishReason finish, const Usage& usage,
                         std::string_view kv_transfer_params) {
  std::string out;
  out.reserve(text.size() + text.size() / 16 + kv_transfer_params.size() + 512);
  append_head(out, frame, frame.chat ? "chat.completion" : "text_completion");
  out += frame.chat ? R"({"index":0,"message":{"role":"assistant","content":)" : R"({"index":0,"text":)";
  append_json_string(out, text);
  out += frame.chat ? R"(,"refusal":null},"logprobs":null,"finish_reason":")" : R"(,"logprobs":null,"finish_reason":")";
  out += name_of(finish);
  out += R"("}],)";
  append_usage(out, usage);
  if (!kv_transfer_params.empty()) {
    out += R"(,"kv_transfer_params":)";
    out += kv_transfer_params;
  }
  out += '}';
  return out;
}

void append_first_event(std::string& out, const AnswerFrame& frame) {
  if (!frame.chat) return;
  append_event_head(out, frame);
  out += R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]})"
         "\n\n";
}

void append_text_event(std::string& out, const AnswerFrame& frame, std::string_view text) {
  append_event_head(out, frame);
  out += frame.chat ? R"({"index":0,"delta":{"content":)" : R"({"index":0,"text":)";
  append_json_string(out, text);
  out += frame.chat ? "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
                    : ",\"logprobs\":null,\"finish_reason\":null}]}\n\n";
}

void append_finish_event(std::string& out, const AnswerFrame& frame, FinishReason finish, std::uint32_t choice) {
  append_event_head(out, frame);
  out += R"({"index":)";
  append_number(out, choice);
  out += frame.chat ? R"(,"delta":{},"logprobs":null,"finish_reason":")"
                    : R"(,"text":"","logprobs":null,"finish_reason":")";
  out += name_of(finish);
  out += "\"}]}\n\n";
}

void append_usage_event(std::string& out, const AnswerFrame& frame, const Usage& usage) {
  append_event_head(out, frame);
  out += "],";
  append_usage(out, usage);
  out += "}\n\n";
}

std::string models_body(std::string_view model, std::int64_t created, std::uint32_t context_tokens) {
  std::string out = R"({"object":"list","data":[{"id":)";
  append_json_string(out, model);
  out += R"(,"object":"model","created":)";
  append_number(out, created);
  out += R"(,"owned_by":"penstock","root":)";
  append_json_string(out, model);
  out += R"(,"parent":null,"max_model_len":)";
  append_number(out, context_tokens);
  out += "}]}";
  return out;
}

}  // namespace penstock::api
