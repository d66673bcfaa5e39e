// `penstock gateway`: the OpenAI API in front of many replicas.
#include "gateway/gateway.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "configuration/configuration.h"
#include "gateway/discovery.h"
#include "net/descriptors.h"
#include "net/signals.h"
#include "options/reference.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kAccessLinesMax = 65'536;  // Lines that wait to be written.

Usage gateway_usage(const options::Table& table) {
  Usage usage;
  usage.command = "gateway";
  usage.summary =
      "Serves the OpenAI API in front of many replicas: authenticates, admits, routes by prefix cache and load, "
      "relays\n"
      "tokens as they come, and accounts for them. Replicas are any OpenAI-compatible servers.";
  usage.operand = "URL";
  usage.many_operands = true;
  usage.flags.push_back(
      {"Flags", "--config", "FILE", "YAML with everything that flags say, tenants, models, classes", {}, {}});
  usage.flags.push_back({"Flags", "--options-markdown", {}, "print the reference of all options and end", {}, "true"});
  // The gateway reads the SLO from the file only.
  for (Flag& flag : flags_of(table, configuration::gateway_groups()))
    if (flag.group != "SLO") usage.flags.push_back(std::move(flag));
  usage.flags.push_back(
      {"Log", "--log-events-markdown", {}, "print the reference of all log events and exit", {}, "true"});
  usage.notes =
      "SIGTERM drains: no new connections, and exit code 0 once all requests have ended. SIGHUP reads the "
      "configuration\n"
      "again; the log names the keys that changed and need a restart.\n\n"
      "Examples:\n"
      "  penstock gateway http://127.0.0.1:8001 http://127.0.0.1:8002\n"
      "  penstock gateway --config penstock.yaml --replicas-file replicas.json --ledger usage.sqlite\n";
  return usage;
}

std::string reference(const options::Table& table) {
  return "# Options of the gateway\n\nMade from the table of options; `penstock gateway --options-markdown` prints "
         "it.\n"
         "Keys are for YAML (`--config FILE`). Flags override the file. Durations, shares and sizes are written as in\n"
         "[replay-options.md](replay-options.md). Keys with `yes` in the column *reload* take effect when SIGHUP makes "
         "the\n"
         "gateway read the file again; all others need a restart.\n" +
         options::to_markdown(table, configuration::gateway_groups());
}

core::Result<void> check_replicas(const gateway::DiscoveryOptions& discovery) {
  if (!discovery.replicas.empty() || !discovery.files.empty() || !discovery.dns.empty()) return {};
  return core::invalid_input({}, "there is no replica to send requests to", "name their URLs, or a --replicas-file");
}

// URLs on the command line replace the replicas of the file.
core::Result<void> use_operands(configuration::GatewaySetup& setup, const std::vector<std::string>& urls) {
  if (!urls.empty()) setup.discovery.replicas.clear();
  for (const std::string& url : urls) setup.discovery.replicas.emplace_back().url = url;
  return check_replicas(setup.discovery);
}

// A configuration and the table that is bound to it.
struct Loaded {
  configuration::Configuration made;
  options::Table table = configuration::configuration_table(made);
};

// Reads the configuration again, applies what may change at run time, and logs the keys that need a restart.
class Reloader {
 public:
  Reloader(const Loaded& started, const Parsed& parsed, logging::Logger& log)
      : started_(started), parsed_(parsed), log_(log), file_(parsed.value_of("--config")) {}

  void reload(gateway::Gateway& served, gateway::Discovery& discovery) {
    auto next = std::make_unique<Loaded>();
    const auto read = read_again(*next);
    if (!read) return report_failure(read.error());
    std::vector<std::string> pending, applied;
    for (const options::Change& change : options::changes(started_.table, next->table))
      if (!change.is_reloadable) pending.push_back(change.key);
    keep_tenants(next->made.gateway);
    auto options = make_gateway_options(next->made.gateway);
    if (!options) return report_failure(options.error());
    if (const auto done = served.reconfigure(*std::move(options)); !done) return report_failure(done.error());
    std::vector<gateway::NamedReplica>& replicas = next->made.gateway.discovery.replicas;
    if (const auto done = discovery.set_replicas(replicas); !done) {
      log_.write(logging::Event::kReplicasReloadFailed,
                 {{"source", "gateway.replicas"}, {"error", done.error().message()}});
      replicas = current().made.gateway.discovery.replicas;
    }
    log_.set_level(next->made.log.level);
    for (const options::Change& change : options::changes(current().table, next->table))
      if (change.is_reloadable) applied.push_back(change.key);
    last_ = std::move(next);
    log_.write(logging::Event::kConfigReloaded,
               {{"file", file_}, {"applied", fmt::format("{}", fmt::join(applied, ","))}});
    if (!pending.empty())
      log_.write(logging::Event::kRestartNeeded,
                 {{"file", file_}, {"keys", fmt::format("{}", fmt::join(pending, ","))}});
  }

 private:
  [[nodiscard]] const Loaded& current() const { return last_ ? *last_ : started_; }

  void report_failure(const core::Error& error) {
    log_.write(logging::Event::kConfigReloadFailed, {{"file", file_}, {"error", error.message()}});
  }

