// `penstock gateway`: the OpenAI API in front of many replicas.
#include "gateway/gateway.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/configuration.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "net/descriptors.h"
#include "net/signals.h"
#include "options/reference.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kAccessLinesMax = 65'536;  // that wait to be written

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
  // The flags of the SLO are those of a planner; a gateway reads it from the file.
  for (Flag& flag : flags_of(table, gateway_groups()))
    if (flag.group != "SLO") usage.flags.push_back(std::move(flag));
  usage.flags.push_back(
      {"Log", "--log-events-markdown", {}, "print the reference of all log events and exit", {}, "true"});
  usage.notes =
      "SIGTERM drains: no new connections, and exit code 0 once all requests have ended.\n\n"
      "Examples:\n"
      "  penstock gateway http://127.0.0.1:8001 http://127.0.0.1:8002\n"
      "  penstock gateway --config penstock.yaml --replicas-file replicas.json --ledger usage.sqlite\n";
  return usage;
}

std::string reference(const options::Table& table) {
  return "# Options of the gateway\n\nMade from the table of options; `penstock gateway --options-markdown` prints "
         "it.\n"
         "Keys are for YAML (`--config FILE`). Flags override the file. Durations, shares and sizes are written as in\n"
         "[replay-options.md](replay-options.md).\n" +
         options::to_markdown(table, gateway_groups());
}

core::Result<void> check_replicas(const DiscoveryOptions& discovery) {
  if (!discovery.replicas.empty() || !discovery.files.empty() || !discovery.dns.empty()) return {};
  return core::invalid_input({}, "there is no replica to send requests to", "name their URLs, or a --replicas-file");
}

// The log of an --access-log FILE; null: the option names no file.
tl::expected<std::unique_ptr<logging::Logger>, int> open_access_file(const Configuration& made) {
  if (made.gateway.access_log == "on" || made.gateway.access_log == "off") return std::unique_ptr<logging::Logger>{};
  logging::LoggerOptions options = made.log;
  options.file = made.gateway.access_log;
  options.level = logging::Level::kInfo;
  options.lines_max = kAccessLinesMax;
  return open_log(options);
}

}  // namespace

int serve_gateway(const Arguments& arguments) {
  Configuration made;
  const options::Table table = configuration_table(made);
  const auto parsed = parse_arguments(gateway_usage(table), arguments);
  if (!parsed) return parsed.error();
  if (parsed->has("--options-markdown")) return print(reference(table));
  if (parsed->has("--log-events-markdown")) return print(logging::log_events_markdown());
  const auto source = source_of(*parsed);
  if (!source) return source.error();
  if (const auto loaded = load(made, table, *source); !loaded) return complain(loaded.error());
  GatewaySetup& setup = made.gateway;
  if (!parsed->operands.empty()) setup.discovery.replicas.clear();
  for (const std::string& url : parsed->operands) setup.discovery.replicas.push_back({.url = url});
  if (const auto checked = check_replicas(setup.discovery); !checked) return complain(checked.error());

  auto opened_log = open_log(made.log);
  if (!opened_log) return opened_log.error();
  logging::Log& log = **opened_log;
  auto access_file = open_access_file(made);
  if (!access_file) return access_file.error();
  logging::Log* access = access_file->get();
  if (setup.access_log == "on") access = &log;
  net::Loop loop;
  std::unique_ptr<gateway::Gateway> served;
  bool draining = false;
  std::string cause;
  const net::SignalWatch signals{
      loop, {SIGTERM, SIGINT}, [&](int number) {
        cause = signal_name(number);
        // A second signal ends the gateway at once.
        if (std::exchange(draining, true)) return loop.stop();
        log.write(logging::Event::kDrain, {{"cause", cause}, {"open", served->open_requests()}});
        served->drain([&] { loop.stop(); });
      }};
  // One file for each client and one for the replica that works for it.
  const std::uint32_t connections = setup.options.server.connections;
  if (const std::uint64_t may = net::prepare_descriptors(std::uint64_t{connections} * 2); may < connections)
    log.write(logging::Event::kFileLimitLow, {{"limit", may}, {"connections_max", connections}});
  auto options = make_gateway_options(setup);
  if (!options) return complain_of_input(options.error());
  const auto listen = parse_listen(setup.listen, "--listen");
  if (!listen) return complain(listen.error());
  const auto admin = parse_listen(setup.admin_listen, "--admin-listen");
  if (!admin) return complain(admin.error());
  auto ledger = open_ledger(setup.ledger, log);
  if (!ledger) return complain(ledger.error());
  auto opened = gateway::Gateway::open(*std::move(options), *listen, *admin, *std::move(ledger), {log, access});
  if (!opened) return complain(opened.error());
  served = *std::move(opened);
  served->start();
  auto discovery = Discovery::start(loop, setup.discovery, *served, log);
  if (!discovery) return complain_of_input(discovery.error());
  const std::string scheme = setup.tls_certificate.empty() ? "http" : "https";
  log_start(log, "gateway");
  log.write(logging::Event::kListening, {{"purpose", "api"}, {"url", scheme + "://" + served->address().text()}});
  log.write(logging::Event::kListening, {{"purpose", "admin"}, {"url", "http://" + served->admin_address().text()}});
  if (const int code = print(fmt::format("gateway ready on {}://{}, metrics on http://{}/metrics\n", scheme,
                                         served->address().text(), served->admin_address().text()));
      code != kGood)
    return code;
  loop.run();
  discovery->reset();
  served.reset();
  return log_stop(log, "gateway", cause, kGood);
}

}  // namespace penstock::cli
