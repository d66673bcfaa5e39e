#include "connect/kubernetes/external_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "connect/kubernetes/json_values.h"
#include "core/equal_fold.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kReviewsMax = 1'000;
constexpr std::size_t kLabelBytesMax = 63;
const ApiResource kReviews{"authorization.k8s.io", "v1", "subjectaccessreviews"};

net::ServerLimits limits() {
  net::ServerLimits made;
  made.body_bytes = 64 * 1024;
  made.connections = 200;
  return made;
}

// Users and selectors come from clients and need not be UTF-8.
std::string json_document_text(const Json& document) {
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void send(net::Exchange& exchange, int status, const Json& document) {
  const net::Field fields[] = {{"Content-Type", "application/json"}};
  exchange.respond(status, fields, json_document_text(document));
}

Json status_document(int status, std::string_view reason, std::string_view message) {
  return {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", Json::object()},
          {"status", "Failure"}, {"message", message}, {"reason", reason},
          {"code", status}};
}

void refuse(net::Exchange& exchange, int status, std::string_view reason, std::string_view message) {
  send(exchange, status, status_document(status, reason, message));
}

std::string group_version() { return fmt::format("{}/{}", ExternalMetrics::kGroup, ExternalMetrics::kVersion); }

Json group_document() {
  const Json version{{"groupVersion", group_version()}, {"version", ExternalMetrics::kVersion}};
  return {{"kind", "APIGroup"},
          {"apiVersion", "v1"},
          {"name", ExternalMetrics::kGroup},
          {"versions", Json::array({version})},
          {"preferredVersion", version}};
}

Json resources_document() {
  const Json resource{{"name", ExternalMetrics::kMetric},
                      {"singularName", ""},
                      {"namespaced", true},
                      {"kind", "ExternalMetricValueList"},
                      {"verbs", {"get", "list"}}};
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", group_version()},
          {"resources", Json::array({resource})}};
}

// The nearest text that Kubernetes accepts as the value of a label; empty: there is none.
std::string label_value(std::string_view text) {
  const auto is_inner = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::string made{text.substr(0, kLabelBytesMax)};
  for (char& c : made)
    if (!is_inner(c) && c != '-' && c != '_') c = '.';
  while (!made.empty() && !is_inner(made.back())) made.pop_back();
  while (!made.empty() && !is_inner(made.front())) made.erase(0, 1);
  return made;
}

Labels labels_of(const RecommendedReplicas& pool) {
  Labels labels{{"pool", label_value(pool.pool)}};
  if (std::string model = label_value(pool.model); !model.empty()) labels.emplace("model", std::move(model));
  return labels;
}

// Reads a list of texts that a ConfigMap holds as JSON.
std::optional<std::vector<std::string>> read_names(const Json& data, const char* key) {
  const Json list = Json::parse(json_text(data, key), nullptr, false);
  if (!list.is_array()) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& each : list) {
    if (!each.is_string()) return std::nullopt;
    names.push_back(each.get<std::string>());
  }
  return names;
}

// Splits "…/namespaces/NAMESPACE/METRIC".
std::optional<std::pair<std::string, std::string>> split_metric(std::string_view path) {
  const std::string before = fmt::format("/apis/{}/namespaces/", group_version());
  if (!path.starts_with(before)) return std::nullopt;
  path.remove_prefix(before.size());
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const std::string_view metric = path.substr(slash + 1);
  if (metric.empty() || metric.find('/') != std::string_view::npos) return std::nullopt;
  return std::pair{std::string{path.substr(0, slash)}, std::string{metric}};
}

}  // namespace