  core::Result<void> read_again(Loaded& next) {
    if (file_ == "-") return core::invalid_input("--config", "standard input cannot be read again", "name a file");
    options::Source source{file_, {}, parsed_.flags};
    if (!file_.empty()) {
      auto text = options::read_text_file(file_, options::YamlLimits{}.bytes_max);
      if (!text) return tl::make_unexpected(text.error());
      source.yaml = *std::move(text);
    }
    if (const auto read = configuration::load(next.made, next.table, source); !read)
      return tl::make_unexpected(read.error().front());
    return use_operands(next.made.gateway, parsed_.operands);
  }

  // Tenants are numbered once: where one was added, removed or renamed, all stay as they were.
  void keep_tenants(configuration::GatewaySetup& next) {
    const configuration::GatewaySetup& now = current().made.gateway;
    const auto same_name = [](const configuration::TenantOptions& a, const configuration::TenantOptions& b) {
      return a.name == b.name;
    };
    if (std::equal(now.tenants.begin(), now.tenants.end(), next.tenants.begin(), next.tenants.end(), same_name)) return;
    next.tenants = now.tenants;
    next.options.dispatch.tenants = now.options.dispatch.tenants;
  }

  const Loaded& started_;
  const Parsed& parsed_;
  logging::Logger& log_;
  std::string file_;
  std::unique_ptr<Loaded> last_;  // Null before the first reload.
};

// The log of an --access-log FILE; null: the option names no file.
tl::expected<std::unique_ptr<logging::Logger>, int> open_access_file(const configuration::Configuration& made) {
  if (made.gateway.access_log == "on" || made.gateway.access_log == "off") return std::unique_ptr<logging::Logger>{};
  logging::LoggerOptions options = made.log;
  options.file = made.gateway.access_log;
  options.level = logging::Level::kInfo;
  options.lines_max = kAccessLinesMax;
  return open_log(options);
}

}  // namespace

int serve_gateway(const Arguments& arguments) {
  Loaded started;
  configuration::Configuration& made = started.made;
  const auto parsed = parse_arguments(gateway_usage(started.table), arguments);
  if (!parsed) return parsed.error();
  if (parsed->has("--options-markdown")) return print(reference(started.table));
  if (parsed->has("--log-events-markdown")) return print(logging::log_events_markdown());
  const auto source = source_of(*parsed);
  if (!source) return source.error();
  if (const auto loaded = configuration::load(made, started.table, *source); !loaded)
    return report_error(loaded.error());
  configuration::GatewaySetup& setup = made.gateway;
  if (const auto used = use_operands(setup, parsed->operands); !used) return report_error(used.error());

  auto opened_log = open_log(made.log);
  if (!opened_log) return opened_log.error();
  logging::Logger& log = **opened_log;
  auto access_file = open_access_file(made);
  if (!access_file) return access_file.error();
  logging::Log* access = access_file->get();
  if (setup.access_log == "on") access = &log;
  net::Loop loop;
  std::unique_ptr<gateway::Gateway> served;
  std::unique_ptr<gateway::Discovery> discovery;
  Reloader reloader{started, *parsed, log};
  bool draining = false;
  std::string cause;
  const net::SignalWatch signals{
      loop, {SIGTERM, SIGINT, SIGHUP}, [&](int number) {
        if (number == SIGHUP) return reloader.reload(*served, *discovery);
        cause = signal_name(number);
        // A second signal ends the gateway at once.
        if (std::exchange(draining, true)) return loop.stop();
        log.write(logging::Event::kDrain, {{"cause", cause}, {"open", served->open_requests()}});
        served->drain([&] { loop.stop(); });
      }};
  // Each client needs a descriptor, and so does its connection to a replica.
  const std::uint32_t connections = setup.options.server.connections;
  if (const std::uint64_t may = net::prepare_descriptors(std::uint64_t{connections} * 2); may < connections)
    log.write(logging::Event::kFileLimitLow, {{"limit", may}, {"connections_max", connections}});
  auto options = make_gateway_options(setup);
  if (!options) return report_input_error(options.error());
  const auto listen = parse_listen(setup.listen, "--listen");
  if (!listen) return report_error(listen.error());
  const auto admin = parse_listen(setup.admin_listen, "--admin-listen");
  if (!admin) return report_error(admin.error());
  auto ledger = open_ledger(setup.ledger, log);
  if (!ledger) return report_error(ledger.error());
  auto opened = gateway::Gateway::open(*std::move(options), *listen, *admin, *std::move(ledger), {log, access});
  if (!opened) return report_error(opened.error());
  served = *std::move(opened);
  served->start();
  auto found = gateway::Discovery::start(loop, setup.discovery, *served, log);
  if (!found) return report_input_error(found.error());
  discovery = *std::move(found);
  const std::string scheme = setup.tls_certificate.empty() ? "http" : "https";
  log_start(log, "gateway");
  log.write(logging::Event::kListening, {{"purpose", "api"}, {"url", scheme + "://" + served->address().text()}});
  log.write(logging::Event::kListening, {{"purpose", "admin"}, {"url", "http://" + served->admin_address().text()}});
  if (const int code = print(fmt::format("gateway ready on {}://{}, metrics on http://{}/metrics\n", scheme,
                                         served->address().text(), served->admin_address().text()));
      code != kGood)
    return code;
  loop.run();
  discovery.reset();
  served.reset();
  return log_stop(log, "gateway", cause, kGood);
}

}  // namespace penstock::cli
