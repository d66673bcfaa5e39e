// Options of traces, the planner, and the files that a replay writes.
#include <initializer_list>
#include <string_view>
#include <utility>

#include "configuration/configuration.h"
#include "forecast/cron.h"
#include "options/values.h"

namespace penstock::configuration {
namespace {

using namespace options;

constexpr std::size_t kSchedulesMax = 256;

options::Value schedule_length(core::Duration& length) {
  const auto parse = [](std::string_view text) -> core::Result<core::Duration> {
    auto parsed = options::parse_duration(text);
    if (parsed && !forecast::is_floor_length(*parsed))
      return core::invalid_input({}, "must be whole seconds between 1 minute and 366 days, is " + quote(text));
    return parsed;
  };
  return value("duration", length, parse, options::format_duration);
}

void add_schedule(Table& table, Schedule& schedule) {
  table.add({"cron", "", "when it begins, in the five fields of crontab(5)"}, text(schedule.cron)).required();
  table.add({"length", "", "how long it lasts"}, schedule_length(schedule.length)).required();
  table.add({"pool", "", "the pool; may be left out where there is one"}, text(schedule.pool));
  table.add({"replicas", "", "fewest replicas in that time"}, count(schedule.replicas, 1, kReplicasMax)).required();
}

void add_loops(Table& table, planner::PlannerOptions& options, core::Duration& memory) {
  using decision::RolloutPhase;
  using planner::OptimizationTarget;
  table.add(
      {"planner.target", "--target", "what the planner optimises: throughput, latency or sla, which needs an SLO"},
      named_choice(options.target, {{"throughput", OptimizationTarget::kThroughput},
                                    {"latency", OptimizationTarget::kLatency},
                                    {"sla", OptimizationTarget::kSla}}));
  table.add({"planner.phase", "--phase",
             "how much of the planner is active, each phase with those before: observe, guardrails, throughput, load, "
             "phase-specific or cost"},
            choice(options.phase, {RolloutPhase::kObserve, RolloutPhase::kGuardrails, RolloutPhase::kThroughput,
                                   RolloutPhase::kLoad, RolloutPhase::kPhaseSpecific, RolloutPhase::kCost}));
  table.add({"planner.tick_interval", "--tick-interval",
             "from one decision to the next; loops begin and urgent corrections are made at ticks"},
            duration(options.interval));
  table.add({"planner.throughput_interval", "--throughput-interval",
             "from one plan by forecast to the next; 0s switches this loop off"},
            duration(options.throughput_loop.interval));
  table.add({"planner.load_interval", "--load-interval",
             "from one correction by load to the next; 0s switches this loop off"},
            duration(options.load_loop.interval));
  table.add({"planner.memory", "", "how much recent traffic fleets are tried on; shorter where a day is short"},
            duration_above_zero(memory));
  table.add({"planner.utilisation", "",
             "share of the capacity of a replica that the token formula and the target throughput plan for"},
            share(options.utilisation, 0.5, 0.95));
  table
      .add({"planner.scale_to_zero_after", "--scale-to-zero-after",
            "time without requests after which a pool with min_replicas: 0 has no replica"},
           duration_above_zero(options.scale_to_zero_after))
      .reloadable();
}

void add_nats(Table& table, connect::NatsAccess& access) {
  table.add({"planner.nats.ca_file", "",
             "PEM file that verifies the certificate of planner.nats_server, beside those of the system"},
            text(access.ca_file));
  table.add({"planner.nats.certificate", "", "PEM file with a client certificate for it"}, text(access.certificate));
  table.add({"planner.nats.key", "", "PEM file with the key of that certificate"}, text(access.key_file));
  table.add({"planner.nats.user", "", "user of it"}, text(access.user));
  table.add({"planner.nats.password_file", "", "file with the password of that user"}, text(access.password_file));
  table.add({"planner.nats.password_env", "", "environment variable with that password"}, text(access.password_env));
  table.add({"planner.nats.token_file", "", "file with a token for it"}, text(access.token_file));
  table.add({"planner.nats.token_env", "", "environment variable with that token"}, text(access.token_env));
  table.add({"planner.nats.creds_file", "", "credentials file for it: a JWT and its seed, as nsc writes them"},
            text(access.creds_file));
  table.add({"planner.nats.nkey", "", "public nkey for it"}, text(access.nkey));
  table.add({"planner.nats.seed_file", "", "file with the seed of that nkey"}, text(access.seed_file));
}

void add_forecast(Table& table, PlannerSetup& setup) {
  table
      .add({"planner.predictor", "--predictor", "forecast of the traffic, by its name"},
           text(setup.options.outlook.predictor))
      .placeholder("NAME");
  table
      .add({"planner.warm_trace", "--warm-trace", "trace file of earlier traffic that forecasts begin with"},
           text(setup.warm_trace))
      .placeholder("FILE");
  table
      .add(
          {"planner.dynamo_discovery", "--dynamo-discovery",
           "where a live planner finds the workers behind Dynamo's front end: file:FOLDER, which DYN_FILE_KV names, or "
           "etcd:http://HOST:PORT"},
          text(setup.dynamo_discovery))
      .placeholder("SOURCE");
  table
      .add({"planner.gpu_exporters", "--gpu-exporters",
            "URLs of DCGM exporters that a live planner reads, like http://node-1:9400; their pods have the names of "
            "replicas, or each runs on the host of one replica"},
           names(setup.gpu_exporters))
      .placeholder("URL,…");
  table.add({"planner.drain_deadline", "",
             "longest drain of an engine that the planner runs itself; what is open there after it is cut; a pool may "
             "have its own"},
            duration_above_zero(setup.drain_deadline));
  table.add({"planner.unhealthy_drain_deadline", "",
             "the same for an engine that answers neither the planner nor requests, from its last sign of life"},
            duration_above_zero(setup.unhealthy_drain_deadline));
  table.add({"planner.kubernetes.manual_hold", "",
             "time for which a pool stays as another client scaled it, before the planner goes on from there"},
            duration(setup.kubernetes.manual_hold));
  table.add({"planner.kubernetes.pending_timeout", "",
             "time for which pods may be unable to start before the planner asks for no more"},
            duration(setup.kubernetes.pending_timeout));
  table.add({"planner.kubernetes.single_node", "",
             "names of pools each of whose replicas must run on one node; the planner reports replicas that do not"},
            names(setup.kubernetes.single_node));
  table
      .add({"planner.nats_server", "--nats-server",
            "server of the subjects that Dynamo's discovery names, if its event plane is NATS"},
           text(setup.nats_server))
      .placeholder("SERVER");
  add_nats(table, setup.nats);
  table
      .add({"planner.warm_pool", "--warm-pool", "replicas beyond the plan that stay ready"},
           count(setup.options.schedule.warm_pool, 0, kReplicasMax))
      .reloadable();
  table.add({"planner.start_time", "", "time that the start of the trace stands for in schedules"},
            timestamp(setup.start_time));
  table.add({"planner.utc_offset", "", "offset of the local time of schedules, as +02:00"},
            utc_offset(setup.utc_offset));
  table
      .list<Schedule>({"planner.schedules", "", "fewest replicas at times of the calendar"}, setup.schedules,
                      kSchedulesMax, add_schedule)
      .reloadable();
}

void add_limits(Table& table, planner::GuardrailOptions& guardrails) {
  table
      .add({"planner.gpu_budget", "--gpu-budget", "GPUs of all pools together; 0 is no limit"},
           limit(guardrails.gpu_budget, 10'000'000))
      .reloadable();
  table
      .add({"planner.growth", "", "a pool grows to at most so many times its size in a minute"},
           number(guardrails.growth_per_minute, 1.0, 1000.0))
      .reloadable();
  table
      .add({"planner.stabilisation", "",
            "a pool shrinks to the largest size that was planned in this time; the policy penstock "
            "learns which multiple of it, from 1 to 12, costs least"},
           duration(guardrails.stabilisation))
      .reloadable();
  table
      .add({"planner.shrink_share", "", "share of a pool that one step may remove, at least one replica"},
           share(guardrails.shrink_share))
      .reloadable();
  table
      .add({"planner.sensitivity", "--sensitivity", "from 0 to 100; higher shrinks sooner"},
           number(guardrails.sensitivity, 0.0, 100.0))
      .reloadable();
  table
      .add({"planner.manual_hold", "", "how long a number of replicas that was set manually is left alone"},
           duration(guardrails.manual_hold))
      .reloadable();
  table
      .add({"planner.failure_cooldown", "",
            "how long nothing changes after a scaling action failed; doubles with each in a row"},
           duration(guardrails.failure_cooldown))
      .reloadable();
  table.add({"planner.kv_hot", "", "mean use of the KV cache at which nothing shrinks"}, share(guardrails.kv_hot))
      .reloadable();
  table
      .add({"planner.queue_age", "", "nothing shrinks while a request has waited longer than this in an engine"},
           duration(guardrails.queue_age))
      .reloadable();
  table
      .add({"planner.minimum_endpoints", "--minimum-endpoints",
            "ready replicas that a step down must leave, whatever min_replicas is"},
           count(guardrails.minimum_endpoints, 0, kReplicasMax))
      .reloadable();
  // The names of NVIDIA Dynamo's planner, whose file has no sections: they are found here and at the top of the file.
  for (const auto& [theirs, ours] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"planner.optimization_target", "planner.target"},
           {"planner.min_endpoint", "planner.minimum_endpoints"},
           {"planner.max_gpu_budget", "planner.gpu_budget"},
           {"planner.adjustment_interval", "planner.throughput_interval"},
           {"planner.throughput_adjustment_interval", "planner.throughput_interval"},
           {"planner.throughput_adjustment_interval_seconds", "write planner.throughput_interval, as 180s"},
           {"planner.load_adjustment_interval", "planner.load_interval"},
           {"planner.load_adjustment_interval_seconds", "write planner.load_interval, as 20s"},
           {"planner.enable_throughput_scaling", "planner.throughput_interval: 0s disables the loop"},
           {"planner.enable_load_scaling", "planner.load_interval: 0s disables the loop"},
           {"planner.loadbased_scaling_down_sensitivity", "planner.sensitivity"},
           {"planner.load_scaling_down_sensitivity", "planner.sensitivity"},
           {"planner.ttft_ms", "write slo.ttft, as 500ms"},
           {"planner.itl_ms", "write slo.itl, as 50ms"},
           {"planner.load_predictor", "planner.predictor"},
           {"planner.load_predictor_warmup_trace", "planner.warm_trace"},
           {"planner.advisory", "planner.phase: observe applies nothing"},
           {"planner.metric_pulling_prometheus_endpoint", "prometheus.url"}}) {
    table.renamed(theirs, ours);
    table.renamed(theirs.substr(std::string_view{"planner."}.size()), ours);
  }
  for (const auto& [theirs, ours] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {"planner.report_interval_hours", "write report_interval at the top level, as 24h"},
           {"planner.report_output_dir", "write report_dir at the top level"},
           {"planner.live_dashboard_port", "use the flag --dashboard of `penstock plan`; 0 disables the page"},
           {"--min-endpoint", "--minimum-endpoints"},
           {"--loadbased-scaling-down-sensitivity", "--sensitivity"},
           {"--optimization-target", "--target"},
           {"--adjustment-interval", "--throughput-interval"}})
    table.renamed(theirs, ours);
}

}  // namespace

