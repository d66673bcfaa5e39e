#include "cli/gateway_reload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <utility>

#include "cli/gateway_setup.h"
#include "options/yaml.h"

namespace penstock::cli {
namespace {

constexpr core::Duration kWatchInterval = std::chrono::milliseconds{250};

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

core::Result<void> use_operands(configuration::GatewaySetup& setup, const std::vector<std::string>& urls) {
  if (!urls.empty()) setup.discovery.replicas.clear();
  for (const std::string& url : urls) setup.discovery.replicas.emplace_back().url = url;
  const gateway::DiscoveryOptions& discovery = setup.discovery;
  if (!discovery.replicas.empty() || !discovery.files.empty() || !discovery.dns.empty()) return {};
  return core::invalid_input({}, "there is no replica to send requests to", "name their URLs, or a --replicas-file");
}

GatewayReloader::GatewayReloader(const LoadedConfiguration& started, const Parsed& parsed, logging::Logger& log)
    : started_(started), parsed_(parsed), log_(log), file_(parsed.value_of("--config")) {}

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
    for (const core::Error& problem : problems)
      log_.write(logging::Event::kConfigReloadFailed, {{"file", file_}, {"error", problem.message()}});
  }
}

options::Problems GatewayReloader::apply(gateway::Gateway& served, gateway::Discovery& discovery) {
  auto next = std::make_unique<LoadedConfiguration>();
  if (options::Problems problems = read_again(*next); !problems.empty()) return problems;
  const configuration::GatewaySetup& setup = next->made.gateway;
  auto options = make_gateway_options(setup);
  if (!options) return {options.error()};
  const auto replace_replicas = discovery.prepare(setup.discovery);
  if (!replace_replicas) return {replace_replicas.error()};
  if (const auto done = served.reconfigure(*std::move(options)); !done) return {done.error()};
  (*replace_replicas)();
  log_.set_level(next->made.log.level);
  log_changes(*next);
  last_ = std::move(next);
  return {};
}

options::Problems GatewayReloader::read_again(LoadedConfiguration& next) const {
  if (file_ == "-")
    return {
        core::Error{core::ErrorCode::kInvalidInput, "--config", "standard input cannot be read again", "name a file"}};
  options::Source source{file_, {}, parsed_.flags};
  if (!file_.empty()) {
    auto text = options::read_text_file(file_, options::YamlLimits{}.bytes_max);
    if (!text) return {text.error()};
    source.yaml = *std::move(text);
  }
  if (const auto read = configuration::load(next.made, next.table, source); !read) return read.error();
  if (const auto used = use_operands(next.made.gateway, parsed_.operands); !used) return {used.error()};
  return {};
}

void GatewayReloader::log_changes(const LoadedConfiguration& next) {
  std::vector<std::string> applied, pending;
  for (const options::Change& change : options::changes(latest().table, next.table)) {
    if (!change.is_reloadable) continue;
    applied.push_back(change.key);
    log_.write(logging::Event::kConfigChanged, {{"key", change.key}, {"from", change.before}, {"to", change.after}});
  }
  for (const options::Change& change : options::changes(started_.table, next.table))
    if (!change.is_reloadable) pending.push_back(change.key);
  log_.write(logging::Event::kConfigReloaded,
             {{"file", file_}, {"applied", fmt::format("{}", fmt::join(applied, ","))}});
  if (!pending.empty())
    log_.write(logging::Event::kRestartNeeded, {{"file", file_}, {"keys", fmt::format("{}", fmt::join(pending, ","))}});
}

}  // namespace penstock::cli
