#include "gateway/request_reading.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <limits>

#include "api/engine_controls.h"
#include "api/prompt_keys.h"
#include "api/prompt_truncation.h"
#include "core/key_salt.h"
#include "core/traffic_class.h"
#include "gateway/fields.h"

namespace penstock::gateway {
namespace {

constexpr std::string_view kField = "field";

std::optional<Refusal> authenticate(const WorkerContext& context, const net::RequestHead& head, ReadRequest& read) {
  const KeyOwner* owner = context.settings->owner_of(client_key(head));
  if (owner == nullptr) return unauthenticated();
  read.tenant = read.info.tenant = owner->tenant;
  read.info.key_name = owner->name;
  return std::nullopt;
}

std::optional<Refusal> check_encoding(const net::RequestHead& head) {
  if (auto error = api::encoding_error(head.field("content-encoding"))) return Refusal{*std::move(error)};
  return std::nullopt;
}

std::optional<Refusal> classify(const dispatch::DispatchOptions& options, const net::RequestHead& head,
                                ReadRequest& read) {
  read.info.traffic_class = options.tenants[read.info.tenant].traffic_class;
  const std::string_view name = head.field("x-traffic-class");
  if (name.empty()) return std::nullopt;
  if (name != core::kInteractiveClass && name != core::kBatchClass)
    return make_refusal(400, "invalid_request_error", "invalid_traffic_class",
                        "X-Traffic-Class must be interactive or batch");
  // The class of the tenant is the highest that its requests may have.
  if (name == core::kBatchClass) read.info.traffic_class = admission::Class::kBatch;
  return std::nullopt;
}

// The shorter of the class's limit and the client's.
std::optional<Refusal> limit_time(const dispatch::DispatchOptions& options, const net::RequestHead& head,
                                  ReadRequest& read) {
  const bool batch = read.info.traffic_class == admission::Class::kBatch;
  core::Duration& budget = read.time_budget;
  budget = (batch ? options.batch : options.interactive).time_budget;
  const std::string_view text = head.field("x-time-budget");
  if (text.empty()) return std::nullopt;
  const auto shorter = time_budget_in(text);
  if (!shorter)
    return make_refusal(400, "invalid_request_error", "invalid_time_budget",
                        "X-Time-Budget must be a time above 0, such as 2s or 1500ms");
  read.client_time_budget = *shorter;
  budget = budget > core::Duration{} ? std::min(budget, *shorter) : *shorter;
  return std::nullopt;
}

// The time until which a batch request is answered; a time budget ends it earlier.
std::optional<Refusal> limit_window(const net::RequestHead& head, ReadRequest& read) {
  // Of an interactive request, which may become a batch request, the budget of its class does not count.
  const bool batch = read.info.traffic_class == admission::Class::kBatch;
  const core::Duration budget = batch ? read.time_budget : read.client_time_budget;
  if (budget > core::Duration{}) read.info.completion_window = budget;
  const std::string_view text = head.field("x-completion-window");
  if (text.empty()) return std::nullopt;
  const auto window = time_budget_in(text);
  if (!window)
    return make_refusal(400, "invalid_request_error", "invalid_completion_window",
                        "X-Completion-Window must be a time above 0 and at most a day, such as 5m or 90s");
  read.info.completion_window = std::min(*window, read.info.completion_window.value_or(*window));
  return std::nullopt;
}

Refusal refuse_control(std::string_view name, std::string_view kind) {
  return make_refusal(400, "invalid_request_error", "engine_control",
                      fmt::format("the {} {} is not forwarded to engines; leave it out", kind, name),
                      std::string{kind == kField ? name : std::string_view{}});
}

// Counts header fields that are not forwarded because they control engines, or refuses the request.
std::optional<Refusal> check_header_controls(WorkerContext& context, const net::RequestHead& head) {
  const ForwardOptions& forward = context.settings->options.forward;
  for (const net::Field& field : head.fields) {
    const std::size_t control = header_control_named(field.name);
    if (control == kHeaderControls.size()) continue;
    const auto same = [&](const std::string& name) { return net::equal_fold(name, field.name); };
    if (std::any_of(forward.headers.begin(), forward.headers.end(), same)) continue;
    context.dispatcher.dropped_controls().header(control);
    if (forward.strict) return refuse_control(kHeaderControls[control], "header field");
  }
  return std::nullopt;
}

std::optional<Refusal> check_body_controls(WorkerContext& context) {
  for (const api::ControlField& field : context.scratch.edit.controls) {
    if ((context.settings->kept_controls >> field.control & 1U) != 0) continue;
    context.dispatcher.dropped_controls().field(field.control);
    if (context.settings->options.forward.strict) return refuse_control(api::kEngineControls[field.control], kField);
  }
  // A part of a message cannot be dropped: another prompt would be left.
  constexpr std::size_t kEmbeds = api::engine_control_named("prompt_embeds");
  if (context.scratch.size.has_embeds && (context.settings->kept_controls >> kEmbeds & 1U) == 0)
    return refuse_control(api::kEngineControls[kEmbeds], kField);
  return std::nullopt;
}

std::uint32_t bounded(std::uint64_t tokens) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, std::numeric_limits<std::uint32_t>::max()));
}

