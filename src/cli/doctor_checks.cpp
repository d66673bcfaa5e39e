#include "cli/doctor_checks.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/json_values.h"
#include "core/format.h"
#include "deployment/names.h"
#include "gateway/documents.h"
#include "net/base64.h"
#include "net/http.h"
#include "options/yaml.h"
#include "report/format.h"

namespace penstock::cli {
namespace {

using connect::ApiCall, connect::ApiReason;

constexpr core::Duration kTimeout = std::chrono::seconds{5};
constexpr std::int64_t kHourS = 3'600, kDayS = 24 * kHourS;
constexpr std::size_t kFileBytesMax = 1024 * 1024;

ApiCall review_of(const deployment::AccessRule& rule, const std::string& verb, const std::string& name,
                  const std::string& account) {
  const std::size_t slash = rule.resource.find('/');
  nlohmann::json attributes{{"verb", verb}, {"group", rule.group}, {"resource", rule.resource.substr(0, slash)}};
  if (slash != std::string::npos) attributes["subresource"] = rule.resource.substr(slash + 1);
  if (!rule.in_namespace.empty()) attributes["namespace"] = rule.in_namespace;
  if (!name.empty()) attributes["name"] = name;
  nlohmann::json spec{{"resourceAttributes", std::move(attributes)}};
  if (!account.empty()) {
    spec["user"] = "system:serviceaccount:" + account;
    spec["groups"] = {"system:serviceaccounts", "system:serviceaccounts:" + account.substr(0, account.find(':')),
                      "system:authenticated"};
  }
  ApiCall call;
  call.verb = "create";
  call.resource = {"authorization.k8s.io", "v1", account.empty() ? "selfsubjectaccessreviews" : "subjectaccessreviews"};
  call.content_type = "application/json";
  call.body = nlohmann::json{{"apiVersion", "authorization.k8s.io/v1"},
                             {"kind", account.empty() ? "SelfSubjectAccessReview" : "SubjectAccessReview"},
                             {"spec", std::move(spec)}}
                  .dump();
  return call;
}

std::optional<std::string> content_of(const net::Pem& pem) {
  if (pem.text) return pem.text;
  auto text = options::read_text_file(pem.name, kFileBytesMax);
  return text ? std::optional{*std::move(text)} : std::nullopt;
}

// The end of the first certificate of a PEM text, in seconds since 1970.
std::optional<std::int64_t> certificate_end(const std::string& text) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bytes{BIO_new_mem_buf(text.data(), static_cast<int>(text.size())),
                                                        BIO_free};
  const std::unique_ptr<X509, decltype(&X509_free)> certificate{
      bytes ? PEM_read_bio_X509(bytes.get(), nullptr, nullptr, nullptr) : nullptr, X509_free};
  std::tm end{};
  if (!certificate || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) return std::nullopt;
  return timegm(&end);
}

// The claim `exp` of a token of a service account (RFC 7519).
std::optional<std::int64_t> token_end(const std::string& token) {
  const std::size_t first = token.find('.'), second = token.find('.', first + 1);
  if (second == std::string::npos) return std::nullopt;
  std::string claims = token.substr(first + 1, second - first - 1);
  std::replace(claims.begin(), claims.end(), '-', '+');
  std::replace(claims.begin(), claims.end(), '_', '/');
  claims.append((4 - claims.size() % 4) % 4, '=');
  const nlohmann::json read = nlohmann::json::parse(net::decode_base64(claims), nullptr, false);
  const auto end = read.is_object() ? read.find("exp") : read.end();
  if (!read.is_object() || end == read.end() || !end->is_number_integer()) return std::nullopt;
  return end->get<std::int64_t>();
}

std::vector<std::string> models_listed(const std::string& body) {
  std::vector<std::string> models;
  for (gateway::ListedModel& model : gateway::models_in(body)) models.push_back(std::move(model.id));
  return models;
}

Finding finding_of_end(std::string what, std::int64_t end, std::int64_t now) {
  const auto date = static_cast<std::time_t>(end);
  const std::string day = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(date));
  if (end <= now) return {std::move(what), Finding::State::kMissing, "has expired on " + day + "; renew it"};
  const std::int64_t left = end - now;
  if (left >= 7 * kDayS) return {std::move(what), Finding::State::kPresent, "until " + day};
  const auto [unit, seconds] = left < 2 * kHourS  ? std::pair{"min", std::int64_t{60}}
                               : left < 2 * kDayS ? std::pair{"h", kHourS}
                                                  : std::pair{"days", kDayS};
  return {std::move(what), Finding::State::kPresent, fmt::format("until {}, in {} {}", day, left / seconds, unit)};
}

}  // namespace

