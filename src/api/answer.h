// OpenAI responses and errors, written for the simulated engine and the gateway's refusals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::api {

struct ApiError {
  int status = 400;
  // OpenAI's error type, also "authentication_error", "rate_limit_error", ….
  std::string_view type = "invalid_request_error";
  std::string_view code;  // For example "model_not_found" or "context_length_exceeded"; empty means null.
  std::string message;
  std::string param;  // Empty means null.
};
// {"error":{"message":…,"type":…,"param":…,"code":…}}
[[nodiscard]] std::string error_body(const ApiError& error);
// The error of a body whose Content-Encoding is not empty and not `identity`: bodies are read as they are.
[[nodiscard]] std::optional<ApiError> encoding_error(std::string_view content_encoding);

struct Usage {
  std::uint32_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  bool cached_known = true;            // False if the engine did not report cached tokens.
  std::uint32_t reasoning_tokens = 0;  // Of the completion.
  bool operator==(const Usage&) const = default;
};

void append_usage(std::string& out, const Usage& usage);  // "usage":{…}

enum class FinishReason : std::uint8_t { kStop, kLength, kAbort };

// Fields that all pieces of one response share.
struct AnswerFrame {
  std::string id;  // "chatcmpl-…", "cmpl-…"
  std::string model;
  std::int64_t created = 0;  // Seconds of Unix time.
  bool chat = true;
};
// Writes a complete response that is not streamed. `kv_transfer_params` is JSON; empty means none.
[[nodiscard]] std::string whole_answer(const AnswerFrame& frame, std::string_view text, FinishReason finish,
                                       const Usage& usage, std::string_view kv_transfer_params = {});
// Append one event of a stream, "data: {…}\n\n". They append, so that a server allocates no string per token.
void append_first_event(std::string& out, const AnswerFrame& frame);
void append_text_event(std::string& out, const AnswerFrame& frame, std::string_view text);
void append_finish_event(std::string& out, const AnswerFrame& frame, FinishReason finish, std::uint32_t choice = 0);
// The event has no choices.
void append_usage_event(std::string& out, const AnswerFrame& frame, const Usage& usage);
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

[[nodiscard]] std::string models_body(std::string_view model, std::int64_t created, std::uint32_t context_tokens);

}  // namespace penstock::api
