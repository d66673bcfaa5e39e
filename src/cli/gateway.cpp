// `penstock gateway`: the OpenAI API in front of many replicas.
#include "gateway/gateway.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_reload.h"
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
      "SIGTERM drains: exit code 0 once all requests have ended, or after --drain-time. SIGHUP reads the "
      "configuration\n"
      "again, as does a change of its files; the log names the keys that changed and need a restart.\n\n"
      "Examples:\n"
      "  penstock gateway http://127.0.0.1:8001 http://127.0.0.1:8002\n"
      "  penstock gateway --config penstock.yaml --replicas-file replicas.json --ledger usage.sqlite\n";
  return usage;
}

std::string reference(const options::Table& table) {
  return "# Options of the gateway\n\nMade from the table of options; `penstock gateway --options-markdown` prints "
         "it.\n"
         "Keys are for YAML (`--config FILE`). Flags override the file. Durations, shares and sizes are written as in\n"
         "[replay-options.md](replay-options.md). Keys with `yes` in the column *reload* take effect when the file "
         "changes\n"
         "or SIGHUP makes the gateway read it again; all others need a restart.\n" +
         options::to_markdown(table, configuration::gateway_groups(), true);
}

// Ends the gateway after a signal, in three steps: /ready answers 503 while new connections are still accepted, new
// connections are refused, and requests that are still open are cut.
class Shutdown {
 public:
  Shutdown(net::Loop& loop, logging::Log& log) : loop_(loop), log_(log) {}

  // A second signal ends the gateway at once.
  void begin(gateway::Gateway& served, int signal, const configuration::GatewaySetup& setup) {
    if (!cause_.empty()) return loop_.stop();
    cause_ = signal_name(signal);
    log_.write(logging::Event::kDrain, {{"cause", cause_}, {"open", served.open_requests()}});
    served.announce_drain();
    // SIGINT comes from a terminal, where no load balancer needs time to notice.
    const core::Duration delay = signal == SIGTERM ? std::min(setup.drain_delay, setup.drain_time) : core::Duration{};
    loop_.after(delay, [this, &served] { served.drain([this] { loop_.stop(); }); });
    loop_.after(setup.drain_time, [this, &served] {
      log_.write(logging::Event::kDrainTimeout, {{"open", served.open_requests()}});
      served.cut();
      loop_.after(kCutTime, [this] { loop_.stop(); });
    });
  }
  [[nodiscard]] const std::string& cause() const { return cause_; }

 private:
  static constexpr core::Duration kCutTime = std::chrono::seconds{1};  // In which cut requests are settled.

  net::Loop& loop_;
  logging::Log& log_;
  std::string cause_;  // Empty before the signal.
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
  LoadedConfiguration started;
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
  GatewayReloader reloader{started, *parsed, log};
  Shutdown shutdown{loop, log};
  const net::SignalWatch signals{loop, {SIGTERM, SIGINT, SIGHUP}, [&](int number) {
                                   if (number == SIGHUP) return reloader.reload(*served, *discovery);
                                   shutdown.begin(*served, number, reloader.current().gateway);
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
  reloader.watch(loop, *served, *discovery);
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
  return log_stop(log, "gateway", shutdown.cause(), kGood);
}

}  // namespace penstock::cli