void add_trace_format(Table& table, workload::ReadOptions& read) {
  using workload::TimeFormat;
  table
      .add({"format", "--format", "format of the traces, if it is not to be detected"},
           value("text", read.format, workload::parse_format,
                 [](workload::Format known) { return std::string{workload::name_of(known)}; }))
      .placeholder("NAME");
  table
      .add({"columns", "--columns", "columns of a trace with other names, such as time=Request Time,input=Prompt Tok"},
           value("text", read.columns, workload::ColumnMapping::parse,
                 [](const workload::ColumnMapping& columns) { return columns.text(); }))
      .placeholder("VALUE=COLUMN,...");
  table
      .add(
          {"trace_model", "--trace-model", "requests of a trace to read if it names several models: one model, or all"},
          text(read.model))
      .placeholder("MODEL");
  table.add({"time_format", "--time-format", "format of the arrivals of a trace, if it is not to be detected"},
            choice(read.time_format,
                   {TimeFormat::kAuto, TimeFormat::kSeconds, TimeFormat::kMilliseconds, TimeFormat::kMicroseconds,
                    TimeFormat::kNanoseconds, TimeFormat::kIso, TimeFormat::kDayFirst, TimeFormat::kMonthFirst}));
  table
      .add({"skip_bad_rows", "--skip-bad-rows",
            "leave bad rows of a trace out and count them, instead of refusing the trace"},
           boolean(read.skip_bad_rows))
      .implies("true");
  table.add({"session_rate", "--session-rate", "sessions per second that start in a trace of whole sessions"},
            number(read.session_rate, 0.0, 1e6));
  table.add({"think_time_max", "--think-time-max", "longest time between the turns of such a session"},
            duration(read.think_time_max));
}

