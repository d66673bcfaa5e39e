#include "telemetry/adapter_rules.h"

#include <array>

namespace penstock::telemetry {
namespace {

using enum Figure;

// vLLM 0.6 to 0.32. Penstock's engines use the same names.
constexpr AdapterRule kVllmRules[] = {
    {"vllm:num_requests_waiting", kQueued},
    {"vllm:num_requests_waiting_by_reason", kQueuedOther},
    {"vllm:num_requests_waiting_by_reason", kDeferred, "reason", "deferred"},
    {"vllm:num_requests_running", kRunning},
    {"vllm:kv_cache_usage_perc", kKvUsage},
    {"vllm:gpu_cache_usage_perc", kKvUsageOther},
    {"vllm:prompt_tokens_total", kPromptTokens},
    {"vllm:generation_tokens_total", kGenerationTokens},
    {"vllm:prefix_cache_queries_total", kPrefixQueries},
    {"vllm:gpu_prefix_cache_queries_total", kPrefixQueriesOther},
    {"vllm:prefix_cache_hits_total", kPrefixHits},
    {"vllm:gpu_prefix_cache_hits_total", kPrefixHitsOther},
    {"vllm:num_preemptions_total", kPreemptions},
    {"vllm:engine_sleep_state", kAwake, "sleep_state", "awake"},
    {"vllm:request_success_total", kCompleted, "finished_reason", "stop"},
    {"vllm:request_success_total", kCompleted, "finished_reason", "length"},
    {"vllm:request_success_total", kFailed, "finished_reason", "abort"},
    {"vllm:request_success_total", kFailed, "finished_reason", "error"},
    {"vllm:iteration_tokens_total_count", kIterations},
    {"vllm:iteration_tokens_total", kIterationTokens},
    {"vllm:time_to_first_token_seconds", kTtft},
    {"vllm:inter_token_latency_seconds", kItl},
    {"vllm:time_per_output_token_seconds", kItlOther},
    {"vllm:e2e_request_latency_seconds", kRequest},
    {"vllm:request_queue_time_seconds", kQueue},
    {"vllm:request_time_per_output_token_seconds", kTpot},
    {"vllm:request_prefill_time_seconds", kPrefill},
    {"vllm:request_prompt_tokens", kPromptLength},
    {"vllm:request_generation_tokens", kOutputLength},
    {"decode_queue_len", kPreempted},
    {"kv_cache_bytes_used", kKvUsedBytes},
    {"kv_cache_bytes_capacity", kKvCapacityBytes},
    {"kv_cache_evictions_total", kEvictions},
    {"batch_merge_efficiency", kBatchMergeEfficiency},
    {"penstock_engine_kv_transfers_open", kOpenTransfers},
    {"penstock_engine_queued_prefill_tokens", kQueuedPrefillTokens},
    {"penstock_engine_inflight_prefill_tokens", kInflightPrefillTokens},
    {"penstock_engine_scheduled_kv_tokens", kScheduledKvTokens},
    {"penstock_engine_queued_kv_tokens", kQueuedKvTokens},
    {"penstock_engine_kv_used_tokens", kKvUsedTokens},
    {"penstock_engine_kv_capacity_tokens", kKvCapacityTokens},
    {"penstock_engine_oldest_queued_seconds", kOldestQueuedSeconds},
};

constexpr AdapterRule kSglangRules[] = {
    // With priority scheduling the total has an empty priority, and each priority has a part of it. Counters of tokens
    // and requests have only parts.
    {"sglang:num_queue_reqs", kQueued, "priority", ""},
    {"sglang:num_running_reqs", kRunning, "priority", ""},
    {"sglang:num_prefill_inflight_queue_reqs", kOpenTransfers, "priority", ""},
    {"sglang:num_decode_transfer_queue_reqs", kOpenTransfers, "priority", ""},
    {"sglang:token_usage", kKvUsage},
    {"sglang:kv_used_tokens", kKvUsedTokens},
    {"sglang:max_total_num_tokens", kKvCapacityTokens},
    {"sglang:prompt_tokens_total", kPromptTokens},
    {"sglang:prompt_tokens_total", kPrefixQueries},
    {"sglang:generation_tokens_total", kGenerationTokens},
    // Either all sources combined or, in older versions, one series without the label.
    {"sglang:cached_tokens_total", kPrefixHits, "cache_source", "total"},
    {"sglang:cached_tokens_total", kPrefixHitsOther, "cache_source", ""},
    {"sglang:cached_tokens_total", kPrefixHitsOther, "cache_source", "device"},
    {"sglang:cached_tokens_total", kPrefixHitsOther, "cache_source", "host"},
    {"sglang:num_requests_total", kCompleted},
    {"sglang:num_aborted_requests_total", kFailed},
    {"sglang:num_retracted_requests_total", kPreemptions},
    {"sglang:time_to_first_token_seconds", kTtft},
    {"sglang:inter_token_latency_seconds", kItl},
    {"sglang:time_per_output_token_seconds", kItlOther},
    {"sglang:e2e_request_latency_seconds", kRequest},
    {"sglang:queue_time_seconds", kQueue},
    {"sglang:prompt_tokens_histogram", kPromptLength},
    {"sglang:generation_tokens_histogram", kOutputLength},
};

constexpr AdapterRule kTensorRtLlmRules[] = {
    {"trtllm_num_requests_waiting", kQueued},
    {"trtllm_num_requests_running", kRunning},
    {"trtllm_kv_cache_utilization", kKvUsage},
    {"trtllm_kv_cache_used_blocks", kKvUsedBlocks},
    {"trtllm_kv_cache_max_blocks", kKvCapacityBlocks},
    {"trtllm_kv_cache_tokens_per_block", kBlockTokens},
    {"trtllm_prompt_tokens_total", kPromptTokens},
    {"trtllm_generation_tokens_total", kGenerationTokens},
    {"trtllm_prompt_cached_tokens_total", kPrefixHits},
    {"trtllm_kv_cache_reused_blocks_total", kPrefixHitBlocks},
    {"trtllm_kv_cache_missed_blocks_total", kPrefixMissBlocks},
    {"trtllm_request_success_total", kCompleted, "finished_reason", ""},
    {"trtllm_request_success_total", kCompleted, "finished_reason", "stop"},
    {"trtllm_request_success_total", kCompleted, "finished_reason", "length"},
    {"trtllm_request_error_total", kFailed},
    {"trtllm_time_to_first_token_seconds", kTtft},
    {"trtllm_time_per_output_token_seconds", kItl},
    {"trtllm_e2e_request_latency_seconds", kRequest},
    {"trtllm_request_queue_time_seconds", kQueue},
};

// Triton with the TensorRT-LLM backend; a plain Triton has only the queue and request outcomes.
constexpr AdapterRule kTritonRules[] = {
    {"nv_trt_llm_request_metrics", kQueued, "request_type", "waiting"},
    {"nv_inference_pending_request_count", kQueuedOther},
    {"nv_trt_llm_request_metrics", kActive, "request_type", "active"},
    {"nv_trt_llm_request_metrics", kRunning, "request_type", "scheduled"},
    {"nv_trt_llm_request_metrics", kMaxSequences, "request_type", "max"},
    {"nv_trt_llm_kv_cache_block_metrics", kKvUsage, "kv_cache_block_type", "fraction"},
    {"nv_trt_llm_kv_cache_block_metrics", kKvUsedBlocks, "kv_cache_block_type", "used"},
    {"nv_trt_llm_kv_cache_block_metrics", kKvCapacityBlocks, "kv_cache_block_type", "max"},
    {"nv_trt_llm_kv_cache_block_metrics", kBlockTokens, "kv_cache_block_type", "tokens_per"},
    {"nv_llm_input_token_len_sum", kPromptTokens},
    {"nv_llm_output_token_len_sum", kGenerationTokens},
    {"nv_inference_request_success", kCompleted},
    {"nv_inference_request_failure", kFailed},
    {"nv_inference_first_response_histogram_ms", kTtft, {}, {}, 1e-3},
};

// This server counts tokens of its batch instead of blocks, and has no time to first token.
constexpr AdapterRule kTgiRules[] = {
    {"tgi_queue_size", kQueued},
    {"tgi_batch_current_size", kRunning},
    {"tgi_batch_current_max_tokens", kKvUsedTokens},
    {"tgi_batch_max_total_tokens", kKvCapacityTokens},
    {"tgi_request_input_length_sum", kPromptTokens},
    {"tgi_request_generated_tokens_sum", kGenerationTokens},
    {"tgi_request_success", kCompleted},
    {"tgi_request_failure", kFailed},
    {"tgi_request_mean_time_per_token_duration", kItl},
    {"tgi_request_duration", kRequest},
    {"tgi_request_queue_duration", kQueue},
    {"tgi_request_input_length", kPromptLength},
    {"tgi_request_generated_tokens", kOutputLength},
};

// A front end of many workers: it counts a request as queued until its first token, and as in flight until its end.
constexpr AdapterRule kDynamoRules[] = {
    {"dynamo_frontend_queued_requests", kQueued},
    {"dynamo_frontend_inflight_requests", kActive},
    {"dynamo_frontend_input_sequence_tokens_sum", kPromptTokens},
    {"dynamo_frontend_output_tokens_total", kGenerationTokens},
    {"dynamo_frontend_output_sequence_tokens_sum", kGenerationTokensOther},
    {"dynamo_frontend_input_sequence_tokens_sum", kPrefixQueries},
    {"dynamo_frontend_cached_tokens_sum", kPrefixHits},
    {"dynamo_frontend_model_kv_cache_block_size", kBlockTokens},
    {"dynamo_frontend_requests_total", kCompleted, "status", "success"},
    {"dynamo_frontend_requests_total", kFailed, "status", "error"},
    {"dynamo_frontend_time_to_first_token_seconds", kTtft},
    {"dynamo_frontend_inter_token_latency_seconds", kItl},
    {"dynamo_frontend_request_duration_seconds", kRequest},
    {"dynamo_frontend_input_sequence_tokens", kPromptLength},
    {"dynamo_frontend_output_sequence_tokens", kOutputLength},
};

// Its series have no labels. Computed and cached prompt tokens are counted apart; older versions expose the KV cache.
constexpr AdapterRule kLlamaCppRules[] = {
    {"llamacpp:requests_deferred", kQueued},
    {"llamacpp:requests_processing", kRunning},
    {"llamacpp:kv_cache_usage_ratio", kKvUsage},
    {"llamacpp:kv_cache_tokens", kKvUsedTokens},
    {"llamacpp:prompt_tokens_total", kPromptTokens},
    {"llamacpp:prompt_tokens_cached_total", kPromptTokens},
    {"llamacpp:prompt_tokens_cached_total", kPrefixHits},
    {"llamacpp:tokens_predicted_total", kGenerationTokens},
    {"llamacpp:n_decode_total", kIterations},
};

// llm-d's endpoint picker: figures of each endpoint, read through Prometheus. Requests in flight wait or run there.
constexpr AdapterRule kLlmdEppRules[] = {
    {"llm_d_epp_per_endpoint_queue_size", kQueued},
    {"llm_d_epp_inflight_requests", kActive},
};

constexpr AdapterInfo kVllmInfo = {"vllm:cache_config_info", "block_size", "num_gpu_blocks"};
constexpr AdapterInfo kSglangInfo = {"sglang:cache_config_info", "page_size", "num_pages"};

constexpr std::array<AdapterTable, 9> kTables = {{
    {EngineKind::kPenstock, "penstock_engine_", "model_name", kVllmRules, kVllmInfo},
    {EngineKind::kVllm, "vllm:", "model_name", kVllmRules, kVllmInfo},
    {EngineKind::kSglang, "sglang:", "model_name", kSglangRules, kSglangInfo},
    {EngineKind::kTensorRtLlm, "trtllm_", "model_name", kTensorRtLlmRules, {}},
    {EngineKind::kTriton, "nv_", "model", kTritonRules, {}},
    {EngineKind::kTgi, "tgi_", "model_id", kTgiRules, {}},
    {EngineKind::kDynamo, "dynamo_frontend_", "model", kDynamoRules, {}},
    {EngineKind::kLlamaCpp, "llamacpp:", "model_name", kLlamaCppRules, {}},
    {EngineKind::kLlmdEpp, "llm_d_epp_", "model_name", kLlmdEppRules, {}},
}};

}  // namespace

std::span<const AdapterTable> adapter_tables() { return kTables; }

}  // namespace penstock::telemetry
