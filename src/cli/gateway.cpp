// `penstock gateway`: the OpenAI API in front of many replicas.
#include "gateway/gateway.h"

#include <fmt/format.h>

#include <csignal>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "config/gateway_keys.h"
#include "config/reader.h"
#include "net/descriptors.h"
#include "net/signals.h"

namespace penstock::cli {
namespace {

constexpr std::string_view kAccessLog = "--access-log";
constexpr std::size_t kAccessLinesMax = 65'536;  // that wait to be written

Usage usage() {
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
  const config::GatewaySettings defaults;
  for (const config::GatewayKey& key : config::gateway_keys()) {
    if (key.flag.empty()) continue;
    std::string value{key.type};
    for (char& c : value) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    usage.flags.push_back(
        {std::string{key.group}, std::string{key.flag}, value, std::string{key.help}, key.show(defaults), {}});
  }
  usage.flags.push_back({"Log", std::string{kAccessLog}, "WHERE",
                         "a line for each request at its end: on (in the log), off, or a file", "off", "true"});
  add_log_flags(usage);
  usage.flags.push_back(
      {"Log", "--log-events-markdown", {}, "print the reference of all log events and exit", {}, "true"});
  usage.notes =
      "SIGTERM drains: no new connections, and exit code 0 once all requests have ended.\n\n"
      "Examples:\n"
      "  penstock gateway http://127.0.0.1:8001 http://127.0.0.1:8002\n"
      "  penstock gateway --config penstock.yaml --replicas-file replicas.json --ledger usage.sqlite\n";
  return usage;
}

tl::expected<config::GatewaySettings, int> read_settings(const Parsed& parsed) {
  config::GatewaySources sources;
  sources.replicas = parsed.operands;
  if (parsed.has("--config")) {
    sources.file = parsed.value_of("--config");
    auto text = config::read_text_file(sources.file, config::YamlLimits{}.bytes_max);
    if (!text) return tl::make_unexpected(complain_of_input(text.error()));
    sources.yaml = *std::move(text);
  }
  for (const config::FlagValue& flag : parsed.flags)
    if (flag.flag != "--config" && flag.flag != kAccessLog && !is_log_flag(flag.flag)) sources.flags.push_back(flag);
  auto settings = config::load_gateway(sources);
  if (!settings) return tl::make_unexpected(complain(settings.error()));
  if (settings->replicas.empty() && settings->replicas_files.empty() && settings->replicas_dns.empty())
    return tl::make_unexpected(complain({core::ErrorCode::kInvalidInput,
                                         {},
                                         "there is no replica to send requests to",
                                         "name their URLs, or a --replicas-file"}));
  return *std::move(settings);
}

// The log of an --access-log FILE; null: the flag names no file.
tl::expected<std::unique_ptr<logging::Logger>, int> open_access_file(const Parsed& parsed) {
  const std::string where = parsed.value_of(kAccessLog, "off");
  if (where == "on" || where == "off") return std::unique_ptr<logging::Logger>{};
  auto options = log_options(parsed);
  if (!options) return tl::make_unexpected(options.error());
  options->file = where;
  options->level = logging::Level::kInfo;
  options->lines_max = kAccessLinesMax;
  auto log = logging::Logger::open(*options);
  if (!log) return tl::make_unexpected(complain(log.error()));
  return *std::move(log);
}

}  // namespace

int serve_gateway(const Arguments& arguments) {
  const auto parsed = parse_arguments(usage(), arguments);
  if (!parsed) return parsed.error();
  if (parsed->has("--options-markdown")) return print(config::gateway_options_markdown());
  if (parsed->has("--log-events-markdown")) return print(logging::log_events_markdown());
  const auto settings = read_settings(*parsed);
  if (!settings) return settings.error();

  auto opened_log = open_log(*parsed);
  if (!opened_log) return opened_log.error();
  logging::Log& log = **opened_log;
  auto access_file = open_access_file(*parsed);
  if (!access_file) return access_file.error();
  logging::Log* access = access_file->get();
  if (parsed->value_of(kAccessLog) == "on") access = &log;
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
  if (const std::uint64_t may = net::prepare_descriptors(std::uint64_t{settings->connections_max} * 2);
      may < settings->connections_max)
    log.write(logging::Event::kFileLimitLow, {{"limit", may}, {"connections_max", settings->connections_max}});
  auto options = make_gateway_options(*settings);
  if (!options) return complain_of_input(options.error());
  const auto listen = parse_listen(settings->listen, "--listen");
  if (!listen) return complain(listen.error());
  const auto admin = parse_listen(settings->admin_listen, "--admin-listen");
  if (!admin) return complain(admin.error());
  auto ledger = open_ledger(settings->ledger, log);
  if (!ledger) return complain(ledger.error());
  auto opened = gateway::Gateway::open(*std::move(options), *listen, *admin, *std::move(ledger), {log, access});
  if (!opened) return complain(opened.error());
  served = *std::move(opened);
  served->start();
  auto discovery = Discovery::start(loop, *settings, *served, log);
  if (!discovery) return complain_of_input(discovery.error());
  const std::string scheme = settings->tls_certificate.empty() ? "http" : "https";
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
