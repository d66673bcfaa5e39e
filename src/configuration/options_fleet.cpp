// Options of pools, engines, the SLO and faults.
#include "configuration/configuration.h"
#include "core/traffic_class.h"
#include "options/values.h"

namespace penstock::configuration {
namespace {

using namespace options;

constexpr std::uint32_t kBlocksMax = 100'000'000;
constexpr std::size_t kFaultEventsMax = 1000;
constexpr std::string_view kTpot = "write itl, the mean gap between the tokens of a request";

void add_selector(Table& table, signals::RequestSelector& selector) {
  table.add({"class", "", "requests of this class: interactive or batch"},
            text_choice(selector.traffic_class, {core::kInteractiveClass, core::kBatchClass}));
  table.add({"tenant", "", "requests of this tenant"}, text(selector.tenant));
  table.add({"prompt_min", "", "requests whose prompt has so many tokens or more"},
            count(selector.prompt_min, 0, 1'000'000'000));
  table
      .add({"prompt_max", "", "requests whose prompt has so many tokens or fewer"},
           count(selector.prompt_max, 0, 1'000'000'000))
      .by_default("");
}

void add_pool_names(Table& table, simulation::PoolSpec& pool) {
  table.add({"name", "", "name of the pool in reports; by default its role"}, text(pool.name));
  table.add({"role", "", "aggregated, or one pool with prefill and one with decode"},
            choice(pool.role, {signals::Role::kAggregated, signals::Role::kPrefill, signals::Role::kDecode}));
  add_selector(table, pool.serves);
  table.add({"overflow", "", "its requests may go to a pool that would answer clearly sooner"}, boolean(pool.overflow));
  table.add({"kubernetes", "",
             "object that `penstock plan --engines kubernetes` scales: deployment/NAME, statefulset/NAME, "
             "leaderworkerset/NAME, dynamographdeploymentscalingadapter/NAME, dynamographdeployment/NAME/COMPONENT, or "
             "GROUP/VERSION/PLURAL/NAME"},
            text(pool.kubernetes));
  table.add({"hardware", "", "kind of its GPUs, of the list budget.hardware"}, text(pool.hardware));
  table
      .add({"drain_deadline", "", "longest drain of its engines if the planner runs them itself"},
           duration_above_zero(pool.drain_deadline))
      .by_default("planner.drain_deadline");
  table
      .add({"unhealthy_drain_deadline", "", "the same for engines that answer neither the planner nor requests"},
           duration_above_zero(pool.unhealthy_drain_deadline))
      .by_default("planner.unhealthy_drain_deadline");
}

void add_segment(Table& table, signals::SegmentSlo& segment) {
  table.add({"name", "", "name of the segment in reports"}, text(segment.name)).required();
  table.add({"model", "", "requests for this model"}, text(segment.model));
  add_selector(table, segment);
  table.add({"ttft", "", "longest time to first token"}, duration_above_zero(segment.target.ttft))
      .by_default("slo.ttft");
  table.add({"itl", "", "longest mean gap between the tokens of a request"}, duration_above_zero(segment.target.itl))
      .by_default("slo.itl");
  table
      .add({"e2e", "", "longest time from arrival to end; the only objective of answers that are not streamed"},
           duration_above_zero(segment.target.e2e))
      .by_default("slo.e2e");
  table.add({"goal", "", "share of its requests that are to keep all"}, share(segment.goal)).by_default("slo.goal");
  table.renamed("tpot", kTpot);
}

}  // namespace

namespace {

void add_fault_event(Table& table, simulation::FaultEvent& event) {
  using simulation::FaultKind;
  table
      .add({"kind", "",
            "crash: engines end; hang: they accept requests and compute nothing; slow: their steps take longer; "
            "gateway_restart: the gateway stops and forgets its state; truncate: engines end streams after one token; "
            "miscount: engines report false token counts"},
           choice(event.kind, {FaultKind::kCrash, FaultKind::kHang, FaultKind::kSlow, FaultKind::kGatewayRestart,
                               FaultKind::kTruncate, FaultKind::kMiscount}))
      .required();
  table.add({"at", "", "time from the start of the run"}, duration(event.at));
  table.add({"for", "", "how long it lasts; 0s: to the end of the run, and a gateway is back at once"},
            duration(event.length));
  table.add({"replica", "", "number of the replica, in the order of their starts; 0: any"},
            count(event.replica, 0, kReplicasMax));
  table.add({"pool", "", "name of the pool; by default any"}, text(event.pool));
  table.add({"factor", "", "how many times longer the steps of slow engines take"}, number(event.factor, 1.0, 1000.0));
}

}  // namespace

void add_start_up(Table& table, core::Duration& start_up) {
  table.add({"start_up", "--start-up", "from the request for a replica until it is ready"}, duration(start_up));
}

void add_wake_time(Table& table, core::Duration& wake_time) {
  table.add({"wake_time", "--wake-time",
             "from the request to wake a replica that is asleep until it is ready; 0s: replicas never sleep"},
            duration(wake_time));
}

void add_switch_time(Table& table, core::Duration& switch_time) {
  table.add({"switch_time", "--switch-time",
             "from the drain of a prefill replica until it serves as a decode replica, or the reverse; 0s: roles are "
             "fixed"},
            duration(switch_time));
}

void add_pool(Table& table, simulation::PoolSpec& pool) {
  table.group("Fleet");
  table.add({"replicas", "--replicas", "replicas that are ready at the start"}, count(pool.replicas, 0, kReplicasMax));
  table
      .add({"min_replicas", "--min-replicas",
            "fewest replicas that a policy may request; with 0, a pool without requests has none"},
           count(pool.min_replicas, 0, kReplicasMax))
      .reloadable();
  table
      .add({"max_replicas", "--max-replicas", "most replicas that a policy may request"},
           count(pool.max_replicas, 1, kReplicasMax))
      .reloadable();
  table.add({"gpus", "--gpus", "GPUs of one replica; tp × pp of a roofline engine"},
            count(pool.gpus_per_replica, 1, 1024));
  table.add({"price", "--price", "price of one GPU for one hour (USD)"}, number(pool.price_per_gpu_hour, 0.0, 1e6))
      .reloadable();
  add_start_up(table, pool.start_up);
  add_wake_time(table, pool.wake_time);
  table
      .add({"sleep_price", "--sleep-price", "share of the price of its GPUs that a replica costs while it is asleep"},
           share(pool.sleep_price))
      .reloadable();
  table
      .add({"asleep", "--asleep",
            "replicas that are kept asleep beside the target, within max_replicas; growth wakes them first"},
           count(pool.min_asleep, 0, kReplicasMax))
      .reloadable();
  add_switch_time(table, pool.switch_time);
}

void add_engine(Table& table, engine::EngineConfig& engine, std::string& step_time_model) {
  using engine::IterationOrder;
  using engine::IterationRules;
  using engine::PreemptionOrder;
  using engine::QueueOrder;
  table.group("Engine");
  table
      .add({"engine.model", "--engine", "step-time model: polynomial, linear:…, roofline:… or a measured profile"},
           text(step_time_model))
      .placeholder("MODEL");
  table.add(
      {"engine.iteration_order", "--iteration-order",
       "mixed: prompts beside decoding sequences, as vLLM; prefill-first: alone while the sequences wait, as SGLang"},
      named_choice(engine.iteration_order,
                   {{"mixed", IterationOrder::kMixed}, {"prefill-first", IterationOrder::kPrefillFirst}}));
  table.add(
      {"engine.iteration_rules", "--iteration-rules",
       "whose replay the iterations are timed like: dynamo-1.6, or dynamo-1.3 with one decode step more per prompt"},
      named_choice(engine.iteration_rules,
                   {{"dynamo-1.6", IterationRules::kDynamo16}, {"dynamo-1.3", IterationRules::kDynamo13}}));
  table.add({"engine.block_size", "--block-size", "tokens in one KV block"}, count(engine.block_tokens, 1, 65'536));
  table.add({"engine.kv_blocks", "--kv-blocks", "blocks in the KV cache of one replica"},
            count(engine.kv_blocks, 1, kBlocksMax));
  table.add({"engine.max_sequences", "--max-sequences", "sequences that run at once"},
            count(engine.max_sequences, 1, 65'536));
  table.add({"engine.max_batched_tokens", "--max-batched-tokens", "token budget of one iteration"},
            count(engine.max_batched_tokens, 1, 16'777'216));
  table
      .add({"engine.chunked_prefill", "--no-chunked-prefill", "spread a long prompt over several iterations"},
           boolean(engine.chunked_prefill))
      .implies("false");
  table
      .add({"engine.prefix_caching", "--no-prefix-caching", "keep blocks for requests that begin alike"},
           boolean(engine.prefix_caching))
      .implies("false");
  table.add({"engine.watermark", "--watermark", "share of blocks kept free when a request is admitted"},
            share(engine.watermark));
  table.add({"engine.queue_order", "--queue-order", "which request is served first: fcfs, shortest or priority"},
            named_choice(engine.queue_order, {{"fcfs", QueueOrder::kFcfs},
                                              {"shortest", QueueOrder::kShortest},
                                              {"priority", QueueOrder::kPriority}}));
  table.add(
      {"engine.fairness_bound", "--fairness-bound", "with shortest: a request that waited longer than this goes first"},
      duration(engine.fairness_bound));
  table.add({"engine.preemption_order", "--preemption-order",
             "which sequence is preempted when KV blocks run out: lifo, least-progress or priority"},
            named_choice(engine.preemption_order, {{"lifo", PreemptionOrder::kLifo},
                                                   {"least-progress", PreemptionOrder::kLeastProgress},
                                                   {"priority", PreemptionOrder::kPriority}}));
  table.add({"engine.queue_delay", "--queue-delay", "an idle engine waits this long for more prompts before it steps"},
            duration(engine.queue_delay));
  table.add({"engine.prefill_share", "--prefill-share",
             "share of the tokens of an iteration for prompts while sequences decode; 1 is one shared budget"},
            share(engine.prefill_share));
  table.add({"engine.prefill_share_min", "--prefill-share-min", "lower bound of the controller of prefill_share"},
            share(engine.prefill_share_min));
  table.add({"engine.prefill_share_max", "--prefill-share-max", "upper bound of the controller of prefill_share"},
            share(engine.prefill_share_max));
}

void add_kv_transfer(Table& table, double& bytes_per_token, double& bytes_per_s) {
  table.add({"kv_transfer.bytes_per_token", "--kv-bytes-per-token",
             "KV cache that a prefill replica sends to a decode replica for each token of the prompt"},
            bytes(bytes_per_token));
  table.add({"kv_transfer.bandwidth", "--kv-bandwidth", "speed of that transfer"}, bytes_per_second(bytes_per_s));
}

void add_slo(Table& table, simulation::RunOptions& run) {
  table.group("SLO");
  table.section_flag("--slo", "slo", "the SLO, as ttft=2s,itl=50ms,goal=99%");
  table.add({"slo.ttft", "", "longest time to first token that keeps the SLO"}, duration_above_zero(run.slo.ttft))
      .reloadable();
  table
      .add({"slo.itl", "", "longest mean gap between the tokens of a request that keeps the SLO"},
           duration_above_zero(run.slo.itl))
      .reloadable();
  table
      .add(
          {"slo.e2e", "",
           "longest time from arrival to end that keeps the SLO; answers that are not streamed are judged by it alone, "
           "and by nothing without it"},
          duration_above_zero(run.slo.e2e))
      .by_default("none")
      .reloadable();
  table.add({"slo.goal", "", "share of the requests that are to keep all"}, share(run.slo_goal)).reloadable();
  table.renamed("slo.tpot", kTpot);
  table
      .list<signals::SegmentSlo>(
          {"slo.segments", "", "requests with an SLO of their own; the first segment that matches a request counts"},
          run.slo_segments, signals::kSegmentsMax, add_segment,
          [&run] {
            signals::SegmentSlo segment;
            segment.target = run.slo;
            segment.goal = run.slo_goal;
            return segment;
          })
      .reloadable();
}

void add_faults(Table& table, simulation::Faults& faults) {
  table.group("Faults");
  table.add({"faults.telemetry_delay", "--telemetry-delay", "policies see the engines as they were this long ago"},
            duration(faults.telemetry_delay));
  table.add({"faults.telemetry_loss", "--telemetry-loss", "share of samples that never arrive"},
            share(faults.telemetry_loss));
  table.add(
      {"faults.telemetry_lie", "--telemetry-lie", "share of samples that show an empty queue and an empty KV cache"},
      share(faults.telemetry_lie));
  table.add({"faults.crashes_per_replica_hour", "--crashes", "crashes per replica and hour"},
            number(faults.crashes_per_replica_hour, 0.0, 3600.0));
  table.add({"faults.start_up_spread", "--start-up-spread", "start-ups take up to this many times start_up longer"},
            number(faults.start_up_spread, 0.0, 100.0));
  table.add({"faults.cache_event_delay", "--cache-event-delay", "KV events reach the router this late"},
            duration(faults.cache_event_delay));
  table.add({"faults.cancelled_requests", "--cancelled-requests", "share of requests whose client leaves"},
            share(faults.cancelled_requests));
  table.add({"faults.cancelled_after", "--cancelled-after", "mean time from the arrival until such a client leaves"},
            duration_above_zero(faults.cancelled_after));
  table.add({"faults.refused_actions", "--refused-actions",
             "share of scale requests that the platform refuses; the fleet stays as it is"},
            share(faults.refused_actions));
  table.list<simulation::FaultEvent>(
      {"faults.events", "--fault",
       "a fault at a given time, as kind=hang,at=60s,for=30s,replica=1; once for each fault"},
      faults.events, kFaultEventsMax, add_fault_event);
  for (const std::string_view old : {"faults.slow_replicas", "faults.slow_factor"}) table.renamed(old, "faults.events");
  for (const std::string_view old : {"--slow-replicas", "--slow-factor"}) table.renamed(old, "--fault");
}

void add_capacity(Table& table, KnownCapacity& capacity) {
  table.group("Capacity");
  table.section_flag("--capacity", "capacity",
                     "capacity of one replica, as requests_per_s=2.5,concurrency=12; a replay load-tests what is not "
                     "given in simulation");
  table.add({"capacity.requests_per_s", "", "requests per second that one replica carries within the SLO"},
            number(capacity.requests_per_s, 1e-9, 1e12));
  table.add({"capacity.input_tokens_per_s", "", "prompt tokens per second of the same"},
            number(capacity.input_tokens_per_s, 1e-9, 1e12));
  table.add({"capacity.output_tokens_per_s", "", "output tokens per second of the same"},
            number(capacity.output_tokens_per_s, 1e-9, 1e12));
  table.add({"capacity.concurrency", "", "requests in flight at that rate"}, number(capacity.concurrency, 1e-9, 1e12));
}

namespace {

void add_comparison(Table& table, Configuration& made) {
  table.group("What is compared");
  table.add({"policy", "--policy", "autoscaling policies to compare, or `all`"}, texts(made.policies));
  table.add({"frontier", "--frontier", "also run static fleets of each size in this range"}, range(made.frontier, 256));
  table
      .add({"answer", "--no-answer",
            "look for the cheapest fixed fleet that reaches slo.goal, and compare it with the policies"},
           boolean(made.answer))
      .implies("false");
  table.add({"score_from", "--score-from",
             "leave what arrives before, and the GPU time until then, out of all results; it is served"},
            duration(made.score_from));
  using routing::Strategy;
  table.add(
      {"router", "--router",
       "how requests find a replica: live is the gateway with its limits; peers: kv, round-robin, least-loaded or p2c"},
      choice(made.run.router,
             {Strategy::kLive, Strategy::kKv, Strategy::kRoundRobin, Strategy::kLeastLoaded, Strategy::kPowerOfTwo}));
  table.add({"jobs", "--jobs", "runs at once; 0 is one for each core"}, count(made.jobs, 0, 1024));
}

}  // namespace

void add_fleet(Table& table, simulation::PoolSpec& pool, simulation::RunOptions& run) {
  table.group("Fleet");
  table.add({"model", "--model",
             "name of the model that is served: a live planner ignores requests for others; segments may name it"},
            text(run.model));
  add_pool(table, pool);
  table.list<simulation::PoolSpec>(
      {"pools", "--pool",
       "a pool, as role=prefill,replicas=2,max_replicas=8 or name=short,prompt_max=4000; once for each pool"},
      run.pools, dispatch::kPoolsMax,
      [](Table& rows, simulation::PoolSpec& item) {
        rows.group("Fleet");
        add_pool_names(rows, item);
        add_pool(rows, item);
        add_engine(rows, item.engine, item.step_time_model);
      },
      [&pool] {
        simulation::PoolSpec item = pool;
        item.name.clear();
        return item;
      });
  add_kv_transfer(table, run.kv_bytes_per_token, run.kv_transfer_bytes_per_s);
  add_engine(table, pool.engine, pool.step_time_model);
}

Table configuration_table(Configuration& made) {
  Table table;
  add_traces(table, made.traces);
  add_seed(table, made.run.seed);
  add_comparison(table, made);
  add_slo(table, made.run);
  add_fleet(table, made.pool, made.run);
  add_faults(table, made.run.faults);
  add_capacity(table, made.capacity);
  add_planner(table, made.planner);
  add_deployments(table, made);
  add_output(table, made.output, made.run.series_points);
  add_gateway(table, made.gateway);
  add_prometheus(table, made.prometheus);
  add_log(table, made.log);
  return table;
}

std::vector<std::string_view> replay_groups() {
  return {"Workload", "What is compared", "SLO",     "Fleet",       "Engine", "Faults",
          "Capacity", "Deferral",         "Planner", "Deployments", "Output"};
}

std::vector<std::string_view> gateway_groups() {
  return {"Addresses", "Endpoint picker", "Operation",  "Replicas", "Forwarding", "Routing",
          "Admission", "Deferral",        "Accounting", "SLO",      "Log"};
}

std::vector<std::string_view> planner_groups() { return {"Prometheus"}; }

}  // namespace penstock::configuration