void add_rate_scale(Table& table, workload::RateScale& scale) {
  table.add({"rate_scale", "--rate-scale", "replay this many times as many requests per second"},
            number(scale.factor, 1e-6, 1e3));
  table.add({"rate_scale_spread", "--rate-scale-spread",
             "longest time by which a copy that rate_scale adds is moved; 30 s, at most 1 % of the trace, by default"},
            duration(scale.spread));
}

void add_traces(Table& table, TraceOptions& traces) {
  table.group("Workload");
  table.add({"trace", "", "trace files, `synthetic:…` or `built-in`; on the command line they need no flag"},
            texts(traces.names));
  add_trace_format(table, traces.read);
  add_rate_scale(table, traces.rate_scale);
  table.add({"batch_share", "--batch-share",
             "share of the requests of a trace that become class batch, whole sessions by a hash of their number"},
            share(traces.batch_share));
  table.add({"from", "--from", "leave out what arrives before"}, duration(traces.read.from));
  table.add({"to", "--to", "leave out what arrives at this time or later"}, duration(traces.read.to));
}

void add_seed(Table& table, std::uint64_t& seed) {
  table.add({"seed", "--seed", "seed of everything that is drawn; same seed, same result"}, count(seed, 0, UINT64_MAX));
}

void add_planner(Table& table, PlannerSetup& planner) {
  table.group("Planner");
  add_loops(table, planner.options, planner.memory);
  add_forecast(table, planner);
  add_limits(table, planner.options.guardrails);
}

