// `penstock engine`: serves the OpenAI API from the engine model in real time.
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <memory>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/log_setup.h"
#include "configuration/configuration.h"
#include "engine/step_time_models.h"
#include "engine_server/engine_server.h"
#include "net/descriptors.h"
#include "net/signals.h"
#include "options/values.h"

namespace penstock::cli {
namespace {

using engine_server::Fault;
using engine_server::ServerOptions;

constexpr std::size_t kNameBytesMax = 128;
constexpr double kFaultSlowFactor = 10.0;  // Of `--fault slow` without --slow.

struct FaultPlan {
  std::string name;  // As given by the user.
  Fault kind = Fault::kNone;
  std::uint64_t after = 0;
};

struct EngineSetup {
  ServerOptions server;
  std::string step_time_model = simulation::PoolSpec{}.step_time_model;
  FaultPlan fault;
  std::optional<double> slow_factor;
  logging::LoggerOptions log;

  // The block size of vLLM, and 24 GiB of blocks at 128 KiB per token.
  EngineSetup() {
    server.version = PENSTOCK_VERSION;
    server.session.engine.block_tokens = 16;
    server.session.engine.kv_blocks = 12'288;
  }
};

core::Result<FaultPlan> parse_fault(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, Fault>, 4> kFaults = {
      {{"hang", Fault::kHang}, {"garbage", Fault::kGarbage}, {"slow", Fault::kSlow}, {"crash", Fault::kCrash}}};
  constexpr std::string_view kAfter = "-after=";
  const std::size_t cut = text.find(kAfter);
  for (const auto& [name, kind] : kFaults) {
    if (text.substr(0, cut) != name) continue;
    if (cut == std::string_view::npos) return FaultPlan{std::string{text}, kind, 0};
    const auto after = options::parse_count(text.substr(cut + kAfter.size()), 0, UINT32_MAX);
    if (!after) return tl::make_unexpected(after.error());
    return FaultPlan{std::string{text}, kind, *after};
  }
  return core::invalid_input(
      {}, "must be hang, garbage, slow or crash, or one of them with -after=N, is " + options::quote(text));
}

void add_server(options::Table& table, ServerOptions& server) {
  using namespace options;
  const auto name = [](std::string& field) { return word(field, kNameBytesMax); };
  table.group("Server");
  table.add({"", "--host", "numeric address to listen on"}, name(server.host)).placeholder("ADDRESS");
  table.add({"", "--port", "port to listen on; 0 picks a free one"}, count(server.port, 0, UINT16_MAX))
      .placeholder("PORT");
  table
      .add({"", "--advertise", "address that decode engines fetch KV from, if not --host"},
           name(server.advertised_host))
      .placeholder("HOST");
  table.add({"", "--id", "name of this engine in metrics and messages"}, name(server.id));
  table.add({"", "--model-name", "name of the model that it serves"}, name(server.model_name));
  table.add({"", "--api-key", "refuse requests without this key"}, name(server.api_key)).placeholder("KEY").secret();
  table
      .add({"", "--max-queue", "requests that may wait; more are refused with 429"},
           count(server.max_queue, 0, 10'000'000))
      .placeholder("REQUESTS");
  table
      .add({"", "--role", "aggregated, prefill or decode"},
           choice(server.role, {signals::Role::kAggregated, signals::Role::kPrefill, signals::Role::kDecode}))
      .placeholder("ROLE");
  table
      .add({"", "--fpm-port", "publish a message for each iteration over ZeroMQ; 0 picks a free port"},
           count(server.fpm_port, 0, UINT16_MAX))
      .placeholder("PORT")
      .by_default("off");
  table
      .add({"", "--kv-events-port", "publish the changes of the prefix cache over ZeroMQ; 0 picks a free port"},
           count(server.kv_events_port, 0, UINT16_MAX))
      .placeholder("PORT")
      .by_default("off");
}

options::Table table_of(EngineSetup& setup) {
  using namespace options;
  ServerOptions& server = setup.server;
  Table table;
  configuration::add_engine(table, server.session.engine, setup.step_time_model);
  add_server(table, server);
  table.group("Life");
  configuration::add_start_up(table, server.start_up);
  configuration::add_wake_time(table, server.wake_time);
  configuration::add_switch_time(table, server.switch_time);
  table.add({"", "--speed", "run the time of the engine this many times faster"}, number(server.speed, 1e-3, 1e5))
      .placeholder("FACTOR");
  table.add({"", "--drain-timeout", "how long requests may take to end after SIGTERM"}, duration(server.drain_timeout));
  table.group("Answers");
  configuration::add_seed(table, server.session.answers.seed);
  table
      .add({"", "--context-tokens", "prompt and answer together"}, count(server.session.context_tokens, 2, 100'000'000))
      .placeholder("TOKENS");
  table
      .add({"", "--output-median", "median length of answers that end by themselves"},
           number(server.session.answers.output_median, 1.0, 1e6))
      .placeholder("TOKENS");
  table.group("Disaggregation");
  configuration::add_kv_transfer(table, server.kv_bytes_per_token, server.kv_bytes_per_s);
  table
      .add({"", "--kv-wire-bytes-per-token", "bytes that are really sent for the KV of a token"},
           count(server.kv_wire_bytes_per_token, 0, 1'000'000))
      .placeholder("BYTES");
  table.add({"", "--kv-hold", "KV that is not fetched is released after this time"}, duration(server.kv_hold_time));
  table.group("Faults");
  table.add({"", "--slow", "everything takes this many times longer"}, number(setup.slow_factor, 1.0, 1e4))
      .placeholder("FACTOR")
      .by_default("1");
  table.add(
      {"", "--fault", "hang, garbage, slow or crash: from the first request on, or with -after=N after N good ones"},
      value("fault", setup.fault, parse_fault, [](const FaultPlan&) { return std::string{}; }));
  configuration::add_log(table, setup.log);
  return table;
}

Usage engine_usage(const options::Table& table) {
  Usage usage;
  usage.command = "engine";
  usage.summary =
      "Serves the OpenAI API from the engine model: real connections and streams, simulated computation, in real time.";
  usage.flags = flags_of(table);
  usage.notes =
      "Prints `engine ID ready on URL` when it listens and `engine ID serving` when its start-up is over.\n"
      "SIGTERM drains: no new requests, and exit code 0 once all have ended; a second SIGTERM ends it at once (1).\n\n"
      "Examples:\n"
      "  penstock engine --port 8001 --engine roofline:llama-3.1-8b,h100\n"
      "  penstock engine --role prefill --id p0 --fpm-port 0 --kv-events-port 0\n"
      "  penstock engine --fault crash-after=100\n";
  return usage;
}

// Reports errors and returns the exit code in that case.
tl::expected<EngineSetup, int> read_options(const Arguments& arguments) {
  EngineSetup setup;
  const options::Table table = table_of(setup);
  const auto parsed = parse_arguments(engine_usage(table), arguments);
  if (!parsed) return tl::make_unexpected(parsed.error());
  auto read = read_flags(table, *parsed);
  if (!read) return tl::make_unexpected(read.error());
  ServerOptions& server = setup.server;
  configuration::check_engine(server.session.engine, {}, *read);
  configuration::settle_engine_limits(server.session.engine, setup.step_time_model,
                                      {"engine.kv_blocks", "engine.max_sequences"}, *read);
  if (!read->good()) return tl::make_unexpected(report_error(read->problems()));
  auto model = engine::make_step_time_model(setup.step_time_model);
  if (!model) return tl::make_unexpected(report_input_error(model.error()));
  server.step_time = *std::move(model);
  server.fault = setup.fault.kind;
  server.fault_after = setup.fault.after;
  server.slow_factor = setup.slow_factor.value_or(server.fault == Fault::kSlow ? kFaultSlowFactor : 1.0);
  server.session.hold_prefilled = server.role == signals::Role::kPrefill;
  server.session.kv_events = server.kv_events_port.has_value();
  return setup;
}

}  // namespace

int serve_engine(const Arguments& arguments) {
  const auto setup = read_options(arguments);
  if (!setup) return setup.error();
  const ServerOptions* options = &setup->server;

  net::prepare_descriptors(1 << 14);
  net::Loop loop;
  int code = kGood;
  auto log = open_log(setup->log);
  if (!log) return log.error();
  std::string cause = "standard output is closed";
  std::unique_ptr<engine_server::EngineServer> server;
  const auto log_state = [&](engine_server::ServerState from, engine_server::ServerState to) {
    (*log)->write(logging::Event::kEngineState,
                  {{"engine", options->id}, {"from", to_string(from)}, {"to", to_string(to)}});
  };
  const net::SignalWatch signals{
      loop, {SIGTERM, SIGINT, SIGHUP}, [&](int number) {
        if (number == SIGHUP) return (*log)->write(logging::Event::kReloadIgnored, {{"cause", signal_name(number)}});
        cause = signal_name(number);
        (*log)->write(logging::Event::kDrain, {{"cause", cause}, {"open", server->open_work()}});
        log_state(server->state(), engine_server::ServerState::kDraining);
        server->drain();
      }};
  engine_server::ServerEvents events;
  events.on_ready = [&] {
    log_state(engine_server::ServerState::kStarting, engine_server::ServerState::kReady);
    if (code = print(fmt::format("engine {} serving\n", options->id)); code != kGood) loop.stop();
  };
  events.on_drained = [&](std::size_t cut) {
    if (cut > 0)
      code = report_error({core::ErrorCode::kEnvironment, "engine " + options->id,
                           fmt::format("{} requests and transfers were cut short", cut),
                           "give it a longer --drain-timeout"});
    loop.stop();
  };
  auto started = engine_server::EngineServer::start(loop, *options, std::move(events));
  if (!started) return report_error(started.error());
  server = *std::move(started);
  code = print(fmt::format("engine {} ready on http://{}\n", options->id, server->address().text()));
  log_start(**log, "engine");
  (*log)->write(logging::Event::kListening, {{"purpose", "api"}, {"url", "http://" + server->address().text()}});
  if (options->fault != Fault::kNone)
    (*log)->write(logging::Event::kEngineFault, {{"engine", options->id}, {"fault", setup->fault.name}});
  if (code == kGood) loop.run();
  return log_stop(**log, "engine", cause, code);
}

}  // namespace penstock::cli