core::Result<void> BlockingClient::connect(connect::KubernetesAccess access) {
  connect::KubernetesOptions options;
  options.access = std::move(access);
  options.timeout = kTimeout;
  options.attempts = 2;
  auto started = connect::KubernetesClient::start(loop_, client_, std::move(options), [](const std::string&) {});
  if (!started) return tl::make_unexpected(started.error());
  api_ = *std::move(started);
  return {};
}

connect::ApiAnswer BlockingClient::request(ApiCall call) {
  std::optional<connect::ApiAnswer> answer;
  api_->request(std::move(call), [&](connect::ApiAnswer received) {
    answer = std::move(received);
    loop_.stop();
  });
  while (!answer) loop_.run();
  return *std::move(answer);
}

core::Result<net::FetchAnswer> BlockingClient::get(const net::Url& url, const std::string& path,
                                                   const std::string& field_lines,
                                                   std::shared_ptr<net::TlsContext> tls) {
  const auto addresses = net::Address::resolve(url.host, url.port);
  if (!addresses) return tl::make_unexpected(addresses.error());
  if (url.tls && !tls) {
    auto made = net::TlsContext::client();
    if (!made) return tl::make_unexpected(made.error());
    tls = *std::move(made);
  }
  net::FetchRequest request = net::request_to(url, addresses->front(), path, kTimeout, tls);
  request.field_lines = field_lines;
  std::optional<core::Result<net::FetchAnswer>> answer;
  net::fetch(client_, std::move(request), [&](core::Result<net::FetchAnswer> received) {
    answer = std::move(received);
    loop_.stop();
  });
  while (!answer) loop_.run();
  return *std::move(answer);
}

core::Result<std::vector<Finding>> check_replicas(BlockingClient& client, const gateway::DiscoveryOptions& discovery) {
  const auto credentials = gateway::load_credentials(discovery);
  if (!credentials) return tl::make_unexpected(credentials.error());
  std::vector<Finding> findings;
  for (const gateway::NamedReplica& replica : discovery.replicas) {
    Finding& finding = findings.emplace_back();
    finding.what = "replica " + replica.url;
    finding.state = Finding::State::kMissing;
    const auto url = net::parse_url(replica.url);
    if (!url) {
      finding.detail = url.error().message();
      continue;
    }
    const auto mine = credentials->of(replica.url);
    const auto answer = client.get(*url, "/v1/models", mine ? mine->fields : "", mine ? mine->tls : nullptr);
    if (!answer) {
      finding.detail = answer.error().message();
      continue;
    }
    if (answer->status == 401 || answer->status == 403) {
      finding.detail = fmt::format("/v1/models answers {}; check the credentials of the replica", answer->status);
      continue;
    }
    const std::vector<std::string> models = models_listed(answer->body);
    if (answer->status != 200 || models.empty()) {
      // A replica whose model is given serves without the list.
      if (!replica.model.empty() && answer->status == 404) finding.state = Finding::State::kPresent;
      finding.detail = answer->status == 200 ? "/v1/models lists no models; is it an engine?"
                                             : fmt::format("/v1/models answers {}", answer->status);
    } else if (!replica.model.empty() && std::find(models.begin(), models.end(), replica.model) == models.end()) {
      finding.detail = fmt::format("serves {}, and not its configured model {}; correct its model or its URL",
                                   fmt::join(models, ", "), replica.model);
    } else {
      finding.state = Finding::State::kPresent;
      finding.detail = fmt::format("serves {}", fmt::join(models, ", "));
    }
  }
  return findings;
}

