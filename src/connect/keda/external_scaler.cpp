#include "connect/keda/external_scaler.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/protobuf.h"

namespace penstock::connect {
namespace {

using net::GrpcStatus;

constexpr std::string_view kService = "/externalscaler.ExternalScaler/";
constexpr core::Duration kPushInterval = std::chrono::milliseconds{100};
constexpr std::array<std::string_view, 5> kMethods{"IsActive", "StreamIsActive", "GetMetricSpec", "GetMetrics",
                                                   "StreamMetricSpec"};

// The trigger that calls.
struct Trigger {
  std::string pool, model;
  std::optional<std::string> metric;  // That of GetMetrics.
};

bool read_metadata(std::string_view entry, Trigger& trigger) {
  core::protobuf::Reader reader{entry};
  std::string_view key, value;
  while (const auto field = reader.next()) {
    if (field->number == 1) key = field->bytes;
    if (field->number == 2) value = field->bytes;
  }
  if (key == "pool") trigger.pool = value;
  if (key == "model") trigger.model = value;
  return reader.is_valid();
}

bool read_object(std::string_view message, Trigger& trigger) {
  core::protobuf::Reader reader{message};
  while (const auto field = reader.next())
    if (field->number == 3 && !read_metadata(field->bytes, trigger)) return false;
  return reader.is_valid();
}

bool read_metrics_request(std::string_view message, Trigger& trigger) {
  core::protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    if (field->number == 1 && !read_object(field->bytes, trigger)) return false;
    if (field->number == 2) trigger.metric = field->bytes;
  }
  return reader.is_valid();
}

// The doubles are preferred by KEDA unless they are 0, and then the integers count.
std::string metric_list(std::uint32_t value) {
  core::protobuf::Writer metric, list;
  metric.bytes(1, ExternalScaler::kMetric);
  metric.varint(2, value);
  metric.real(3, value);
  list.bytes(1, metric.message());
  return list.message();
}

std::string is_active(bool active) {
  core::protobuf::Writer answer;
  if (active) answer.varint(1, 1);
  return answer.message();
}

std::string pools_text(const std::vector<RecommendedReplicas>& pools) {
  std::string text;
  for (const RecommendedReplicas& pool : pools) text += (text.empty() ? "" : ", ") + pool.pool;
  return text;
}

struct Found {
  const RecommendedReplicas* pool = nullptr;
  GrpcStatus status = GrpcStatus::kOk;
  std::string text;
};

Found find(const std::vector<RecommendedReplicas>& pools, const Trigger& trigger) {
  if (trigger.pool.empty() && pools.size() != 1)
    return {nullptr, GrpcStatus::kInvalidArgument,
            "the trigger's metadata must name the pool: \"pool\" is one of " + pools_text(pools)};
  const auto pool = std::find_if(pools.begin(), pools.end(), [&](const RecommendedReplicas& each) {
    return trigger.pool.empty() || each.pool == trigger.pool;
  });
  if (pool == pools.end())
    return {nullptr, GrpcStatus::kNotFound, "no pool " + trigger.pool + "; the pools are " + pools_text(pools)};
  if (!trigger.model.empty() && !pool->model.empty() && pool->model != trigger.model)
    return {nullptr, GrpcStatus::kNotFound, "pool " + pool->pool + " serves " + pool->model + ", not " + trigger.model};
  return {&*pool, GrpcStatus::kOk, {}};
}

std::string_view name_of(GrpcStatus status) {
  switch (status) {
    case GrpcStatus::kOk: return "OK";
    case GrpcStatus::kInvalidArgument: return "INVALID_ARGUMENT";
    case GrpcStatus::kNotFound: return "NOT_FOUND";
    case GrpcStatus::kResourceExhausted: return "RESOURCE_EXHAUSTED";
    case GrpcStatus::kUnimplemented: return "UNIMPLEMENTED";
    case GrpcStatus::kInternal: return "INTERNAL";
    case GrpcStatus::kUnavailable: return "UNAVAILABLE";
  }
  return "UNKNOWN";
}

}  // namespace

