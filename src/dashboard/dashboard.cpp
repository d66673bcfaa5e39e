#include "dashboard/dashboard.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "dashboard/dashboard_document.h"

namespace penstock::dashboard {
namespace {

constexpr std::size_t kViewersMax = 200;
constexpr std::string_view kRetry = "retry: 1000\n\n";  // Milliseconds until a browser reconnects.
// Responses other than the page need no script or style.
constexpr std::string_view kPolicy = "default-src 'none'; frame-ancestors 'none'";

void answer(net::Exchange& exchange, int status, std::string_view type, std::string_view body,
            std::string_view policy = kPolicy) {
  std::vector<net::Field> fields{{"Content-Type", type},
                                 {"Cache-Control", "no-store"},
                                 {"X-Content-Type-Options", "nosniff"},
                                 {"Referrer-Policy", "no-referrer"},
                                 {"Content-Security-Policy", policy}};
  if (status == 405) fields.push_back({"Allow", "GET, HEAD"});
  // A browser asks its user for a name and a password, which is the token.
  if (status == 401) fields.push_back({"WWW-Authenticate", "Basic realm=\"penstock\""});
  exchange.respond(status, fields, body);
}

std::string event_text(std::string_view name, const std::string& data) {
  std::string text = "event: ";
  text.append(name).append("\ndata: ").append(data).append("\n\n");
  return text;
}

}  // namespace

// A client of the event stream. A slow client misses states, so that they do not accumulate.
class Dashboard::Viewer final : private net::ExchangeListener {
 public:
  // The response has been started.
  Viewer(Dashboard& dashboard, net::Exchange& exchange, const Shown& shown)
      : dashboard_(dashboard), exchange_(exchange), shown_(shown) {
    exchange_.listen(this);
  }
  [[nodiscard]] bool sees(const Shown& shown) const { return &shown == &shown_; }
  void send(std::string_view text) {
    if (keeps_up_) keeps_up_ = exchange_.write(text);
  }

 private:
  void on_writable() override { keeps_up_ = true; }
  void on_client_gone() override { dashboard_.viewers_.erase(this); }