std::optional<std::string> check_reachable(BlockingClient& client, const std::string& in_namespace,
                                           const std::string& account) {
  const deployment::AccessRule rule{in_namespace, "", "pods", {"list"}, {}, {}};
  const auto answer = client.request(review_of(rule, "list", "", account));
  return answer ? std::nullopt : std::optional{answer.error().message()};
}

std::vector<Finding> check_access(BlockingClient& client, const deployment::AccessRule& rule,
                                  const std::string& account) {
  std::vector<Finding> findings;
  const std::vector<std::string> names = rule.names.empty() ? std::vector<std::string>{""} : rule.names;
  for (const std::string& verb : rule.verbs)
    for (const std::string& name : names) {
      Finding& finding = findings.emplace_back();
      finding.what = fmt::format("{} {}{}", verb, rule.resource, name.empty() ? "" : " \"" + name + "\"");
      finding.what +=
          rule.in_namespace.empty() ? " of the cluster" : fmt::format(" in namespace \"{}\"", rule.in_namespace);
      const auto answer = client.request(review_of(rule, verb, name, account));
      if (!answer) {
        finding.state = Finding::State::kUnknown;
        finding.detail = answer.error().message();
        continue;
      }
      const auto status = answer->find("status");
      if (status != answer->end() && status->is_object() && status->value("allowed", false)) continue;
      finding.state = Finding::State::kMissing;
      finding.detail = fmt::format("add to the {}: {} ({})", rule.in_namespace.empty() ? "ClusterRole" : "Role",
                                   role_line(rule), rule.purpose);
    }
  return findings;
}

Finding check_selector(BlockingClient& client, const std::string& in_namespace, const std::string& selector) {
  Finding finding{fmt::format("pods of the selector {} in namespace \"{}\"", selector, in_namespace), {}, {}};
  ApiCall call;
  call.verb = "list";
  call.resource = connect::kPods;
  call.in_namespace = in_namespace;
  call.query = "labelSelector=" + net::encode_query(selector) + "&limit=500";
  const auto answer = client.request(std::move(call));
  if (!answer) {
    const bool is_refused = answer.error().reason == ApiReason::kRejected;
    finding.state = is_refused ? Finding::State::kMissing : Finding::State::kUnknown;
    finding.detail = answer.error().message();
    return finding;
  }
  const auto items = answer->find("items");
  const std::size_t count = items != answer->end() && items->is_array() ? items->size() : 0;
  if (count == 0) {
    finding.state = Finding::State::kMissing;
    finding.detail = "no pod has these labels; compare with `kubectl get pods --show-labels`";
  } else {
    finding.detail = fmt::format("{}{} pods", count, count == 500 ? " or more" : "");
  }
  return finding;
}

Finding check_service(BlockingClient& client, const std::string& in_namespace, const gateway::PodOptions& options) {
  Finding finding{
      fmt::format("endpoints of the Service {} in namespace \"{}\"", options.service, in_namespace), {}, {}};
  ApiCall call;
  call.verb = "list";
  call.resource = connect::kEndpointSlices;
  call.in_namespace = in_namespace;
  call.query = "labelSelector=" + net::encode_query(fmt::format("{}={}", connect::kServiceNameLabel, options.service));
  const auto answer = client.request(std::move(call));
  if (!answer) {
    finding.state = Finding::State::kUnknown;
    finding.detail = answer.error().message();
    return finding;
  }
  std::map<std::string, connect::EndpointSlice> slices;
  for (const nlohmann::json& item : connect::json_part(*answer, "items"))
    slices.emplace(std::to_string(slices.size()), connect::parse_endpoint_slice(item));
  finding.detail = gateway::missing_replicas(slices, options, in_namespace);
  if (!finding.detail.empty())
    finding.state = Finding::State::kMissing;
  else
    finding.detail =
        core::format_replicas(static_cast<std::uint32_t>(gateway::replicas_of(slices, {}, options).size()));
  return finding;
}

