// `penstock gateway`: the OpenAI API in front of many replicas.
#include "gateway/gateway.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_command.h"
#include "cli/gateway_reload.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "configuration/configuration.h"
#include "gateway/discovery.h"
#include "net/descriptors.h"
#include "net/signals.h"
#include "net/takeover.h"
#include "options/reference.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kAccessLinesMax = 65'536;  // Lines that wait to be written.

Usage gateway_usage() {
  Usage usage;
  usage.command = "gateway";
  usage.summary =
      "Serves the OpenAI API in front of many replicas: authenticates, admits, routes by prefix cache and load, "
      "relays\n"
      "tokens as they come, and accounts for them. Replicas are any OpenAI-compatible servers.";
  usage.operand = "URL";
  usage.many_operands = true;
  usage.notes =
      "SIGTERM drains: exit code 0 once all requests have ended, or after --drain-time; 1 if entries of the ledger "
      "could\n"
      "not be written. SIGHUP reads the configuration again, as does a change of its files; the log names the keys\n"
      "that changed and need a restart.\n\n"
      "Examples:\n"
      "  penstock gateway http://127.0.0.1:8001 http://127.0.0.1:8002\n"
      "  penstock gateway --config penstock.yaml --replicas-file replicas.json --ledger usage.sqlite\n";
  return usage;
}

Usage with_flags(Usage usage, const options::Table& table) {
  usage.flags.push_back({"Flags",
                         "--config",
                         "FILE",
                         "a YAML file with any of this, tenants, models and classes; flags override it",
                         {},
                         {}});
  usage.flags.push_back({"Flags", "--options-markdown", {}, "print the reference of all options and end", {}, "true"});
  usage.flags.push_back(
      {"Operation", "--takeover", {}, "replace the gateway that serves these addresses; it drains", {}, "true"});
  // The gateway reads the SLO from the file only.
  for (Flag& flag : flags_of(table, configuration::gateway_groups()))
    if (flag.group != "SLO") usage.flags.push_back(std::move(flag));
  usage.flags.push_back(
      {"Log", "--log-events-markdown", {}, "print the reference of all log events and exit", {}, "true"});
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
    begin(served, signal_name(signal), setup);
    // SIGINT comes from a terminal, where no load balancer needs time to notice.
    const core::Duration delay = signal == SIGTERM ? std::min(setup.drain_delay, setup.drain_time) : core::Duration{};
    loop_.after(delay, [this, &served] { refuse(served); });
  }
  // Another process accepts connections on the same addresses.
  void take_over(gateway::Gateway& served, const configuration::GatewaySetup& setup) {
    log_.write(logging::Event::kTakeover, {{"role", "predecessor"}});
    if (cause_.empty()) begin(served, "takeover", setup);
    served.release_admin();
    refuse(served);
  }
  [[nodiscard]] bool draining() const { return !cause_.empty(); }
  [[nodiscard]] const std::string& cause() const { return cause_; }

 private:
  void begin(gateway::Gateway& served, std::string cause, const configuration::GatewaySetup& setup) {
    cause_ = std::move(cause);
    log_.write(logging::Event::kDrain, {{"cause", cause_}, {"open", served.open_requests()}});
    served.announce_drain();
    loop_.after(setup.drain_time, [this, &served] {
      log_.write(logging::Event::kDrainTimeout, {{"open", served.open_requests()}});
      served.cut();
      loop_.after(kCutTime, [this] { loop_.stop(); });
    });
  }
  void refuse(gateway::Gateway& served) {
    if (!std::exchange(refuses_, true)) served.drain([this] { loop_.stop(); });
  }

  static constexpr core::Duration kCutTime = std::chrono::seconds{1};  // In which cut requests are settled.

  net::Loop& loop_;
  logging::Log& log_;
  std::string cause_;  // Empty before the drain.
  bool refuses_ = false;
};

std::string takeover_name(const net::Address& address) { return "penstock-gateway-" + address.text(); }

