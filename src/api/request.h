// The fields of an OpenAI or Anthropic request that decide where it is routed and what it costs. The rest of the body
// is neither read nor changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/endpoints.h"
#include "api/prompt_size.h"
#include "core/result.h"

namespace penstock::api {

inline constexpr std::size_t kBodyBytesMax = 64 * 1024 * 1024;  // Limit of the body of a request.
inline constexpr std::size_t kReadableBytes = 64;               // Bytes behind a body that the parser may read.
inline constexpr std::size_t kModelBytesMax = 256;  // Limit of the name of a model, which metrics and logs repeat.
inline constexpr int kDepthMax = 128;               // Maximum nesting of arrays and objects.
inline constexpr std::uint32_t kChoicesMax = 128, kStopsMax = 1024;

// Position of a piece of the body, so that it can be replaced. A size of 0 means that it is absent.
struct Location {
  std::size_t at = 0, size = 0;
  [[nodiscard]] std::size_t end() const { return at + size; }
};

// A field of the body that controls engines, up to the key of the next field or to the closing brace.
struct ControlField {
  std::size_t control = 0;  // Index into kEngineControls.
  Location location;
};

// Where a body can be changed, as the reader found it.
struct EditPoints {
  Location max_tokens;                 // Value of the field that limits the output.
  Location other_max_tokens;           // Value of another field that some engines read instead.
  Location thinking, thinking_budget;  // Value of the field of Anthropic's API, and of its budget_tokens.
  Location min_tokens;                 // Value of the field, a vLLM extension, if it is a number.
  std::vector<ControlField> controls;  // Fields that control engines, in their order.
  Location stream_options;             // Value of the field; of an object only its opening brace.
  Location include_usage;              // Value of the option.
  std::size_t object_end = 0;          // The closing brace, where a field can be added.
};

struct InferenceRequest {
  Endpoint endpoint = Endpoint::kChatCompletions;
  std::string model;
  bool stream = false;
  bool include_usage = false;  // stream_options.include_usage
  // The limit of an answer: for a chat max_completion_tokens or else max_tokens, for a completion max_tokens, for a
  // response max_output_tokens, for a message max_tokens.
  std::optional<std::uint32_t> max_tokens;
  bool limits_differ = false;     // The two fields have different values, of which engines may read either.
  std::uint32_t choices = 1;      // n
  std::vector<std::string> stop;  // At most kStopsMax. In Anthropic's API stop_sequences.
  bool ignore_eos = false;        // A vLLM extension: the output always has max_tokens tokens.
  std::string user;  // `user`, or metadata.user_id of Anthropic's API, for affinity and logs, never for accounting.
  std::string session_id;                // `session_id` or `session_params.session_id`
  std::string kv_transfer_params;        // JSON, see kv_transfer.h; empty if there are none.
  std::optional<std::int32_t> priority;  // A vLLM extension.
  std::string cache_salt;                // A vLLM extension: caches are separate for each salt.
  // The request asks for one text without extras (tools, logprobs, a format, …), so that its stream can be assembled
  // again.
  bool plain = true;
  // What the body says of the tokens that an engine counts for it.
  bool cuts_prompt = false;      // Parts of the text may be left out: tools that a template ignores, or a cut prompt.
  bool hides_output = false;     // The answer may have tokens that its text does not show.
  bool hides_reasoning = false;  // The answer leaves reasoning out.
  bool repeats_prompt = false;   // The answer may begin with the prompt.
  bool echoes = false;           // It does.
  bool extends_prompt = false;   // The prompt has parts that an engine keeps, for example an earlier response.
  // The prompt as one text. For a chat: "role\n", the text and "\n" of each message (text parts of a message in order),
  // with tools and the field `system` before them.
  // For a completion: the prompt. For other endpoints: their fields in order. A prompt of token ids is stored as four
  // bytes per id, little-endian. Requests that start with the same messages have texts that start with the same bytes.
  std::string text;
  std::uint32_t prompt_tokens_given = 0;  // Number of token ids if the prompt consists of them.
  PromptSize size;
  EditPoints edit;
};

// Reads one body after another and reuses its memory. Not thread-safe.
class RequestReader {
 public:
  RequestReader();
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Errors are the client's and have `where` = the parameter ("messages[2].content"; empty for the whole body).
  // `request` is overwritten and keeps its memory. Over 2 GB/s for long prompts. A body that is followed by at least
  // kReadableBytes spaces is not copied.
  [[nodiscard]] core::Result<void> read(Endpoint endpoint, std::string_view body, InferenceRequest& request,
                                        std::size_t spaces_behind = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What the gateway changes in a body.
struct BodyChanges {
  std::uint64_t kept_controls = 0;  // One bit for each of kEngineControls whose fields stay; others are dropped.
  std::optional<std::uint32_t> max_tokens;  // For endpoints that generate. A larger min_tokens is lowered to it.
  std::optional<std::int32_t> priority;
  std::string_view cache_salt{};  // Empty: none is set.
  bool include_usage = false;     // The engine reports the usage of a stream that did not request it.
};

// Appends the body with the changes; all other bytes stay. Returns false and appends nothing if nothing changes.
// `points` are those of the same body.
bool append_changed_body(std::string& out, std::string_view body, Endpoint endpoint, const EditPoints& points,
                         const BodyChanges& changes);
// Returns the body of a request that is not streamed with a stream and its usage enabled.
[[nodiscard]] core::Result<std::string> streamed_body(std::string_view body);
// Bodies for a prefill→decode pair. The prefill engine receives the request with max_tokens 1, no stream, and
// kv_transfer_params that ask it to keep the KV. The decode engine receives the body with the kv_transfer_params of the
// prefill engine's response (as JSON).
[[nodiscard]] core::Result<std::string> prefill_body(std::string_view body);
// Body of POST /tokenize, with the fields of the body that determine its prompt; empty if the body is not an object.
[[nodiscard]] std::string tokenize_body(std::string_view body);
[[nodiscard]] core::Result<std::string> decode_body(std::string_view body, std::string_view kv_transfer_params);
// Returns the `kv_transfer_params` of a response as JSON; empty if there are none.
[[nodiscard]] std::string kv_transfer_params_of(std::string_view answer);

}  // namespace penstock::api