ExternalScaler::ExternalScaler(net::Loop& loop, int listening, Recommended recommended,
                               std::shared_ptr<net::TlsContext> tls)
    : recommended_{std::move(recommended)},
      loop_{loop},
      timer_{loop.every(kPushInterval, [this] { push(); })},
      server_{loop, listening, *this, {}, std::move(tls)} {}

ExternalScaler::~ExternalScaler() { loop_.cancel(timer_); }

void ExternalScaler::end(net::GrpcCall& call, std::string_view method, GrpcStatus status, std::string_view text) {
  ++counts_[{method, name_of(status)}];
  call.finish(status, text);
}

void ExternalScaler::on_message(net::GrpcCall& call, std::string_view message, bool is_first) {
  const std::string_view path = call.path();
  const auto method = std::find_if(kMethods.begin(), kMethods.end(), [&](std::string_view name) {
    return path.starts_with(kService) && path.substr(kService.size()) == name;
  });
  if (method == kMethods.end()) return end(call, "other", GrpcStatus::kUnimplemented, "no method " + std::string{path});
  if (!is_first) {
    streams_.erase(&call);
    return end(call, *method, GrpcStatus::kInvalidArgument, "the call takes one message");
  }
  Trigger trigger;
  if (!(*method == "GetMetrics" ? read_metrics_request(message, trigger) : read_object(message, trigger)))
    return end(call, *method, GrpcStatus::kInvalidArgument, "the message is malformed");
  const std::vector<RecommendedReplicas> pools = recommended_();
  const Found found = find(pools, trigger);
  if (found.pool == nullptr) return end(call, *method, found.status, found.text);
  if (trigger.metric && *trigger.metric != kMetric)
    return end(call, *method, GrpcStatus::kNotFound,
               "no metric " + *trigger.metric + "; the metric is " + std::string{kMetric});
  if (method->starts_with("Stream")) {
    if (draining_) return end(call, *method, GrpcStatus::kUnavailable, "the planner ends");
    Stream& stream = streams_[&call] = {found.pool->pool, *method == "StreamMetricSpec", {}, false};
    return push(call, stream, *found.pool);
  }
  if (*method == "GetMetricSpec") {
    call.send(metric_list(1));
  } else {
    if (!found.pool->replicas) return end(call, *method, GrpcStatus::kUnavailable, found.pool->unknown_because);
    call.send(*method == "IsActive" ? is_active(*found.pool->replicas > 0) : metric_list(*found.pool->replicas));
  }
  end(call, *method, GrpcStatus::kOk);
}

void ExternalScaler::on_gone(net::GrpcCall& call) { streams_.erase(&call); }

void ExternalScaler::push() {
  if (streams_.empty()) return;
  const std::vector<RecommendedReplicas> pools = recommended_();
  for (auto& [call, stream] : streams_)
    for (const RecommendedReplicas& pool : pools)
      if (pool.pool == stream.pool) push(*call, stream, pool);
}

void ExternalScaler::push(net::GrpcCall& call, Stream& stream, const RecommendedReplicas& pool) {
  if (call.unsent() > 0) return;  // The client does not read; it gets the newest state later.
  if (stream.is_spec) {
    if (!std::exchange(stream.sent_spec, true)) call.send(metric_list(1));
    return;
  }
  if (!pool.replicas || stream.sent_active == (*pool.replicas > 0)) return;
  stream.sent_active = *pool.replicas > 0;
  call.send(is_active(*stream.sent_active));
}

void ExternalScaler::end_streams() {
  for (auto& [call, stream] : std::exchange(streams_, {}))
    end(*call, stream.is_spec ? "StreamMetricSpec" : "StreamIsActive", GrpcStatus::kOk);
}

void ExternalScaler::disconnect() {
  end_streams();
  server_.disconnect();
}

void ExternalScaler::drain() {
  draining_ = true;
  end_streams();
  server_.drain();
}

std::vector<ExternalScaler::CallCount> ExternalScaler::calls() const {
  std::vector<CallCount> made;
  for (const auto& [names, count] : counts_) made.push_back({names.first, names.second, count});
  return made;
}

}  // namespace penstock::connect