// Without `always`, another gateway on the address must drain.
std::optional<net::Takeover> request_takeover(const net::Address& address, bool always) {
  using Condition = net::TakeoverOffer::Condition;
  if (address.port() == 0) return std::nullopt;  // The system chooses a port that is free.
  return net::Takeover::request(takeover_name(address), always ? Condition::kAlways : Condition::kIfDraining);
}

// Serves at once, or, when this process takes the addresses over, once the replicas are known: the other process serves
// meanwhile, and clients that have connected to this one wait.
class Opening {
 public:
  Opening(net::Loop& loop, gateway::Gateway& served, std::optional<net::Takeover> takeover)
      : loop_(loop), served_(served), takeover_(std::move(takeover)), until_(loop.now() + kReadyTime) {
    if (takeover_)
      timer_ = loop_.every(kReadyStep, [this] { check(); });
    else
      served_.start();
  }

 private:
  static constexpr core::Duration kReadyTime = std::chrono::seconds{2}, kReadyStep = std::chrono::milliseconds{10};

  void check() {
    if (loop_.now() < until_ && !served_.ready()) return;
    loop_.cancel(timer_);
    served_.start();
    takeover_->report_listening();
    takeover_.reset();
  }

  net::Loop& loop_;
  gateway::Gateway& served_;
  std::optional<net::Takeover> takeover_;
  core::Instant until_;
  net::Loop::Timer timer_ = 0;
};

// The log of an --access-log FILE; null: the option names no file. Its outages are reported to `log`.
tl::expected<std::unique_ptr<logging::Logger>, int> open_access_file(const configuration::Configuration& made,
                                                                     logging::Log& log) {
  if (made.gateway.access_log == "on" || made.gateway.access_log == "off") return std::unique_ptr<logging::Logger>{};
  logging::LoggerOptions options = made.log;
  options.file = made.gateway.access_log;
  options.level = logging::Level::kInfo;
  options.lines_max = kAccessLinesMax;
  options.on_outage = [&log](const std::string& error, bool begins) {
    log.write(begins ? logging::Event::kFileUnwritable : logging::Event::kFileWritable, {{"error", error}});
  };
  return open_log(options);
}

}  // namespace