core::Result<FrontProxy> parse_front_proxy(const Json& config_map) {
  constexpr const char* kWhere = "configmap kube-system/extension-apiserver-authentication";
  const Json& data = json_part(config_map, "data");
  FrontProxy made;
  made.ca = json_text(data, "requestheader-client-ca-file");
  if (made.ca.empty())
    return core::environment_error(kWhere, "has no requestheader-client-ca-file",
                                   "start the API server with --requestheader-client-ca-file");
  const auto names = read_names(data, "requestheader-allowed-names");
  auto users = read_names(data, "requestheader-username-headers");
  auto groups = read_names(data, "requestheader-group-headers");
  if (!names || !users || !groups || users->empty())
    return core::environment_error(kWhere, "has lists that are not JSON arrays of texts");
  made.names = {names->begin(), names->end()};
  made.user_fields = *std::move(users);
  made.group_fields = *std::move(groups);
  return made;
}

// A request that waits for the API server's word.
class ExternalMetrics::Waiting final : public net::ExchangeListener {
 public:
  explicit Waiting(net::Exchange& exchange) : exchange_{&exchange} { exchange.listen(this); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  [[nodiscard]] net::Exchange* exchange() const { return exchange_; }  // Null once the client has gone.
  void on_writable() override {}
  void on_client_gone() override { exchange_ = nullptr; }

 private:
  net::Exchange* exchange_;
};

ExternalMetrics::ExternalMetrics(net::Loop& loop, int listening, std::shared_ptr<net::TlsContext> tls,
                                 KubernetesClient& api, Recommended recommended, Options options)
    : loop_{loop},
      api_{api},
      recommended_{std::move(recommended)},
      options_{std::move(options)},
      timer_{loop.every(options_.refresh, [this] { refresh(); })},
      server_{loop, listening, *this, limits(), std::move(tls)} {
  refresh();
}

ExternalMetrics::~ExternalMetrics() { loop_.cancel(timer_); }

void ExternalMetrics::refresh() {
  api_.request(get_call(kConfigMaps, "kube-system", "extension-apiserver-authentication"),
               [this, alive = std::weak_ptr{alive_}](const ApiAnswer& answer) {
                 if (alive.expired()) return;
                 if (!answer) return fail(answer.error().message());
                 const auto proxy = parse_front_proxy(*answer);
                 if (!proxy) return fail(proxy.error().message());
                 take(*proxy);
               });
}

void ExternalMetrics::take(const FrontProxy& proxy) {
  auto tls =
      net::TlsContext::server(options_.certificate, options_.key, net::Pem{"requestheader-client-ca-file", proxy.ca});
  if (!tls) return fail(tls.error().message());
  server_.set_tls(*std::move(tls));
  proxy_ = proxy;
  has_proxy_ = true;
  failure_.clear();
}

// What was read before stays in force.
void ExternalMetrics::fail(const std::string& cause) {
  if (std::exchange(failure_, cause) != cause && options_.on_failure) options_.on_failure(cause);
}

std::string ExternalMetrics::error_body(int status, std::string_view fault) {
  return json_document_text(status_document(status, "BadRequest", fault));
}

bool ExternalMetrics::is_front_proxy(const net::Exchange& exchange) const {
  return has_proxy_ && exchange.client_verified() &&
         (proxy_.names.empty() || proxy_.names.contains(exchange.client_name()));
}

ExternalMetrics::Caller ExternalMetrics::caller_of(const net::RequestHead& head) const {
  Caller caller;
  for (const std::string& name : proxy_.user_fields)
    if (caller.user.empty()) caller.user = head.field(name);
  for (const net::Field& field : head.fields)
    for (const std::string& name : proxy_.group_fields)
      if (core::equal_fold(field.name, name)) caller.groups.emplace_back(field.value);
  std::sort(caller.groups.begin(), caller.groups.end());
  return caller;
}

void ExternalMetrics::on_request(net::Exchange& exchange) {
  const net::RequestHead& head = exchange.head();
  const std::string_view path = head.path();
  if (path == "/healthz" || path == "/livez" || path == "/readyz") return exchange.respond(200, {}, "ok");
  if (!is_front_proxy(exchange))
    return refuse(exchange, 401, "Unauthorized", "only the API server is served, with its front-proxy certificate");
  if (head.method != "GET") return refuse(exchange, 405, "MethodNotAllowed", "the metrics are read with GET");
  if (path == fmt::format("/apis/{}", kGroup)) return send(exchange, 200, group_document());
  if (path == fmt::format("/apis/{}", group_version())) return send(exchange, 200, resources_document());
  auto metric = split_metric(path);
  if (!metric) return refuse(exchange, 404, "NotFound", fmt::format("no path {}", path));
  authorize(exchange, std::move(metric->first), std::move(metric->second));
}

void ExternalMetrics::authorize(net::Exchange& exchange, std::string in_namespace, std::string metric) {
  Caller caller = caller_of(exchange.head());
  if (caller.user.empty()) return refuse(exchange, 401, "Unauthorized", "the request names no user");
  const Json spec{{"user", caller.user},
                  {"groups", caller.groups},
                  {"resourceAttributes",
                   {{"namespace", in_namespace},
                    {"verb", "list"},
                    {"group", kGroup},
                    {"version", kVersion},
                    {"resource", metric}}}};
  ReviewKey key{std::move(caller.user), std::move(caller.groups), in_namespace, metric};
  if (const auto known = reviews_.find(key); known != reviews_.end() && loop_.now() < known->second.until)
    return answer(exchange, known->second.allowed, in_namespace, metric);
  ApiCall call;
  call.verb = "create";
  call.resource = kReviews;
  call.content_type = "application/json";
  call.body =
      json_document_text({{"apiVersion", "authorization.k8s.io/v1"}, {"kind", "SubjectAccessReview"}, {"spec", spec}});
  api_.request(std::move(call), [this, alive = std::weak_ptr{alive_}, key = std::move(key), in_namespace, metric,
                                 waiting = std::make_shared<Waiting>(exchange)](const ApiAnswer& answered) {
    if (alive.expired() || waiting->exchange() == nullptr) return;
    if (!answered)
      return refuse(*waiting->exchange(), 503, "ServiceUnavailable",
                    "the API server does not tell what the user may do: " + answered.error().message());
    const Json& allowed = json_part(json_part(*answered, "status"), "allowed");
    const bool is_allowed = allowed.is_boolean() && allowed.get<bool>();
    if (reviews_.size() >= kReviewsMax) reviews_.clear();
    reviews_[key] = {is_allowed, loop_.now() + options_.review_time};
    answer(*waiting->exchange(), is_allowed, in_namespace, metric);
  });
}

void ExternalMetrics::answer(net::Exchange& exchange, bool allowed, const std::string& in_namespace,
                             const std::string& metric) {
  if (allowed) return answer_metric(exchange, metric);
  refuse(
      exchange, 403, "Forbidden",
      fmt::format("{}.{} is forbidden: the user cannot list it in the namespace \"{}\"", metric, kGroup, in_namespace));
}

void ExternalMetrics::answer_metric(net::Exchange& exchange, const std::string& metric) {
  if (metric != kMetric)
    return refuse(exchange, 404, "NotFound", fmt::format("no metric {}; the metric is {}", metric, kMetric));
  const auto selector = LabelSelector::parse(exchange.head().decoded_parameter("labelSelector"));
  if (!selector) return refuse(exchange, 400, "BadRequest", selector.error().message());
  Json items = Json::array();
  for (const RecommendedReplicas& pool : recommended_()) {
    const Labels labels = labels_of(pool);
    if (!selector->selects(labels)) continue;
    if (!pool.replicas)
      return refuse(exchange, 503, "ServiceUnavailable", fmt::format("pool {}: {}", pool.pool, pool.unknown_because));
    items.push_back({{"metricName", metric},
                     {"metricLabels", labels},
                     {"timestamp", options_.timestamp()},
                     {"value", std::to_string(*pool.replicas)}});
  }
  send(exchange, 200,
       {{"kind", "ExternalMetricValueList"},
        {"apiVersion", group_version()},
        {"metadata", Json::object()},
        {"items", std::move(items)}});
}

}  // namespace penstock::connect