// What the request may take of engines and budgets.
void size_up(const dispatch::DispatchOptions& options, const api::InferenceRequest& request,
             dispatch::RequestInfo& info) {
  constexpr std::uint32_t kPromptTokens = 8;  // The most that paths without chats add to a prompt.
  const api::EndpointTraits& traits = api::traits_of(request.endpoint);
  const api::PromptSize& size = request.size;
  info.max_tokens = traits.generates ? request.max_tokens : 0;
  if (!traits.computes) return;
  info.text_bytes = size.text_bytes;
  // From a quarter of the bytes on.
  const bool is_ascii = size.non_ascii_bytes == 0 || size.non_ascii_bytes < size.text_bytes / 4;
  info.text_kind = is_ascii ? admission::TextKind::kAscii : admission::TextKind::kNonAscii;
  info.media_tokens = bounded(std::uint64_t{size.images} * options.media.image_tokens +
                              std::uint64_t{size.audios} * options.media.audio_tokens +
                              std::uint64_t{size.files} * options.media.file_tokens);
  info.prompt_tokens_given = request.prompt_tokens_given;
  info.prompts = size.prompts;
  info.template_tokens = bounded(size.prompts * (traits.takes_tools ? options.media.template_tokens : kPromptTokens) +
                                 size.rendered_bytes);
  info.answers = size.prompts * size.choices;
  if (traits.max_tokens_default > 0 && request.edit.max_tokens.size == 0)
    info.max_tokens_default = traits.max_tokens_default;
  info.writes_max_tokens = request.limits_differ;
  info.cuts_prompt = request.cuts_prompt;
  info.hides_output = request.hides_output;
  info.hides_reasoning = request.hides_reasoning;
  info.extends_prompt = request.extends_prompt;
  info.repeats_prompt = request.repeats_prompt;
}

}  // namespace

std::optional<Refusal> read_head(WorkerContext& context, const net::Exchange& exchange, api::Endpoint endpoint,
                                 std::string_view request_id, ReadRequest& read) {
  const net::RequestHead& head = exchange.head();
  const dispatch::DispatchOptions& options = context.settings->options.dispatch;
  read.info.request_id = request_id;
  read.info.route = api::path_of(endpoint);
  read.info.received_at = exchange.received_at();
  if (auto refusal = authenticate(context, head, read)) return refusal;
  if (auto refusal = check_encoding(head)) return refusal;
  if (auto refusal = check_header_controls(context, head)) return refusal;
  if (auto refusal = classify(options, head, read)) return refusal;
  if (auto refusal = limit_time(options, head, read)) return refusal;
  return limit_window(head, read);
}

core::Result<void> parse_body(api::RequestReader& reader, api::Endpoint endpoint, const net::Body& body,
                              std::uint32_t key_tokens, api::InferenceRequest& request,
                              std::vector<std::uint64_t>& keys) {
  if (auto parsed = reader.read(endpoint, body.view(), request, net::Body::kPadding); !parsed) return parsed;
  api::prompt_keys(request.text, key_tokens * api::kBytesPerToken, keys);
  return {};
}

void describe_prompt(WorkerContext& context, const net::Exchange& exchange, api::Endpoint endpoint, ReadRequest& read) {
  const api::InferenceRequest& request = context.scratch;
  read.cache_salt = context.settings->cache_salts[read.info.tenant];
  read.info.model = request.model;
  size_up(context.settings->options.dispatch, request, read.info);
  read.info.may_count_prompt = endpoint == api::Endpoint::kChatCompletions || endpoint == api::Endpoint::kCompletions;
  read.info.may_truncate_prompt = api::can_truncate(request);
  std::uint64_t salt = 0;
  if (!read.cache_salt.empty()) {
    salt = api::key_salt_of(read.cache_salt);
    core::salt_keys(context.keys, salt);
  }
  read.info.keys = context.keys;
  if (const std::string_view session = session_of(exchange.head(), request); !session.empty())
    read.info.affinity = XXH3_64bits_withSeed(session.data(), session.size(), salt) | 1;
}

std::optional<Refusal> describe_body(WorkerContext& context, const net::Exchange& exchange, api::Endpoint endpoint,
                                     ReadRequest& read) {
  const api::InferenceRequest& request = context.scratch;
  const api::EndpointTraits& traits = api::traits_of(endpoint);
  read.stream = request.stream;
  // A time budget may cut an answer, and only a stream can be cut without losing everything.
  read.collect = read.time_budget > core::Duration{} && !read.stream && request.plain && traits.splits &&
                 traits.dialect == api::Dialect::kOpenAi;
  read.adds_usage = read.stream && !request.include_usage && traits.reports_usage_on_request &&
                    context.settings->options.request_usage;
  read.info.splits = traits.splits;
  read.info.stream = read.stream || read.collect;
  describe_prompt(context, exchange, endpoint, read);
  return check_body_controls(context);
}

core::Duration time_budget_of(const dispatch::DispatchOptions& options, const ReadRequest& read, bool moved_to_batch) {
  if (!moved_to_batch) return read.time_budget;
  const core::Duration of_class = options.batch.time_budget, of_client = read.client_time_budget;
  if (of_class <= core::Duration{} || of_client <= core::Duration{}) return std::max(of_class, of_client);
  return std::min(of_class, of_client);
}

}  // namespace penstock::gateway
