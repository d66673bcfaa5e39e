// `penstock engine`: the engine model behind the OpenAI API, in real time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <utility>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/flag_reader.h"
#include "cli/log_setup.h"
#include "cli/replay_command.h"
#include "cli/replay_setup.h"
#include "config/scalars.h"
#include "engine_server/engine_server.h"
#include "net/descriptors.h"
#include "net/signals.h"

namespace penstock::cli {
namespace {

using engine_server::Fault;
using engine_server::ServerOptions;

constexpr std::size_t kNameBytesMax = 128;
constexpr double kFaultSlowFactor = 10.0;  // of `--fault slow` where --slow does not say

// What a live engine has by default where a replay has something else: vLLM's blocks, and 24 GiB of them at 128 KiB a
// token; ready at once.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kLiveDefaults = {
    {{"--block-size", "16"}, {"--kv-blocks", "12288"}, {"--start-up", "0s"}}};

void add_replay_flags(Usage& usage) {
  usage.flags = replay_flags({"Engine"});
  for (Flag& flag : replay_flags({"Fleet", "Workload"}))
    for (const std::string_view wanted : {"--start-up", "--kv-bytes-per-token", "--kv-bandwidth", "--seed"})
      if (flag.name == wanted) {
        flag.group = wanted.starts_with("--kv") ? "Disaggregation" : wanted == "--seed" ? "Answers" : "Life";
        usage.flags.push_back(flag);
      }
  for (Flag& flag : usage.flags)
    for (const auto& [name, value] : kLiveDefaults)
      if (flag.name == name) flag.fallback = value;
}

Usage usage() {
  Usage usage;
  usage.command = "engine";
  usage.summary =
      "Serves the OpenAI API from the engine model: real connections and streams, simulated computation, in real time.";
  const auto add = [&](const char* group, const char* name, const char* value, const char* help, const char* fallback) {
    usage.flags.push_back({group, name, value, help, fallback});
  };
  add_replay_flags(usage);
  add("Server", "--host", "ADDRESS", "numeric address to listen on", "127.0.0.1");
  add("Server", "--port", "PORT", "port to listen on; 0 picks a free one", "0");
  add("Server", "--advertise", "HOST", "address from which decode engines fetch KV, if it is not --host", "");
  add("Server", "--id", "NAME", "name of this engine in metrics and messages", "engine");
  add("Server", "--model-name", "NAME", "name of the served model", "penstock-sim");
  add("Server", "--api-key", "KEY", "refuse requests without this key", "");
  add("Server", "--max-queue", "REQUESTS", "maximum waiting requests; further requests are refused with 429", "1024");
  add("Server", "--role", "ROLE", "aggregated, prefill or decode", "aggregated");
  add("Server", "--fpm-port", "PORT", "publish forward pass metrics over ZeroMQ; 0 picks a free port", "off");
  add("Server", "--kv-events-port", "PORT", "publish KV events over ZeroMQ; 0 picks a free port", "off");
  add("Life", "--speed", "FACTOR", "factor by which engine time runs faster", "1");
  add("Life", "--drain-timeout", "DURATION", "time that requests have to end after SIGTERM", "300s");
  add("Answers", "--context-tokens", "TOKENS", "maximum length of prompt and answer together", "131072");
  add("Answers", "--output-median", "TOKENS", "median length of answers that end before max_tokens", "150");
  add("Disaggregation", "--kv-wire-bytes-per-token", "BYTES", "bytes that are sent for the KV of one token", "64");
  add("Disaggregation", "--kv-hold", "DURATION", "time after which KV that was not fetched is released", "60s");
  add("Faults", "--slow", "FACTOR", "factor by which every step takes longer", "1");
  add("Faults", "--fault", "FAULT",
      "hang, garbage, slow or crash: from the first request, or with -after=N after N good requests", "");
  add_log_flags(usage);
  usage.notes =
      "Prints `engine ID ready on URL` when it listens and `engine ID serving` when its start-up is over.\n"
      "SIGTERM drains: no new requests, and exit code 0 once all have ended; a second SIGTERM ends it at once (1).\n\n"
      "Examples:\n"
      "  penstock engine --port 8001 --engine roofline:llama-3.1-8b,h100\n"
      "  penstock engine --role prefill --id p0 --fpm-port 0 --kv-events-port 0\n"
      "  penstock engine --fault crash-after=100\n";
  return usage;
}

// ---- from flags to options ---------------------------------------------------------------------------------------------

core::Result<std::string> parse_name(const std::string& text) {
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
  if (text.empty() || text.size() > kNameBytesMax || !printable)
    return core::invalid_input({}, fmt::format("must be 1 to {} visible ASCII characters", kNameBytesMax));
  return text;
}

core::Result<std::optional<std::uint16_t>> parse_port(const std::string& text) {
  return config::parse_count(text, 0, UINT16_MAX).map([](std::uint64_t port) {
    return std::optional{static_cast<std::uint16_t>(port)};
  });
}

core::Result<signals::Role> parse_role(const std::string& text) {
  for (const signals::Role role : {signals::Role::kAggregated, signals::Role::kPrefill, signals::Role::kDecode})
    if (text == signals::to_string(role)) return role;
  return core::invalid_input({}, "must be aggregated, prefill or decode, is " + config::quoted(text));
}

struct FaultPlan {
  Fault kind = Fault::kNone;
  std::uint64_t after = 0;
};

core::Result<FaultPlan> parse_fault(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, Fault>, 4> kFaults = {
      {{"hang", Fault::kHang}, {"garbage", Fault::kGarbage}, {"slow", Fault::kSlow}, {"crash", Fault::kCrash}}};
  constexpr std::string_view kAfter = "-after=";
  const std::size_t cut = text.find(kAfter);
  for (const auto& [name, kind] : kFaults) {
    if (text.substr(0, cut) != name) continue;
    if (cut == std::string::npos) return FaultPlan{kind, 0};
    const auto after = config::parse_count(text.substr(cut + kAfter.size()), 0, UINT32_MAX);
    if (!after) return tl::make_unexpected(after.error());
    return FaultPlan{kind, *after};
  }
  return core::invalid_input(
      {}, "must be hang, garbage, slow or crash, or one of them with -after=N, is " + config::quoted(text));
}

core::Result<void> read_own_flags(const Parsed& parsed, ServerOptions& options) {
  FlagReader reader{parsed};
  reader.read("--host", options.host, parse_name);
  reader.count("--port", options.port, 0, UINT16_MAX);
  reader.read("--advertise", options.advertised_host, parse_name);
  reader.read("--id", options.id, parse_name);
  reader.read("--model-name", options.model_name, parse_name);
  reader.read("--api-key", options.api_key, parse_name);
  reader.count("--max-queue", options.max_queue, 0, 10'000'000);
  reader.read("--role", options.role, parse_role);
  reader.read("--fpm-port", options.fpm_port, parse_port);
  reader.read("--kv-events-port", options.kv_events_port, parse_port);
  reader.number("--speed", options.speed, 1e-3, 1e5);
  reader.duration("--drain-timeout", options.drain_timeout);
  reader.count("--context-tokens", options.session.context_tokens, 2, 100'000'000);
  reader.number("--output-median", options.session.answers.output_median, 1.0, 1e6);
  reader.count("--kv-wire-bytes-per-token", options.kv_wire_bytes_per_token, 0, 1'000'000);
  reader.duration("--kv-hold", options.kv_hold_time);
  FaultPlan fault;
  reader.read("--fault", fault, parse_fault);
  options.fault = fault.kind;
  options.fault_after = fault.after;
  options.slow_factor = fault.kind == Fault::kSlow ? kFaultSlowFactor : 1.0;
  reader.number("--slow", options.slow_factor, 1.0, 1e4);
  if (reader.error()) return tl::make_unexpected(*reader.error());
  return {};
}

// The flags that a replay has too, read by its table.
tl::expected<void, int> read_replay_flags(const Parsed& parsed, ServerOptions& options) {
  config::ReplaySources sources;
  for (const auto& [flag, value] : kLiveDefaults) sources.flags.push_back({std::string{flag}, std::string{value}});
  for (config::FlagValue& given : replay_flag_values(parsed)) sources.flags.push_back(std::move(given));
  sources.policies = all_policies();
  const auto settings = load_settings(sources);
  if (!settings) return tl::make_unexpected(settings.error());
  const auto run = make_run_options(*settings);
  if (!run) return tl::make_unexpected(complain_of_input(run.error()));
  const simulation::PoolSpec& pool = run->pools.front();
  options.session.engine = pool.engine;
  options.step_time = pool.step_time;
  options.start_up = pool.start_up;
  options.session.answers.seed = run->seed;
  options.kv_bytes_per_token = run->kv_bytes_per_token;
  options.kv_bytes_per_s = run->kv_transfer_bytes_per_s;
  return {};
}

tl::expected<ServerOptions, int> read_options(const Parsed& parsed) {
  ServerOptions options;
  options.version = PENSTOCK_VERSION;
  if (const auto read = read_own_flags(parsed, options); !read) return tl::make_unexpected(complain(read.error()));
  if (const auto read = read_replay_flags(parsed, options); !read) return tl::make_unexpected(read.error());
  options.session.hold_prefilled = options.role == signals::Role::kPrefill;
  options.session.kv_events = options.kv_events_port.has_value();
  return options;
}

}  // namespace