int run_gateway(GatewayCommand command, const Arguments& arguments) {
  LoadedConfiguration started{command.defaults};
  configuration::Configuration& made = started.made;
  const std::string program = command.usage.command;
  const auto parsed = parse_arguments(with_flags(std::move(command.usage), started.table), arguments);
  if (!parsed) return parsed.error();
  if (parsed->has("--options-markdown")) return print(reference(started.table));
  if (parsed->has("--log-events-markdown")) return print(logging::log_events_markdown());
  const auto source = source_of(*parsed);
  if (!source) return source.error();
  started.has_empty_file = has_empty_file(*source);
  auto loaded = configuration::load(made, started.table, *source);
  if (!loaded) return report_error(loaded.error());
  configuration::GatewaySetup& setup = made.gateway;
  if (const auto used = use_operands(setup, parsed->operands); !used) return report_error(used.error());

  print_warnings(command.warnings);
  auto opened_log = open_log(made.log);
  if (!opened_log) return opened_log.error();
  logging::Logger& log = **opened_log;
  auto access_file = open_access_file(made, log);
  if (!access_file) return access_file.error();
  logging::Log* access = access_file->get();
  if (setup.access_log == "on") access = &log;
  net::Loop loop;
  std::unique_ptr<gateway::Gateway> served;
  std::unique_ptr<gateway::Discovery> discovery;
  GatewayReloader reloader{started, *parsed, std::move(command.defaults), log};
  Shutdown shutdown{loop, log};
  const net::SignalWatch signals{loop, {SIGTERM, SIGINT, SIGHUP}, [&](int number) {
                                   if (number == SIGHUP) {
                                     if (logging::Logger* file = access_file->get()) reopen_log(*file, log);
                                     return reloader.reload(*served, *discovery);
                                   }
                                   shutdown.begin(*served, number, reloader.current().gateway);
                                 }};
  // Each client needs a descriptor, and so does its connection to a replica.
  const std::uint32_t connections = setup.options.server.connections;
  if (const std::uint64_t may = net::prepare_descriptors(std::uint64_t{connections} * 2); may < connections)
    log.write(logging::Event::kFileLimitLow, {{"limit", may}, {"connections_max", connections}});
  gateway::GatewayOptions options = make_gateway_options(setup, *loaded);
  options.serves_http = command.serves_http || loaded->given("gateway.listen");
  check_addresses(setup, *loaded, options.serves_http);
  if (!loaded->good()) return report_error(loaded->problems());
  const net::AccessOptions admin_access = options.admin_access;
  const bool serves_http = options.serves_http;
  const auto listen = parse_listen(setup.listen, "--listen"),
             admin = parse_listen(setup.admin_listen, "--admin-listen");
  auto takeover = request_takeover(serves_http ? *listen : options.endpoint_picker->listen, parsed->has("--takeover"));
  auto ledger = open_ledger(setup, log);
  if (!ledger) return report_error(ledger.error());
  auto opened = gateway::Gateway::open(
      std::move(options), *listen, *admin, std::move(ledger->sink), {log, access},
      takeover ? gateway::Gateway::Listening::kBesideOthers : gateway::Gateway::Listening::kAlone);
  if (!opened) return report_error(opened.error());
  served = *std::move(opened);
  served->lifecycle().version = PENSTOCK_VERSION;
  served->lifecycle().ledger = ledger->health;
  served->lifecycle().lost_log_lines = [&log] { return log.dropped() + log.unwritten(); };
  if (const logging::Logger* const file = access_file->get())
    served->lifecycle().lost_access_lines = [file] { return file->dropped() + file->unwritten(); };
  auto recorder = open_recorder(setup, *served, log);
  if (!recorder) return report_error(recorder.error());
  served->start_control();
  auto found = gateway::Discovery::start(loop, setup.discovery, *served, log);
  if (!found) return report_input_error(found.error());
  discovery = *std::move(found);
  reloader.watch(loop, *served, *discovery);
  const net::TakeoverOffer offer{loop, takeover_name(served->address()),
                                 [&](net::TakeoverOffer::Condition condition) {
                                   return condition == net::TakeoverOffer::Condition::kAlways || shutdown.draining();
                                 },
                                 [&] { shutdown.take_over(*served, reloader.current().gateway); }};
  if (takeover) log.write(logging::Event::kTakeover, {{"role", "successor"}});
  Opening opening{loop, *served, std::move(takeover)};
  const std::string admin_url =
      (setup.admin.tls_certificate.empty() ? "http://" : "https://") + served->admin_address().text();
  log_start(log, program);
  std::string urls;
  const auto listens = [&](std::string_view purpose, const std::string& url) {
    log.write(logging::Event::kListening, {{"purpose", purpose}, {"url", url}});
    if (purpose != "admin") urls += (urls.empty() ? "" : " and ") + url;
  };
  if (serves_http) listens("api", (setup.tls_certificate.empty() ? "http://" : "https://") + served->address().text());
  if (const auto picker = served->endpoint_picker_address())
    listens("endpoint picker", (setup.endpoint_picker.tls ? "grpcs://" : "grpc://") + picker->text());
  listens("admin", admin_url);
  warn_if_exposed(log, "admin", served->admin_address(), admin_access);
  if (const int code = print(fmt::format("{} ready on {}, metrics on {}/metrics\n", program, urls, admin_url));
      code != kGood)
    return code;
  loop.run();
  discovery.reset();
  recorder->reset();
  served.reset();
  return log_stop(log, program, shutdown.cause(), *ledger->lost == 0 ? kGood : kEnvironment);
}

int serve_gateway(const Arguments& arguments) { return run_gateway({gateway_usage()}, arguments); }

}  // namespace penstock::cli
