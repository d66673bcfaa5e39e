#include "connect/prometheus/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "net/http.h"

namespace penstock::connect {
namespace {

constexpr core::Duration kTimeout = std::chrono::seconds{10};
constexpr std::size_t kAnswerBytesMax = 64 * 1024 * 1024;

std::vector<std::string> replicas_in(const std::vector<QueriedSeries>& series, const std::string& label) {
  std::set<std::string> names;
  for (const QueriedSeries& each : series)
    if (const auto found = each.labels.find(label); found != each.labels.end() && !found->second.empty())
      names.insert(found->second);
  return {names.begin(), names.end()};
}

}  // namespace

core::Result<std::unique_ptr<PrometheusSource>> PrometheusSource::start(net::Loop& loop, net::Client& client,
                                                                        PrometheusOptions options) {
  auto url = net::parse_url(options.url);
  if (!url) return core::invalid_input("prometheus.url", url.error().message());
  if (options.preset == "none" && options.queries.empty())
    return core::invalid_input("prometheus", "has neither a preset nor queries");
  for (const std::string& parameter : options.parameters)
    if (parameter.find('=') == std::string::npos || parameter.front() == '=')
      return core::invalid_input("prometheus.parameters", "must be like name=value, is \"" + parameter + "\"");
  auto credentials = net::CredentialStore::load(options.credentials, {});
  if (!credentials) return core::invalid_input("prometheus", credentials.error().message());
  return std::unique_ptr<PrometheusSource>{
      new PrometheusSource{loop, client, std::move(options), *std::move(url), *std::move(credentials)}};
}

PrometheusSource::PrometheusSource(net::Loop& loop, net::Client& client, PrometheusOptions options, net::Url url,
                                   net::CredentialStore credentials)
    : loop_(loop),
      client_(client),
      options_(std::move(options)),
      url_(std::move(url)),
      credentials_(std::move(credentials)),
      resolver_(loop, options_.lookup) {
  if (options_.preset != "none")
    queries_.push_back(
        {options_.preset, preset_query(options_.preset, options_.matchers, options_.window), std::nullopt, {}});
  for (const SignalQuery& query : options_.queries) queries_.push_back({query.signal, query.query, std::nullopt, {}});
  for (const std::string& parameter : options_.parameters) {
    const std::size_t equals = parameter.find('=');
    parameters_ +=
        "&" + net::encode_query(parameter.substr(0, equals)) + "=" + net::encode_query(parameter.substr(equals + 1));
  }
  // Newer servers also limit the age of values in other queries by this parameter; others ignore it.
  parameters_ += fmt::format("&lookback_delta={}s", std::max(1.0, core::to_seconds(options_.window)));
  timer_ = loop_.every(options_.interval, [this] { begin_round(); });
}

PrometheusSource::~PrometheusSource() { loop_.cancel(timer_); }

void PrometheusSource::listen(Listener listener) {
  listener_ = std::move(listener);
  if (listener_.readings) begin_round();
}

void PrometheusSource::begin_round() {
  if (open_ > 0 || !listener_.readings) return;
  open_ = queries_.size();
  if (address_) return send_queries();
  resolver_.resolve(url_.host, url_.port, [this](const net::Resolver::Addresses& addresses) {
    if (addresses) {
      // After a failure the next address has its turn.
      address_ = (*addresses)[addresses_failed_ % addresses->size()];
      return send_queries();
    }
    for (std::size_t index = 0; index < queries_.size(); ++index) take(index, tl::make_unexpected(addresses.error()));
  });
}

void PrometheusSource::send_queries() {
  const auto credentials = credentials_.of(options_.url);
  for (std::size_t index = 0; index < queries_.size(); ++index) {
    net::FetchRequest request =
        net::request_to(url_, *address_, "/api/v1/query", kTimeout, credentials ? credentials->tls : nullptr);
    request.method = "POST";
    const net::Field type{"Content-Type", "application/x-www-form-urlencoded"};
    request.fields = {type};
    if (credentials) request.field_lines = credentials->fields;
    request.body = "query=" + net::encode_query(queries_[index].text) + parameters_;
    request.answer_bytes_max = kAnswerBytesMax;
    net::fetch(client_, std::move(request),
               [this, index](const core::Result<net::FetchAnswer>& answer) { take(index, answer); });
  }
}

void PrometheusSource::take(std::size_t index, const core::Result<net::FetchAnswer>& answer) {
  Query& query = queries_[index];
  query.series.clear();
  QueryReport outcome;
  outcome.query = query.name;
  auto parsed = answer ? parse_query_answer(answer->status, answer->body, query.text)
                       : core::Result<std::vector<QueriedSeries>>{tl::make_unexpected(answer.error())};
  if (parsed) {
    query.series = *std::move(parsed);
    outcome.series = query.series.size();
    outcome.replicas = replicas_in(query.series, options_.replica_label);
    if (query.series.empty())
      outcome.error = fmt::format("no series has a value of the last {:g} s", core::to_seconds(options_.window));
    else if (outcome.replicas.empty())
      outcome.error = fmt::format("none of {} series has the label {}", outcome.series, options_.replica_label);
  } else {
    outcome.error = parsed.error().message();
    if (!answer && address_) ++addresses_failed_;
    address_.reset();  // The name may have another address by now.
  }
  report(query, std::move(outcome));
  if (--open_ == 0) end_round();
}

void PrometheusSource::report(Query& query, QueryReport outcome) {
  const bool is_known =
      query.reported && query.reported->error == outcome.error && query.reported->replicas == outcome.replicas;
  query.reported = std::move(outcome);
  if (!is_known && listener_.report) listener_.report(*query.reported);
}

void PrometheusSource::end_round() {
  QueriedReplicas replicas;
  for (std::size_t index = 0; index < queries_.size(); ++index) {
    const Query& query = queries_[index];
    if (index == 0 && options_.preset != "none")
      replicas = read_preset(query.series, options_.replica_label);
    else
      add_signal(replicas, query.name, query.series, options_.replica_label);
  }
  if (listener_.readings) listener_.readings(replicas);
}

}  // namespace penstock::connect
