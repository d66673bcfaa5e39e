#include "gateway/admin_server.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "gateway/documents.h"
#include "gateway/epp_metrics.h"
#include "net/number_parameter.h"
#include "telemetry/exposition_format.h"

namespace penstock::gateway {
namespace {

void answer(net::Exchange& exchange, int status, std::string_view type, std::string_view body) {
  std::vector<net::Field> fields{{"Content-Type", type}, {"Cache-Control", "no-store"}};
  if (status == 405) fields.push_back({"Allow", "GET, HEAD"});
  if (status == 401) fields.push_back({"WWW-Authenticate", "Bearer"});
  exchange.respond(status, fields, body);
}

// Probes must reach this address when clients use all descriptors.
net::ServerLimits limits() {
  net::ServerLimits made;
  made.reserved_descriptors = 8;
  return made;
}

}  // namespace

AdminServer::AdminServer(net::Loop& loop, int listening, SharedDispatcher& dispatcher, BudgetExchange& budgets,
                         Totals totals, const Lifecycle& lifecycle, net::AccessOptions access,
                         std::shared_ptr<net::TlsContext> tls)
    : loop_(loop),
      dispatcher_(dispatcher),
      budgets_(budgets),
      totals_(std::move(totals)),
      lifecycle_(lifecycle),
      address_(net::local_address(listening)),
      access_(address_, std::move(access)),
      boot_id_(budgets.process()),
      server_(loop, listening, *this, limits(), std::move(tls)) {}

void AdminServer::on_request(net::Exchange& exchange) {
  const std::string_view path = exchange.head().path();
  if (exchange.head().method != "GET" && exchange.head().method != "HEAD")
    return answer(exchange, 405, "application/json",
                  error_body(405, "the method is not allowed at this address; use GET or HEAD"));
  if (path == "/health") return answer(exchange, 200, "text/plain", "ok\n");
  if (path == "/ready") {
    if (lifecycle_.draining) return answer(exchange, 503, "text/plain", "the gateway drains\n");
    const bool ready = dispatcher_.ready(loop_.now());
    return answer(exchange, ready ? 200 : 503, "text/plain",
                  ready ? "ready\n" : "no replica may be chosen, or models are not known yet\n");
  }
  if (const int refused = access_.refusal(exchange, path == "/penstock/v1/prefixes"); refused != 0)
    return answer(exchange, refused, "application/json", error_body(refused, net::AccessPolicy::explain(refused)));
  if (path == "/metrics" || path == "/metrics/epp") {
    const auto format = telemetry::negotiate_format(exchange.head().joined_field("accept"));
    Overview overview = dispatcher_.overview(loop_.now());
    overview.peers = budgets_.figures();
    return answer(exchange, 200, telemetry::content_type(format),
                  path == "/metrics" ? metrics_text(std::move(overview), totals_(), lifecycle_, format)
                                     : epp_metrics_text(overview, totals_().latencies, format));
  }
  if (path == "/penstock/v1/overview") {
    Overview overview = dispatcher_.overview(loop_.now());
    overview.draining = lifecycle_.draining;
    return answer(exchange, 200, "application/json", overview_document(overview, boot_id_));
  }
  if (path == "/penstock/v1/traffic") return answer_traffic(exchange);
  if (path == "/penstock/v1/budgets") return answer(exchange, 200, "application/json", budgets_.document());
  if (path == "/penstock/v1/prefixes") return answer_prefixes(exchange);
  answer(exchange, 404, "application/json", error_body(404, "there is nothing at this path"));
}

void AdminServer::set_access(net::AccessOptions access, std::shared_ptr<net::TlsContext> tls) {
  access_ = net::AccessPolicy{address_, std::move(access)};
  server_.set_tls(std::move(tls));
}

void AdminServer::answer_traffic(net::Exchange& exchange) {
  constexpr std::uint64_t kEventsMax = 20'000;
  const std::uint64_t after = net::number_parameter(exchange.head(), "after", 0);
  const std::uint64_t limit = std::min(net::number_parameter(exchange.head(), "limit", kEventsMax), kEventsMax);
  answer(exchange, 200, "application/json",
         traffic_document(dispatcher_.traffic(after, limit), boot_id_, net::Loop::read_clock()));
}

void AdminServer::answer_prefixes(net::Exchange& exchange) {
  const core::Instant now = net::Loop::read_clock();
  std::vector<HotPrefix> prefixes;
  if (const HotPrefixCache* hot_prefixes = dispatcher_.hot_prefixes())
    prefixes = hot_prefixes->hot(exchange.head().decoded_parameter("model"), now);
  answer(exchange, 200, "application/json", prefixes_document(prefixes, boot_id_, now));
}

std::string AdminServer::error_body(int status, std::string_view fault) {
  api::ApiError error;
  error.status = status;
  error.message = fault;
  return api::error_body(error);
}

}  // namespace penstock::gateway
