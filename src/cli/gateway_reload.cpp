#include "cli/gateway_reload.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cli/gateway_setup.h"
#include "net/unix_time.h"

namespace penstock::cli {
namespace {

constexpr core::Duration kWatchInterval = std::chrono::milliseconds{250};

std::int64_t unix_seconds() { return std::chrono::duration_cast<std::chrono::seconds>(net::unix_time()).count(); }

}  // namespace

core::Result<void> use_operands(configuration::GatewaySetup& setup, const std::vector<std::string>& urls) {
  if (!urls.empty()) setup.discovery.replicas.clear();
  for (const std::string& url : urls) setup.discovery.replicas.emplace_back().url = url;
  const gateway::DiscoveryOptions& discovery = setup.discovery;
  if (!discovery.replicas.empty() || !discovery.files.empty() || !discovery.dns.empty() || discovery.pods.follows_any())
    return {};
  return core::invalid_input({}, "there is no replica to send requests to",
                             "name their URLs, a --replicas-file, or gateway.kubernetes.selector, .service or "
                             ".inference_pool");
}

GatewayReloader::GatewayReloader(const LoadedConfiguration& started, const Parsed& parsed,
                                 configuration::Configuration defaults, logging::Logger& log)
    : started_(started),
      parsed_(parsed),
      defaults_(std::move(defaults)),
      log_(log),
      file_(parsed.value_of("--config")) {}

void GatewayReloader::watch(net::Loop& loop, gateway::Gateway& served, gateway::Discovery& discovery) {
  stamps_.follow(watched_files(file_, current().gateway));
  loop.every(kWatchInterval, [this, &served, &discovery] {
    if (current().gateway.watch && stamps_.changed()) reload(served, discovery);
  });
}

void GatewayReloader::reload(gateway::Gateway& served, gateway::Discovery& discovery) {
  gateway::Lifecycle& lifecycle = served.lifecycle();
  stamps_.accept();  // Before the files are read: a later change is noticed.
  if (const options::Problems problems = apply(served, discovery); problems.empty()) {
    ++lifecycle.reloads_applied;
    lifecycle.applied_unix_s = unix_seconds();
    stamps_.follow(watched_files(file_, current().gateway));
  } else {
    ++lifecycle.reloads_rejected;
    lifecycle.rejected_unix_s = unix_seconds();
    log_problems(log_, file_, problems);
  }
}

options::Problems GatewayReloader::apply(gateway::Gateway& served, gateway::Discovery& discovery) {
  auto next = std::make_unique<LoadedConfiguration>(defaults_);
  if (options::Problems problems = read_again(parsed_, latest(), *next); !problems.empty()) return problems;
  if (const auto used = use_operands(next->made.gateway, parsed_.operands); !used) return {used.error()};
  const configuration::GatewaySetup& setup = next->made.gateway;
  gateway::GatewayOptions options = make_gateway_options(setup, *next->reading);
  if (!next->reading->good()) return next->reading->problems();
  const auto replace_replicas = discovery.prepare(setup.discovery);
  if (!replace_replicas) return {replace_replicas.error()};
  if (const auto done = served.reconfigure(std::move(options)); !done) return {done.error()};
  (*replace_replicas)();
  log_.set_level(next->made.log.level);
  log_reload(log_, file_, changes_to(*next));
  last_ = std::move(next);
  return {};
}

ReloadChanges GatewayReloader::changes_to(const LoadedConfiguration& next) const {
  const std::vector<std::string_view> groups = configuration::gateway_groups();
  const auto is_ours = [&](const options::Change& change) {
    return std::find(groups.begin(), groups.end(), change.group) != groups.end();
  };
  ReloadChanges found;
  for (options::Change& change : options::changes(latest().table, next.table))
    if (change.is_reloadable && is_ours(change)) found.applied.push_back(std::move(change));
  for (options::Change& change : options::changes(started_.table, next.table))
    if (!change.is_reloadable && is_ours(change)) found.pending.push_back(std::move(change));
  found.loosened = loosened_of(configuration::LoosenedLimit::Process::kGateway, next);
  return found;
}

}  // namespace penstock::cli
