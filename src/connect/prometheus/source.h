// A Prometheus server as the source of the engines' telemetry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connect/prometheus/query_answer.h"
#include "core/result.h"
#include "core/time.h"
#include "net/address.h"
#include "net/client.h"
#include "net/credentials.h"
#include "net/fetch.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::connect {

struct SignalQuery {
  std::string signal;  // One of queried_signals().
  std::string query;
};

struct PrometheusOptions {
  std::string url;  // "https://prometheus.example:9090/prefix"; empty: there is no such source.
  net::CredentialOptions credentials;
  std::vector<std::string> parameters;  // "name=value", sent with each query.
  core::Duration interval = std::chrono::seconds{5};
  core::Duration window = std::chrono::seconds{30};  // Older values are stale.
  std::string preset = "none";                       // Kind of engine.
  std::string matchers;                              // Further label matchers of the preset.
  std::string replica_label = "instance";
  std::vector<SignalQuery> queries;                      // They come before the preset's figures.
  net::Resolver::Lookup lookup = net::Address::resolve;  // Tests replace it.
};

// The outcome of one query.
struct QueryReport {
  std::string query;  // The preset or the signal.
  std::string error;  // Empty after a success.
  std::size_t series = 0;
  std::vector<std::string> replicas;  // Values of the replica label.
};

// Lives on one loop.
class PrometheusSource {
 public:
  struct Listener {
    // After each round of queries. Figures of a failed query are missing.
    std::function<void(const QueriedReplicas&)> readings;
    std::function<void(const QueryReport&)> report;  // When the outcome of a query changed, and for the first one.
  };

  // Fails if the URL is invalid, a credential cannot be read, or there is nothing to query.
  [[nodiscard]] static core::Result<std::unique_ptr<PrometheusSource>> start(net::Loop& loop, net::Client& client,
                                                                             PrometheusOptions options);
  ~PrometheusSource();
  PrometheusSource(const PrometheusSource&) = delete;
  PrometheusSource& operator=(const PrometheusSource&) = delete;

  void listen(Listener listener);  // Begins the first round. An empty listener ends the calls.

 private:
  struct Query {
    std::string name, text;
    std::optional<QueryReport> reported;
    std::vector<QueriedSeries> series;  // Of this round.
  };

  PrometheusSource(net::Loop& loop, net::Client& client, PrometheusOptions options, net::Url url,
                   net::CredentialStore credentials);
  void begin_round();
  void send_queries();
  void take(std::size_t index, const core::Result<net::FetchAnswer>& answer);
  void report(Query& query, QueryReport outcome);
  void end_round();

  net::Loop& loop_;
  net::Client& client_;
  PrometheusOptions options_;
  net::Url url_;
  net::CredentialStore credentials_;
  std::string parameters_;  // Encoded.
  std::optional<net::Address> address_;
  std::size_t addresses_failed_ = 0;
  std::vector<Query> queries_;  // The preset first, if there is one.
  std::size_t open_ = 0;        // Queries of this round without an answer.
  Listener listener_;
  net::Loop::Timer timer_ = 0;
  net::Resolver resolver_;
};

}  // namespace penstock::connect