  Dashboard& dashboard_;
  net::Exchange& exchange_;
  const Shown& shown_;
  bool keeps_up_ = true;
};

Dashboard::Dashboard(net::Loop& loop, int listening, const controller::PlannerDaemon& daemon, std::string version,
                     net::AccessOptions access, std::shared_ptr<net::TlsContext> tls, DashboardContent content,
                     const Recorder* recorder)
    : loop_(loop),
      version_(std::move(version)),
      content_(content),
      listening_(net::local_address(listening)),
      access_(listening_, std::move(access)),
      page_(make_page()),
      server_(loop, listening, *this, {}, std::move(tls)) {
  add(daemon, recorder);
  timer_ = loop_.every(std::chrono::seconds{1}, [this] { push(); });
}

Dashboard::~Dashboard() { loop_.cancel(timer_); }

void Dashboard::add(const controller::PlannerDaemon& daemon, const Recorder* recorder) {
  shown_.push_back({daemon, recorder, {}});
}

const Dashboard::Shown* Dashboard::chosen(const net::RequestHead& head) const {
  const std::string name = head.decoded_parameter("deployment");
  if (name.empty()) return &shown_.front();
  const auto found = std::find_if(shown_.begin(), shown_.end(),
                                  [&](const Shown& shown) { return shown.daemon.options().deployment == name; });
  return found == shown_.end() ? nullptr : &*found;
}

std::string Dashboard::state_of(const Shown& shown) const {
  std::vector<std::string> deployments;
  if (shown_.size() > 1)
    for (const Shown& each : shown_) deployments.push_back(each.daemon.options().deployment);
  return state_document(shown.daemon, loop_.now(), version_, Decisions::kNewest, deployments);
}

void Dashboard::set_access(net::AccessOptions access, std::shared_ptr<net::TlsContext> tls) {
  access_ = net::AccessPolicy{listening_, std::move(access)};
  server_.set_tls(std::move(tls));
}

void Dashboard::push() {
  for (Shown& shown : shown_) {
    if (std::none_of(viewers_.begin(), viewers_.end(), [&](const auto& each) { return each.second->sees(shown); }))
      continue;
    std::string text = event_text("state", state_of(shown));
    const auto& points = shown.daemon.points();
    if (!points.empty() && points.back().at != shown.last_point) {
      shown.last_point = points.back().at;
      text += event_text("point", last_point_document(shown.daemon));
    }
    for (const auto& [raw, viewer] : viewers_)
      if (viewer->sees(shown)) viewer->send(text);
  }
}

void Dashboard::on_request(net::Exchange& exchange) {
  const std::string_view path = exchange.head().path();
  if (path == "/ingest" && exchange.head().method == "POST") return ingest(exchange);
  if (exchange.head().method != "GET" && exchange.head().method != "HEAD")
    return answer(exchange, 405, "text/plain", "this address takes GET and HEAD only\n");
  if (path == "/health") return answer(exchange, 200, "text/plain", "ok\n");
  if (path == "/ready")
    return shown_.front().daemon.is_ready()
               ? answer(exchange, 200, "text/plain", shown_.front().daemon.leads() ? "ok\n" : "another planner leads\n")
               : answer(exchange, 503, "text/plain", "no planner is known to lead\n");
  if (const int refused = access_.refusal(exchange); refused != 0)
    return answer(exchange, refused, "text/plain", std::string{net::AccessPolicy::explain(refused)} + "\n");
  if (content_ == DashboardContent::kMetrics && !path.starts_with("/metrics"))
    return answer(exchange, 404, "text/plain", "there are only metrics here: the live page is disabled\n");
  if (path == "/") return answer(exchange, 200, "text/html; charset=utf-8", page_.html, page_.policy);
  if (path == "/metrics" || path == "/metrics/engines" || path == "/metrics/llm") {
    const auto format = telemetry::negotiate_format(exchange.head().joined_field("accept"));
    return answer(exchange, 200, telemetry::content_type(format),
                  path == "/metrics" ? planner_metrics(format) : engine_metrics(path, format));
  }
  const Shown* shown = chosen(exchange.head());
  if (shown == nullptr) return answer(exchange, 404, "text/plain", "there is no deployment of this name\n");
  if (path == "/api/state") return answer(exchange, 200, "application/json", state_of(*shown));
  if (path == "/api/points") return answer(exchange, 200, "application/json", points_document(shown->daemon));
  if (shown->recorder != nullptr && path == "/api/history")
    return answer(exchange, 200, "application/json", shown->recorder->history_document());
  if (shown->recorder != nullptr && path == "/report")
    return answer(exchange, 200, "text/html; charset=utf-8", shown->recorder->report(), page_.policy);
  if (path != "/events") return answer(exchange, 404, "text/plain", "there is nothing at this path\n");
  open_events(exchange, *shown);
}

void Dashboard::open_events(net::Exchange& exchange, const Shown& shown) {
  if (viewers_.size() >= kViewersMax) return answer(exchange, 503, "text/plain", "too many viewers\n");
  const std::vector<net::Field> fields{{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}};
  exchange.start(200, fields);
  if (exchange.head().method == "HEAD") return exchange.finish();
  auto viewer = std::make_unique<Viewer>(*this, exchange, shown);
  viewer->send(std::string{kRetry} +
               (shown.recorder == nullptr ? "" : event_text("history", shown.recorder->history_document())) +
               event_text("points", points_document(shown.daemon)) + event_text("state", state_of(shown)));
  Viewer* raw = viewer.get();
  viewers_.emplace(raw, std::move(viewer));
}

std::string Dashboard::planner_metrics(telemetry::ExpositionFormat format) const {
  std::vector<report::PlannerMetrics> all;
  for (const Shown& shown : shown_)
    if (auto metrics = shown.daemon.metrics()) all.push_back(*std::move(metrics));
  return all.empty() ? std::string{} : report::to_prometheus_text(all, format);
}

std::string Dashboard::engine_metrics(std::string_view path, telemetry::ExpositionFormat format) const {
  std::string text;
  telemetry::ExpositionWriter writer{text, format};
  const auto counts = [this](std::optional<telemetry::MessageCounts> controller::ReplicaView::*of) {
    std::vector<telemetry::ReplicaMessages> all;
    for (const Shown& shown : shown_)
      for (telemetry::ReplicaMessages& each : shown.daemon.message_counts(of)) all.push_back(std::move(each));
    return all;
  };
  if (path == "/metrics/llm") {
    telemetry::append_token_gauges(writer, token_figures());
  } else {
    telemetry::append_token_metrics(writer, token_figures());
    telemetry::append_message_counts(writer, "penstock_fpm_messages", "Forward pass metrics",
                                     counts(&controller::ReplicaView::fpm));
    telemetry::append_message_counts(writer, "penstock_worker_kv_event_messages",
                                     "Messages of Dynamo's workers on KV caches",
                                     counts(&controller::ReplicaView::kv_events));
  }
  writer.finish();
  return text;
}

// Browsers send JSON to other servers only with their consent, so that no foreign page can push figures.
void Dashboard::ingest(net::Exchange& exchange) {
  constexpr std::size_t kBodyBytesMax = 64 * 1024;
  if (const int refused = access_.refusal(exchange); refused != 0)
    return answer(exchange, refused, "text/plain", std::string{net::AccessPolicy::explain(refused)} + "\n");
  if (!exchange.head().field("Content-Type").starts_with("application/json"))
    return answer(exchange, 415, "text/plain", "the content type must be application/json\n");
  if (exchange.body().size() > kBodyBytesMax)
    return answer(exchange, 413, "text/plain", "the body must have at most 64 KiB\n");
  if (const auto added = pushed_.add(exchange.body(), loop_.now()); !added)
    return answer(exchange, 400, "text/plain", added.error().message() + "\n");
  answer(exchange, 204, "text/plain", {});
}

std::vector<telemetry::TokenFigures> Dashboard::token_figures() const {
  std::vector<telemetry::TokenFigures> all;
  for (const Shown& shown : shown_)
    for (telemetry::TokenFigures& figures : shown.daemon.token_figures()) all.push_back(std::move(figures));
  for (telemetry::TokenFigures& pushed : pushed_.figures(loop_.now())) all.push_back(std::move(pushed));
  return all;
}

std::string Dashboard::error_body(int, std::string_view fault) { return std::string{fault} + "\n"; }

}  // namespace penstock::dashboard
