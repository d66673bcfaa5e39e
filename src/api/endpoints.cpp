#include "api/endpoints.h"

namespace penstock::api {
namespace {

using enum TextForm;

constexpr TextField kChat[] = {{"messages", kMessages}};
constexpr TextField kCompletion[] = {{"prompt", kPrompt}};
constexpr TextField kResponse[] = {{"input", kAny}, {"instructions", kAny}};
constexpr TextField kEmbedding[] = {{"input", kPrompt}, {"messages", kAny}};
constexpr TextField kReranking[] = {{"query", kAny}, {"documents", kAny}};
// The names in all versions of vLLM.
constexpr TextField kScoring[] = {{"text_1", kAny},  {"text_2", kAny},    {"data_1", kAny}, {"data_2", kAny},
                                  {"queries", kAny}, {"documents", kAny}, {"items", kAny}};

// Indexed by Endpoint.
constexpr EndpointTraits kTraits[] = {
    {"/v1/chat/completions", true, true, true, "max_tokens", kChat},
    {"/v1/completions", true, true, false, "max_tokens", kCompletion},
    {"/v1/responses", true, false, true, "max_output_tokens", kResponse},
    {"/v1/embeddings", false, false, false, "", kEmbedding},
    {"/v1/rerank", false, false, false, "", kReranking},
    {"/v1/score", false, false, false, "", kScoring},
};
static_assert(std::size(kTraits) == kEndpoints.size());

}  // namespace

const EndpointTraits& traits_of(Endpoint endpoint) { return kTraits[static_cast<std::size_t>(endpoint)]; }

}  // namespace penstock::api
