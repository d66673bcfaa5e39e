// What Penstock reads of an OpenAI request: the few fields that decide where it goes and what it may cost. The rest of
// the body is never looked at and never changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/endpoints.h"
#include "core/result.h"

namespace penstock::api {

inline constexpr std::size_t kBodyBytesMax = 64 * 1024 * 1024;  // of a request
inline constexpr int kDepthMax = 128;                           // of arrays and objects in each other
inline constexpr std::uint32_t kChoicesMax = 8, kStopsMax = 4;

// Where a value stands in the body, to be put another in its place. size 0: it is not there.
struct Place {
  std::size_t at = 0, size = 0;
};

// Of a prompt whose KV another engine has or shall have: vLLM's `kv_transfer_params` (NIXL connector).
struct KvTransfer {
  bool do_remote_decode = false;   // keep the KV, another engine decodes
  bool do_remote_prefill = false;  // the KV is at the place below
  std::string remote_engine_id, remote_host;
  std::uint32_t remote_port = 0;
  std::vector<std::uint64_t> remote_block_ids;
};

struct InferenceRequest {
  Endpoint endpoint = Endpoint::kChatCompletions;
  std::string model;
  bool stream = false;
  bool include_usage = false;               // stream_options.include_usage
  std::optional<std::uint32_t> max_tokens;  // max_completion_tokens, or max_tokens; of a response, max_output_tokens
  Place max_tokens_place;                   // of its value
  std::uint32_t choices = 1;                // n
  std::vector<std::string> stop;            // 4 at most
  bool ignore_eos = false;                  // vLLM's: always max_tokens long
  std::string user;                         // of OpenAI's field: for affinity and logs, never for who pays
  std::string session_id;                   // `session_id` or `session_params.session_id`
  std::optional<KvTransfer> kv_transfer;
  std::optional<std::int32_t> priority;  // vLLM's
  // It asks for one text and nothing beside it (tools, logprobs, a format …): a stream of it can be put together again.
  bool plain = true;
  // The prompt as one text: of a chat, for each message "role\n", its text and "\n" (text parts of a message in their
  // order); of a completion, the prompt; of others, their fields in the order in which they come. A prompt of token numbers is kept as four bytes each, least first. Two requests
  // that begin with the same messages have texts that begin with the same bytes.
  std::string text;
  std::uint32_t prompt_tokens_given = 0;  // if the prompt was token numbers: how many
  std::size_t object_end = 0;             // of the closing brace of the body: where a field can be added
};

// Reads bodies one after the other and keeps its memory. Not thread-safe.
class RequestReader {
 public:
  RequestReader();
  ~RequestReader();
  RequestReader(const RequestReader&) = delete;
  RequestReader& operator=(const RequestReader&) = delete;

  // Errors have `where` = the parameter at fault ("messages[2].content"; empty for the whole body) and are the client's.
  // `request` is overwritten and keeps its memory. Over 2 GB/s for long prompts.
  [[nodiscard]] core::Result<void> read(Endpoint endpoint, std::string_view body, InferenceRequest& request);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The body with another value of max_tokens, or with that field added. For an endpoint that generates.
[[nodiscard]] std::string with_max_tokens(std::string_view body, const InferenceRequest& request,
                                          std::uint32_t max_tokens);
// The body of a request that is not streamed, with a stream and its usage asked for.
[[nodiscard]] core::Result<std::string> streamed_body(std::string_view body);
// What a prefill engine is sent of a request in front of a prefill→decode pair: max_tokens 1, no stream, and
// kv_transfer_params that ask it to keep the KV. And what the decode engine is sent after that: the body with the
// kv_transfer_params that the prefill engine answered (as JSON).
[[nodiscard]] core::Result<std::string> prefill_body(std::string_view body);
[[nodiscard]] core::Result<std::string> decode_body(std::string_view body, std::string_view kv_transfer_params);
// The `kv_transfer_params` of an answer, as JSON; empty if it has none.
[[nodiscard]] std::string kv_transfer_params_of(std::string_view answer);

}  // namespace penstock::api