int serve_engine(const Arguments& arguments) {
  const auto parsed = parse_arguments(usage(), arguments);
  if (!parsed) return parsed.error();
  const auto options = read_options(*parsed);
  if (!options) return options.error();

  net::prepare_descriptors(1 << 14);
  net::Loop loop;
  int code = kGood;
  auto log = open_log(*parsed);
  if (!log) return log.error();
  std::string cause = "standard output is closed";
  std::unique_ptr<engine_server::EngineServer> server;
  const auto log_state = [&](engine_server::ServerState from, engine_server::ServerState to) {
    (*log)->write(logging::Event::kEngineState,
                  {{"engine", options->id}, {"from", to_string(from)}, {"to", to_string(to)}});
  };
  const net::SignalWatch signals{
      loop, {SIGTERM, SIGINT}, [&](int number) {
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
      code =
          complain({core::ErrorCode::kEnvironment, "engine " + options->id,
                    fmt::format("{} requests and transfers were cut short", cut), "give it a longer --drain-timeout"});
    loop.stop();
  };
  auto started = engine_server::EngineServer::start(loop, *options, std::move(events));
  if (!started) return complain(started.error());
  server = *std::move(started);
  code = print(fmt::format("engine {} ready on http://{}\n", options->id, server->address().text()));
  log_start(**log, "engine");
  (*log)->write(logging::Event::kListening, {{"purpose", "api"}, {"url", "http://" + server->address().text()}});
  if (options->fault != Fault::kNone)
    (*log)->write(logging::Event::kEngineFault, {{"engine", options->id}, {"fault", parsed->value_of("--fault")}});
  if (code == kGood) loop.run();
  return log_stop(**log, "engine", cause, code);
}

}  // namespace penstock::cli