std::vector<Finding> check_inference_pool(BlockingClient& client, const std::string& in_namespace,
                                          const gateway::PodOptions& options) {
  Finding finding{fmt::format("InferencePool {} in namespace \"{}\"", options.inference_pool, in_namespace), {}, {}};
  ApiCall call;
  call.verb = "list";
  call.resource = connect::inference_pools(options.inference_pool_group);
  call.in_namespace = in_namespace;
  call.query = "limit=1&fieldSelector=" + net::encode_query("metadata.name=" + options.inference_pool);
  const auto answer = client.request(std::move(call));
  const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json& items = answer ? connect::json_part(*answer, "items") : none;
  if (!answer || !items.is_array() || items.empty()) {
    const bool is_there = !answer && answer.error().reason != ApiReason::kNotFound;
    finding.state = is_there ? Finding::State::kUnknown : Finding::State::kMissing;
    finding.detail = answer     ? "it does not exist; the gateway waits for it"
                     : is_there ? answer.error().message()
                                : "install the definitions of the Gateway API Inference Extension";
    return {finding};
  }
  const connect::InferencePool pool = connect::parse_inference_pool(items[0]);
  if (pool.labels.empty() || pool.ports.empty()) {
    finding.state = Finding::State::kMissing;
    finding.detail = "it needs labels in spec.selector and a port in spec.targetPorts";
    return {finding};
  }
  finding.detail = fmt::format("port {}", fmt::join(pool.ports, ", "));
  return {finding, check_selector(client, in_namespace, pool.selector())};
}

namespace {

// The scale of a target, or of the adapter of a component, whose name is then put in place of the component's.
tl::expected<connect::ApiScale, connect::ApiError> read_scale(BlockingClient& client, const std::string& in_namespace,
                                                              connect::ScaleTarget& target) {
  const bool has_component = !target.component.empty();
  const connect::ScaleTarget scaled = has_component ? adapter_of(target) : target;
  const ApiCall call = connect::get_scale_call(scaled.resource, in_namespace, scaled.name);
  const auto answer = client.request(call);
  if (answer || !has_component || answer.error().reason != ApiReason::kNotFound) {
    target = scaled;
    return answer ? connect::parse_scale(call, *answer) : tl::make_unexpected(answer.error());
  }
  const ApiCall get = connect::get_call(target.resource, in_namespace, target.name);
  const auto object = client.request(get);
  if (!object) return tl::make_unexpected(object.error());
  if (auto scale = component_scale(target, connect::parse_scaled_object(*object))) {
    scale->selector = pod_selector(target, {});
    return *std::move(scale);
  }
  return tl::make_unexpected(
      api_error(get, ApiReason::kNotFound, fmt::format("it has no component \"{}\"", target.component)));
}

// Whether the definition, the object or its /scale is missing. The answer to /scale is the same in all three cases.
std::string cause_of_missing(BlockingClient& client, const std::string& in_namespace,
                             const connect::ScaleTarget& target, const std::string& cause) {
  ApiCall list;
  list.verb = "list";
  list.resource = target.resource;
  list.in_namespace = in_namespace;
  list.query = "limit=1&fieldSelector=" + net::encode_query("metadata.name=" + target.name);
  const auto answer = client.request(std::move(list));
  if (!answer) {
    const bool is_served = answer.error().reason != ApiReason::kNotFound;
    return is_served ? cause + "; create it, install its definition, or name an object that has /scale"
                     : answer.error().message();
  }
  const nlohmann::json& items = connect::json_part(*answer, "items");
  if (!items.is_array() || items.empty()) return "it does not exist; create it, or correct pools[].kubernetes";
  if (!target.component.empty()) return cause + "; correct pools[].kubernetes";
  return fmt::format("{}.{} have no /scale; name an object that has it", target.resource.plural, target.resource.group);
}

}  // namespace

