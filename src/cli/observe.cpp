// `penstock observe`: shows engines behind another router to planners, as a gateway shows its own.
#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/gateway_setup.h"
#include "cli/log_setup.h"
#include "configuration/configuration.h"
#include "connect/prometheus/source.h"
#include "controller/engine_observer.h"
#include "net/descriptors.h"
#include "net/signals.h"
#include "options/values.h"

namespace penstock::cli {
namespace {

struct ObserveSetup {
  std::string listen = "127.0.0.1:8081";  // Where `penstock plan` expects a gateway.
  controller::EngineObserverOptions observer;
  net::CredentialOptions credentials;
  connect::PrometheusOptions prometheus;
  logging::LoggerOptions log;
};

options::Table table_of(ObserveSetup& setup) {
  using namespace options;
  Table table;
  table.group("Server");
  table.add({"", "--listen", "address that planners read, like the admin address of a gateway"}, address(setup.listen));
  table
      .add({"", "--hosts", "host names of that address; its own address, loopback and localhost always work"},
           names(setup.observer.hosts))
      .placeholder("NAME,…");
  table.group("Engines");
  table.add({"", "--pool", "pool of the planner that the engines belong to"}, text(setup.observer.pool))
      .placeholder("NAME");
  table.add({"", "--interval", "from one scrape to the next"}, duration_above_zero(setup.observer.engines.interval));
  table
      .add({"", "--api-key-file", "file with the key that is sent to the engines as a bearer token"},
           text(setup.credentials.api_key_file))
      .placeholder("FILE");
  table
      .add({"", "--ca-file", "PEM file that verifies the engines' certificates; by default those of the system"},
           text(setup.credentials.ca_file))
      .placeholder("FILE");
  configuration::add_prometheus(table, setup.prometheus);
  configuration::add_log(table, setup.log);
  return table;
}

Usage observe_usage(const options::Table& table) {
  Usage usage;
  usage.command = "observe";
  usage.summary =
      "Makes the traffic of engines from their metrics, so that `penstock plan` can observe a fleet behind any router.";
  usage.operand = "URL";
  usage.many_operands = true;
  usage.flags = flags_of(table);
  usage.notes =
      "Each address of a host name is a replica, so that the name of a headless Service is enough. SIGTERM ends it.\n\n"
      "Examples:\n"
      "  penstock observe http://10.0.0.7:8000 http://10.0.0.8:8000\n"
      "  penstock observe http://vllm.prod.svc:8000 --prometheus http://prometheus:9090 --prometheus-preset vllm\n"
      "  penstock plan                 # beside it: shows what it would do, and why\n";
  return usage;
}

core::Result<controller::EngineWatchOptions> watch_options(const ObserveSetup& setup, net::Loop& loop,
                                                           net::Client& client) {
  controller::EngineWatchOptions watch = setup.observer.engines;
  auto store = net::CredentialStore::load(setup.credentials, {});
  if (!store) return tl::make_unexpected(store.error());
  watch.credentials = [known = std::make_shared<net::CredentialStore>(*std::move(store))](const std::string& url) {
    return known->of(url);
  };
  if (setup.prometheus.url.empty()) return watch;
  auto source = connect::PrometheusSource::start(loop, client, setup.prometheus);
  if (!source) return tl::make_unexpected(source.error());
  watch.prometheus = *std::move(source);
  return watch;
}

}  // namespace

int observe_engines(const Arguments& arguments) {
  ObserveSetup setup;
  const options::Table table = table_of(setup);
  const auto parsed = parse_arguments(observe_usage(table), arguments);
  if (!parsed) return parsed.error();
  if (const auto read = read_flags(table, *parsed); !read) return read.error();
  if (parsed->operands.empty())
    return report_error({core::ErrorCode::kInvalidInput, "observe", "the URL of an engine is missing",
                         "for example: penstock observe http://10.0.0.7:8000"});
  for (const std::string& url : parsed->operands) {
    if (const auto checked = net::parse_url(url); !checked) return report_input_error(checked.error());
    setup.observer.urls.push_back(url);
  }
  const auto listen = parse_listen(setup.listen, "--listen");
  if (!listen) return report_error(listen.error());

  net::prepare_descriptors(1 << 14);
  net::Loop loop;
  auto log = open_log(setup.log);
  if (!log) return log.error();
  std::string cause = "standard output is closed";
  const net::SignalWatch signals{
      loop, {SIGTERM, SIGINT, SIGHUP}, [&](int number) {
        if (number == SIGHUP) return (*log)->write(logging::Event::kReloadIgnored, {{"cause", signal_name(number)}});
        cause = signal_name(number);
        loop.stop();
      }};
  net::Client client{loop};
  auto watch = watch_options(setup, loop, client);
  if (!watch) return report_input_error(watch.error());
  setup.observer.engines = *std::move(watch);
  const auto socket = net::listen_on(*listen, false);
  if (!socket) return report_error(socket.error());
  const std::string url = "http://" + net::local_address(*socket).text();
  const std::size_t count = setup.observer.urls.size();
  const auto observer =
      std::make_unique<controller::EngineObserver>(loop, client, *socket, **log, std::move(setup.observer));
  log_start(**log, "observe");
  (*log)->write(logging::Event::kListening, {{"purpose", "admin"}, {"url", url}});
  const int code = print(fmt::format("observer ready on {}, {} of engines; `penstock plan --gateway {}` reads it\n",
                                     url, count == 1 ? "1 URL" : fmt::format("{} URLs", count), url.substr(7)));
  if (code == kGood) loop.run();
  return log_stop(**log, "observe", cause, code);
}

}  // namespace penstock::cli