void add_output(Table& table, OutputOptions& output, std::uint32_t& series_points) {
  table.group("Output");
  const auto file = [&](Names names, std::string& path) { table.add(names, text(path)).placeholder("FILE"); };
  file({"json", "--json", "write the results as JSON to this file; - is standard output"}, output.json);
  file({"csv", "--csv", "write one line per result to this file"}, output.csv);
  file({"html", "--html", "write a report with charts to this file"}, output.html);
  file({"decision_log", "--decision-log",
        "write every decision with its evidence to this .jsonl or .sqlite file, for `penstock explain`"},
       output.decision_log);
  file({"metrics", "--metrics", "write the Prometheus series of the planner at the end of each run to this file"},
       output.metrics);
  table
      .add({"report_dir", "--report-dir",
            "write reports with charts to this folder: replay one for each policy and interval, plan one for each "
            "interval and "
            "one at the end"},
           text(output.report_dir))
      .placeholder("FOLDER");
  table.add({"report_interval", "--report-interval", "length of such an interval; 0s: plan writes one at the end only"},
            duration(output.report_interval));
  table.renamed("report_interval_hours", "write report_interval, as 24h");
  table.renamed("report_output_dir", "report_dir");
  table.renamed("live_dashboard_port", "use the flag --dashboard of `penstock plan`; 0 disables the page");
  table.renamed("--report-output-dir", "--report-dir");
  table.renamed("--report-interval-hours", "--report-interval");
  table.add({"series_points", "--series-points", "points of each chart, at most"}, count(series_points, 1, 100'000));
}

}  // namespace penstock::configuration
