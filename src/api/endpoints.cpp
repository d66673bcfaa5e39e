#include "api/endpoints.h"

namespace penstock::api {
namespace {

using enum TextForm;

constexpr TextField kChat[] = {{"messages", kMessages}};
constexpr TextField kCompletion[] = {{"prompt", kPrompt}};
constexpr TextField kResponse[] = {{"input", kAny}, {"instructions", kAny}};
constexpr TextField kMessage[] = {{"messages", kMessages}, {"system", kSystem}};
constexpr TextField kEmbedding[] = {{"input", kPrompt}, {"messages", kAny}};
constexpr TextField kReranking[] = {{"query", kAny}, {"documents", kAny}};
// The names in all versions of vLLM.
constexpr TextField kScoring[] = {{"text_1", kAny},  {"text_2", kAny},    {"data_1", kAny}, {"data_2", kAny},
                                  {"queries", kAny}, {"documents", kAny}, {"items", kAny}};

// Indexed by Endpoint.
constexpr EndpointTraits kTraits[] = {
    {"/v1/chat/completions", true, true, true, true, false, "max_tokens", 0, kChat},
    {"/v1/completions", true, true, true, false, false, "max_tokens", 16, kCompletion},
    {"/v1/responses", true, false, false, true, false, "max_output_tokens", 0, kResponse},
    {"/v1/messages", true, true, false, true, false, "max_tokens", 0, kMessage, Dialect::kAnthropic},
    {"/v1/messages/count_tokens", false, false, false, true, false, "", 0, kMessage, Dialect::kAnthropic, false},
    {"/v1/embeddings", false, false, false, false, false, "", 0, kEmbedding},
    {"/v1/rerank", false, false, false, false, true, "", 0, kReranking},
    {"/v1/score", false, false, false, false, true, "", 0, kScoring},
};
static_assert(std::size(kTraits) == kEndpoints.size());

}  // namespace

const EndpointTraits& traits_of(Endpoint endpoint) { return kTraits[static_cast<std::size_t>(endpoint)]; }

Dialect dialect_of(std::string_view path) {
  const std::string_view messages = path_of(Endpoint::kMessages);
  const bool is_below = path.starts_with(messages) && (path.size() == messages.size() || path[messages.size()] == '/');
  return is_below ? Dialect::kAnthropic : Dialect::kOpenAi;
}

}  // namespace penstock::api
