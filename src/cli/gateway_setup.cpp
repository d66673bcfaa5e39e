#include "cli/gateway_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "cli/console.h"
#include "config/reader.h"
#include "config/scalars.h"
#include "connect/sqlite/ledger_writer.h"
#include "net/tls.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kKeyBytesMax = 4096;

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

core::Result<std::vector<std::string>> keys_of(const config::TenantSettings& tenant) {
  std::vector<std::string> keys = tenant.keys;
  for (const std::string& file : tenant.key_files) {
    auto text = config::read_text_file(file, kKeyBytesMax);
    if (!text) return tl::make_unexpected(text.error());
    keys.push_back(trimmed(*std::move(text)));
  }
  for (const std::string& name : tenant.key_envs) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0')
      return core::invalid_input("tenant " + tenant.name,
                                 "the environment variable " + config::quoted(name) + " is not set");
    keys.emplace_back(value);
  }
  return keys;
}

dispatch::Tenant tenant_of(const config::TenantSettings& from) {
  dispatch::Tenant made;
  made.name = from.name;
  made.weight = from.weight;
  made.tier = from.tier;
  made.budget = {from.tokens_per_minute, from.burst_tokens};
  made.over_budget = from.over_budget == "queue" ? dispatch::OverBudget::kQueue : dispatch::OverBudget::kReject;
  made.concurrent = from.concurrent;
  made.context_tokens = from.context_tokens;
  made.models = from.models;
  made.traffic_class = from.traffic_class == "batch" ? admission::Class::kBatch : admission::Class::kInteractive;
  return made;
}

dispatch::ClassOptions class_of(const config::ClassSettings& from) {
  return {from.queue_time, from.time_budget, {from.tokens_per_minute, 0.0}};
}

class Ledger final : public dispatch::LedgerSink {
 public:
  Ledger(connect::LedgerStore store, logging::Log& log)
      : writer_(std::move(store), {}, [&log](const std::string& message) {
          log.write(logging::Event::kLedger, {{"message", message}});
        }) {}
  void opened(const ledger::Entry& entry) override { writer_.opened(entry); }
  void closed(const ledger::Entry& entry) override { writer_.closed(entry); }

 private:
  connect::LedgerWriter writer_;
};

signals::SloPolicy slo_of(const config::GatewaySettings& settings) {
  signals::SloPolicy slo;
  slo.target = {settings.slo_ttft, settings.slo_itl};
  slo.goal = settings.slo_goal;
  for (const config::SegmentSettings& segment : settings.slo_segments)
    slo.segments.push_back({segment.name,
                            segment.model,
                            segment.traffic_class,
                            segment.tenant,
                            segment.prompt_min,
                            segment.prompt_max,
                            {*segment.ttft, *segment.itl},
                            *segment.goal});
  return slo;
}

core::Result<void> add_tls(const config::GatewaySettings& settings, gateway::GatewayOptions& made) {
  if (!settings.tls_certificate.empty()) {
    auto context = net::TlsContext::server(settings.tls_certificate, settings.tls_key);
    if (!context) return tl::make_unexpected(context.error());
    made.tls = *std::move(context);
  }
  auto context = net::TlsContext::client();
  if (!context) return tl::make_unexpected(context.error());
  made.client_tls = *std::move(context);
  return {};
}

}  // namespace

core::Result<gateway::GatewayOptions> make_gateway_options(const config::GatewaySettings& settings) {
  gateway::GatewayOptions made;
  made.threads = settings.threads == 0 ? std::max(1U, std::thread::hardware_concurrency()) : settings.threads;
  made.server.body_bytes = settings.body_bytes_max;
  made.server.connections = settings.connections_max;
  if (auto done = add_tls(settings, made); !done) return tl::make_unexpected(done.error());
  made.anonymous = settings.anonymous;
  for (const config::TenantSettings& tenant : settings.tenants) {
    auto keys = keys_of(tenant);
    if (!keys) return tl::make_unexpected(keys.error());
    const auto number = static_cast<std::uint32_t>(made.dispatch.tenants.size());
    for (std::string& key : *keys) made.api_keys.push_back({std::move(key), number});
    made.dispatch.tenants.push_back(tenant_of(tenant));
  }
  for (const config::ModelSettings& model : settings.models)
    made.dispatch.models.push_back(
        {model.name, {model.input_price, model.cached_input_price, model.output_price}, model.context_tokens});
  made.dispatch.interactive = class_of(settings.interactive);
  made.dispatch.batch = class_of(settings.batch);
  made.dispatch.queue.requests = settings.queue_requests;
  made.dispatch.pressure.kv_throttle = settings.kv_throttle;
  made.dispatch.pressure.kv_reject = settings.kv_reject;
  made.dispatch.pressure.prefill_tokens_per_replica = settings.prefill_tokens_per_replica;
  made.dispatch.pressure.prefill_tokens_throttled = settings.prefill_tokens_per_replica / 4;
  made.dispatch.pressure.clamp_above_queue_tokens = settings.clamp_above_queue_tokens;
  made.dispatch.pressure.clamp_max_tokens = settings.clamp_max_tokens;
  made.dispatch.picker.slow_start = settings.slow_start;
  made.dispatch.key_tokens = settings.block_tokens;
  made.hot_prefixes = settings.hot_prefixes;
  if (settings.prefix_pings) made.prefix_pings.emplace();
  made.dispatch.retries = settings.retries;
  made.dispatch.retry_share = settings.retry_budget;
  made.dispatch.circuit_breaker = {settings.breaker_failures, settings.breaker_time};
  made.health_interval = settings.health_interval;
  made.scrape_interval = settings.scrape_interval;
  made.first_byte_time = settings.first_byte_time;
  made.silence = settings.silence;
  made.dispatch.slo = slo_of(settings);
  // Request ids and draws need not repeat from run to run.
  made.dispatch.seed = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  return made;
}

core::Result<std::unique_ptr<dispatch::LedgerSink>> open_ledger(const std::string& path, logging::Log& log) {
  if (path.empty()) return std::unique_ptr<dispatch::LedgerSink>{};
  connect::LedgerOptions options;
  options.now_unix_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  auto store = connect::LedgerStore::open(path, options);
  if (!store) return tl::make_unexpected(store.error());
  return std::make_unique<Ledger>(*std::move(store), log);
}

core::Result<net::Address> parse_listen(const std::string& text, std::string_view where) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string::npos ? core::Result<std::uint64_t>{core::invalid_input({}, "")}
                                               : config::parse_count(text.substr(colon + 1), 0, UINT16_MAX);
  if (!port)
    return core::invalid_input(std::string{where}, "must be address:port, is " + config::quoted(text),
                               "as 127.0.0.1:8000, or :8000 for all addresses");
  std::string host = text.substr(0, colon);
  if (host.empty()) host = "0.0.0.0";
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  auto address = net::Address::parse(host, static_cast<std::uint16_t>(*port));
  if (!address) {
    core::Error error = address.error();
    error.where = where;
    return tl::make_unexpected(std::move(error));
  }
  return address;
}

}  // namespace penstock::cli