std::vector<Finding> check_target(BlockingClient& client, const std::string& in_namespace,
                                  connect::ScaleTarget target) {
  std::vector<Finding> findings;
  const auto scale = read_scale(client, in_namespace, target);
  Finding finding{fmt::format("target {} in namespace \"{}\"", connect::to_string(target), in_namespace), {}, {}};
  if (!scale) {
    const bool is_missing = scale.error().reason == ApiReason::kNotFound;
    finding.state = is_missing ? Finding::State::kMissing : Finding::State::kUnknown;
    finding.detail = scale.error().message();
    if (is_missing) finding.detail = cause_of_missing(client, in_namespace, target, finding.detail);
    return {finding};
  }
  finding.detail = core::format_replicas(scale->replicas);
  findings.push_back(std::move(finding));
  if (const std::string selector = pod_selector(target, scale->selector); !selector.empty())
    findings.push_back(check_selector(client, in_namespace, selector));
  return findings;
}

std::vector<Finding> check_other_autoscalers(BlockingClient& client, const std::string& in_namespace,
                                             const connect::ScaleTarget& target) {
  std::vector<Finding> findings;
  connect::ScaleTarget scaled = target;
  if (!read_scale(client, in_namespace, scaled)) return {};  // check_target() has reported it.
  ApiCall list;
  list.verb = "list";
  list.resource = connect::kHorizontalAutoscalers;
  list.in_namespace = in_namespace;
  const auto autoscalers = client.request(std::move(list));
  const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json& items = autoscalers ? connect::json_part(*autoscalers, "items") : none;
  for (const nlohmann::json& item : items)
    if (const auto other = connect::parse_horizontal_autoscaler(item); connect::scales(other, scaled))
      findings.push_back({fmt::format("no other autoscaler of {}", connect::to_string(scaled)),
                          Finding::State::kMissing,
                          other.title + " has the same target; remove it, or run the planner with --mode observe"});
  return findings;
}

std::optional<Finding> check_scaling(BlockingClient& client, const std::string& in_namespace,
                                     const connect::ScaleTarget& target) {
  connect::ScaleTarget scaled = target;
  const auto scale = read_scale(client, in_namespace, scaled);
  // check_target() has reported an error. A component without an adapter has no /scale to try.
  if (!scale || !scaled.component.empty()) return std::nullopt;
  ApiCall write =
      connect::set_scale_call(scaled.resource, in_namespace, scaled.name, scale->replicas, scale->resource_version);
  write.query += "&dryRun=All";
  const auto written = client.request(std::move(write));
  Finding finding{
      fmt::format("dry run of scaling {} in namespace \"{}\"", connect::to_string(scaled), in_namespace), {}, {}};
  if (written) return finding;
  if (written.error().reason == ApiReason::kForbidden) return std::nullopt;
  finding.state = written.error().reason == ApiReason::kConflict ? Finding::State::kUnknown : Finding::State::kMissing;
  finding.detail = written.error().message();
  return finding;
}

std::optional<Finding> check_pool_label(const std::string& pool) {
  const auto good = deployment::check_label_value(pool);
  if (good) return std::nullopt;
  return Finding{fmt::format("pool \"{}\" as the label of a HorizontalPodAutoscaler", pool), Finding::State::kMissing,
                 fmt::format("it {}; {}", good.error().what, good.error().hint)};
}

std::vector<Finding> check_expiry(const connect::KubernetesAccess& access, std::int64_t unix_s) {
  std::vector<Finding> findings;
  const auto add = [&](const char* what, const std::optional<std::int64_t>& end) {
    if (end) findings.push_back(finding_of_end(what, *end, unix_s));
  };
  for (const auto& [what, pem] : {std::pair{"certificate authority of the API server", &access.ca},
                                  std::pair{"client certificate", &access.certificate}})
    if (const auto text = pem->empty() ? std::nullopt : content_of(*pem)) add(what, certificate_end(*text));
  std::string token = access.token;
  if (token.empty() && !access.token_file.empty())
    token = options::read_text_file(access.token_file, kFileBytesMax).value_or("");
  add("token", token_end(token));
  return findings;
}

std::string table_of(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, report::printable(finding.what).size());
  std::string text;
  for (const Finding& finding : findings) {
    const char* state = finding.state == Finding::State::kPresent   ? "ok"
                        : finding.state == Finding::State::kMissing ? "missing"
                                                                    : "unknown";
    std::string line = fmt::format("{:<{}}  {:<7}  {}", report::printable(finding.what), width, state,
                                   report::printable(finding.detail));
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace penstock::cli
