// The live page and the metrics of the planner over HTTP.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "controller/planner_daemon.h"
#include "dashboard/page.h"
#include "dashboard/pushed_figures.h"
#include "dashboard/recorder.h"
#include "net/access.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::dashboard {

//   GET /                 the page
//   GET /events           server-sent events: "state" and "point" every second or two
//   GET /api/state        the state; /api/points: the points of the charts; /api/history: those since the last report
//   GET /report           the page with all its data as one file
//   GET /metrics          Prometheus' text; /metrics/engines: token metrics; /metrics/llm: its gauges for autoscalers
//   POST /ingest          figures that another program measures
//   GET /health           200 while the planner runs
// Where several deployments are planned, `?deployment=NAME` chooses one for the page and its API; the first is shown
// without it. Metrics are those of all.
// HEAD returns each of them without its body.
enum class DashboardContent : std::uint8_t {
  kAll,
  kMetrics,  // Without the page and its API.
};

class Dashboard final : private net::ExchangeHandler {
 public:
  // Owns the listening socket. /health answers every client; all other paths check the Host field, and credentials if
  // there are any.
  Dashboard(net::Loop& loop, int listening, const controller::PlannerDaemon& daemon, std::string version,
            net::AccessOptions access = {}, std::shared_ptr<net::TlsContext> tls = nullptr,
            DashboardContent content = DashboardContent::kAll, const Recorder* recorder = nullptr);
  ~Dashboard();

  // Another deployment, whose name is in its options.
  void add(const controller::PlannerDaemon& daemon, const Recorder* recorder);
  // New requests need these credentials, and new connections use this certificate.
  void set_access(net::AccessOptions access, std::shared_ptr<net::TlsContext> tls);

 private:
  class Viewer;
  struct Shown {
    const controller::PlannerDaemon& daemon;
    const Recorder* recorder;  // Null: there are neither history nor reports.
    core::Instant last_point;
  };
  void on_request(net::Exchange& exchange) override;
  std::string error_body(int status, std::string_view fault) override;
  void ingest(net::Exchange& exchange);
  // The deployment that a request asks for; null: there is none of that name.
  [[nodiscard]] const Shown* chosen(const net::RequestHead& head) const;
  [[nodiscard]] std::string state_of(const Shown& shown) const;
  void open_events(net::Exchange& exchange, const Shown& shown);
  [[nodiscard]] std::string planner_metrics(telemetry::ExpositionFormat format) const;
  [[nodiscard]] std::vector<telemetry::TokenFigures> token_figures() const;
  [[nodiscard]] std::string engine_metrics(std::string_view path, telemetry::ExpositionFormat format) const;
  void push();

  net::Loop& loop_;
  std::deque<Shown> shown_;  // At least one.
  std::string version_;
  DashboardContent content_;
  net::Address listening_;
  net::AccessPolicy access_;
  Page page_;
  PushedFigures pushed_;
  std::map<Viewer*, std::unique_ptr<Viewer>> viewers_;
  net::Loop::Timer timer_ = 0;
  net::Server server_;
};

}  // namespace penstock::dashboard
