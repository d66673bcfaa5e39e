// Reports contradictions in the SLO and its segments, between planner and pools, and in the gateway's options.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "configuration/configuration.h"
#include "connect/nats/endpoint.h"
#include "forecast/predictor.h"
#include "gateway/fields.h"

namespace penstock::configuration {
namespace {

using options::format_duration;
using options::format_number;
using options::quote;
using options::Reading;

constexpr core::Duration kIntervalMin = std::chrono::seconds{1};
// Of reports between gateways, well below PeerBudgets::kForgetAfter.
constexpr core::Duration kExchangeMin = std::chrono::milliseconds{100}, kExchangeMax = std::chrono::seconds{10};

class PlannerChecker {
 public:
  PlannerChecker(Configuration& made, Reading& reading) : run_(made.run), planner_(made.planner), reading_(reading) {}

  void check_all() {
    check_goal(run_.slo_goal, "slo.goal");
    for (std::size_t i = 0; i < run_.slo_segments.size(); ++i) check_segment(i);
    check_target();
    check_loops();
    check_predictor();
    for (std::size_t i = 0; i < planner_.schedules.size(); ++i) settle_schedule(i);
    check_budget();
    check_nats();
  }

 private:
  void report(const std::string& path, std::string what, std::string hint = {}) {
    reading_.report(path, std::move(what), std::move(hint));
  }
  [[nodiscard]] bool given(const std::string& path) const { return reading_.given(path); }

  void check_goal(double goal, const std::string& path) {
    if (goal <= 0.0 || goal >= 1.0)
      report(path, fmt::format("must be above 0 and below 1, is {}", format_number(goal)));
  }

  void check_segment(std::size_t index) {
    const signals::SegmentSlo& segment = run_.slo_segments[index];
    const std::string path = fmt::format("slo.segments[{}]", index);
    if (given(path + ".goal")) check_goal(segment.goal, path + ".goal");
    check_selectors(index, path);
    for (std::size_t earlier = 0; earlier < index; ++earlier)
      if (run_.slo_segments[earlier].name == segment.name)
        return report(path + ".name", fmt::format("two segments are called {}", quote(segment.name)));
    if (segment.name == signals::kGeneralTarget)
      report(path + ".name",
             fmt::format("must not be {}, which is the target of all other requests", quote(segment.name)));
  }

  void check_selectors(std::size_t index, const std::string& path) {
    const signals::SegmentSlo& segment = run_.slo_segments[index];
    if (!selects(index))
      return report(path, "selects nothing", "give it a model, class, tenant, prompt_min or prompt_max");
    if (segment.prompt_min > segment.prompt_max)
      return report(reading_.first_given({path + ".prompt_max", path + ".prompt_min"}),
                    fmt::format("must be at least prompt_min ({}), is {}", segment.prompt_min, segment.prompt_max));
    if (!run_.model.empty() && !segment.model.empty() && segment.model != run_.model)
      return report(path + ".model", "never matches, since the deployment serves " + quote(run_.model));
    for (std::size_t earlier = 0; earlier < index; ++earlier) {
      const signals::SegmentSlo& wide = run_.slo_segments[earlier];
      if (!selects(earlier) || !covers(wide, segment)) continue;
      if (!reading_.are_read({"model", fmt::format("slo.segments[{}]", earlier)})) continue;
      const bool model_unknown = !wide.model.empty() && run_.model.empty();
      return report(
          path, fmt::format("never matches, since segment {} before it matches all that it does", quote(wide.name)),
          model_unknown ? "without the key model, a segment of any model matches; name the model that is served"
                        : "the first that matches counts; put the narrower one first");
    }
  }

  [[nodiscard]] bool selects(std::size_t index) const {
    const signals::SegmentSlo& segment = run_.slo_segments[index];
    const std::string path = fmt::format("slo.segments[{}]", index);
    return !segment.model.empty() || !segment.traffic_class.empty() || !segment.tenant.empty() ||
           given(path + ".prompt_min") || given(path + ".prompt_max");
  }

  // Returns true if `wide` matches every request that `narrow` matches.
  [[nodiscard]] bool covers(const signals::SegmentSlo& wide, const signals::SegmentSlo& narrow) const {
    const auto same = [](const std::string& of_wide, const std::string& of_narrow) {
      return of_wide.empty() || of_wide == of_narrow;
    };
    const bool model = run_.model.empty() || wide.model == run_.model || same(wide.model, narrow.model);
    return model && same(wide.traffic_class, narrow.traffic_class) && same(wide.tenant, narrow.tenant) &&
           wide.prompt_min <= narrow.prompt_min && wide.prompt_max >= narrow.prompt_max;
  }

  // The planner uses goals and segments only with the target `sla`.
  void check_target() {
    if (planner_.options.target == planner::OptimizationTarget::kSla) return;
    const bool latency = planner_.options.target == planner::OptimizationTarget::kLatency;
    for (const char* ignored : {"slo.segments", "slo.goal"})
      if (given(ignored))
        return report("planner.target", fmt::format("must be sla, since {} is given, which {} ignores", ignored,
                                                    latency ? "latency" : "throughput"));
  }

  void check_loops() {
    const core::Duration off{};
    const core::Duration throughput = planner_.options.throughput_loop.interval;
    const core::Duration load = planner_.options.load_loop.interval;
    const core::Duration tick = planner_.options.interval;
    if (tick < kIntervalMin)
      report("planner.tick_interval",
             fmt::format("must be at least {}, is {}", format_duration(kIntervalMin), format_duration(tick)));
    for (const auto& [path, interval] :
         {std::pair{"planner.throughput_interval", throughput}, {"planner.load_interval", load}}) {
      if (interval != off && interval < kIntervalMin)
        report(path, fmt::format("must be at least {}, or 0s to switch the loop off, is {}",
                                 format_duration(kIntervalMin), format_duration(interval)));
      else if (interval != off && interval < tick && (given(path) || given("planner.tick_interval")) &&
               reading_.are_read({path, "planner.tick_interval"}))
        report(given(path) ? path : "planner.tick_interval",
               fmt::format("{} ({}) must be at least tick_interval ({})", std::string_view{path}.substr(8),
                           format_duration(interval), format_duration(tick)),
               "loops begin at ticks; choose a shorter planner.tick_interval");
    }
    if (throughput > off && load > throughput && given("planner.load_interval") &&
        reading_.is_read("planner.throughput_interval"))
      report("planner.load_interval", fmt::format("load_interval ({}) must be at most throughput_interval ({})",
                                                  format_duration(load), format_duration(throughput)));
    check_phase(throughput == off, load == off);
  }

  void check_phase(bool no_throughput, bool no_load) {
    if (!reading_.are_read({"planner.phase", "planner.throughput_interval", "planner.load_interval"})) return;
    using decision::RolloutPhase;
    const RolloutPhase phase = planner_.options.phase;
    const bool plans = phase != RolloutPhase::kObserve && phase != RolloutPhase::kGuardrails;
    if (plans && no_throughput && no_load)
      report(reading_.first_given({"planner.load_interval", "planner.throughput_interval"}),
             fmt::format("both loops are off, so phase {} has no effect", quote(to_string(phase))),
             "switch one of them on, or choose phase: guardrails");
    else if (phase == RolloutPhase::kThroughput && no_throughput)
      report("planner.throughput_interval", "the one loop of phase 'throughput' is off", "choose phase: load");
  }

  void check_predictor() {
    const std::vector<std::string_view> names = forecast::predictor_names();
    const std::string& name = planner_.options.outlook.predictor;
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    const std::string close = options::suggestion(name, names);
    report("planner.predictor", "unknown predictor " + quote(name),
           (close.empty() ? "" : close + " ") + "there are " + options::choices(names));
  }

  void check_nats() {
    const auto server = connect::parse_nats_endpoint(planner_.nats_server);
    if (!server)
      report("planner.nats_server", server.error().what, server.error().hint);
    else if (!server->subject.empty())
      report("planner.nats_server", fmt::format("names the subject {}, not only a server", quote(server->subject)));
    if (const auto checked = connect::check_nats_access(planner_.nats); !checked && reading_.is_read("planner.nats"))
      report(checked.error().where, checked.error().what, checked.error().hint);
  }

  void settle_schedule(std::size_t index) {
    Schedule& schedule = planner_.schedules[index];
    const std::string path = fmt::format("planner.schedules[{}]", index);
    schedule.location = reading_.location(path + ".cron");
    if (!reading_.are_read_in_items("pools", run_.pools.size(), {"name", "role", "max_replicas"}) ||
        !reading_.is_read("max_replicas"))
      return;
    std::vector<std::string_view> names;
    for (const simulation::PoolSpec& pool : run_.pools) names.push_back(pool.name);
    if (schedule.pool.empty() && names.size() > 1)
      return report(path, "must name its pool", "there are " + all_of(names));
    if (schedule.pool.empty()) schedule.pool = names.front();
    const auto pool = std::find_if(run_.pools.begin(), run_.pools.end(),
                                   [&](const auto& each) { return each.name == schedule.pool; });
    if (pool == run_.pools.end())
      return report(path + ".pool", "unknown pool " + quote(schedule.pool), hint_of(schedule.pool, names));
    if (schedule.replicas > pool->max_replicas)
      report(path + ".replicas", fmt::format("must be at most max_replicas of the pool ({}), is {}", pool->max_replicas,
                                             schedule.replicas));
  }

  [[nodiscard]] static std::string all_of(const std::vector<std::string_view>& names) {
    std::string text;
    for (const std::string_view name : names) text += (text.empty() ? "" : " and ") + quote(name);
    return text;
  }
  [[nodiscard]] static std::string hint_of(std::string_view written, const std::vector<std::string_view>& names) {
    const std::string close = options::suggestion(written, names);
    return !close.empty() ? close : (names.size() == 1 ? "there is " : "there are ") + all_of(names);
  }

  void check_budget() {
    const auto& budget = planner_.options.guardrails.gpu_budget;
    if (!budget || !reading_.are_read({"pools", "replicas", "min_replicas", "max_replicas", "gpus", "engine"})) return;
    std::uint64_t least = 0, initial = 0;
    for (const simulation::PoolSpec& pool : run_.pools) {
      least += std::uint64_t{pool.min_replicas} * pool.gpus_per_replica;
      initial += std::uint64_t{pool.replicas} * pool.gpus_per_replica;
    }
    if (least > *budget)
      report("planner.gpu_budget",
             fmt::format("must be at least the {} GPUs of the pools' min_replicas, is {}", least, *budget),
             "raise it, or lower min_replicas");
    else if (initial > *budget)
      report("planner.gpu_budget",
             fmt::format("must be at least the {} GPUs of the pools' replicas at the start, is {}", initial, *budget));
  }

  simulation::RunOptions& run_;
  PlannerSetup& planner_;
  Reading& reading_;
};

template <class Item>
void check_unique(const std::vector<Item>& items, std::string Item::*name, const std::string& list,
                  std::string_view kind, Reading& reading) {
  std::set<std::string_view> known;
  for (std::size_t i = 0; i < items.size(); ++i)
    if (!known.insert(items[i].*name).second)
      reading.report(fmt::format("{}[{}]", list, i),
                     fmt::format("the {} {} is used twice", kind, quote(items[i].*name)));
}

// A cap that the context of the same tenant or model makes superfluous.
void check_caps(const dispatch::TokenCaps& caps, std::uint32_t context, const std::string& path, Reading& reading) {
  for (const auto& [key, tokens] :
       {std::pair{"max_prompt_tokens", caps.prompt_tokens}, std::pair{"max_completion_tokens", caps.completion_tokens}})
    if (context > 0 && tokens >= context)
      reading.report(fmt::format("{}.{}", path, key), fmt::format("must be below context ({}), is {}", context, tokens),
                     "prompt and answer together have at most the tokens of context");
}

void check_endpoint_picker(const EndpointPickerSetup& picker, Reading& reading) {
  if (!reading.is_read("gateway.endpoint_picker")) return;
  if (picker.certificate.empty() != picker.key.empty())
    reading.report(picker.key.empty() ? "gateway.endpoint_picker.certificate" : "gateway.endpoint_picker.key",
                   "TLS needs a certificate and a key, one of them is missing");
  if (!picker.tls && !picker.certificate.empty())
    reading.report("gateway.endpoint_picker.certificate", "has no effect without gateway.endpoint_picker.tls");
  if (picker.listen.empty() && !picker.health_listen.empty())
    reading.report("gateway.endpoint_picker.health_listen", "has no effect without gateway.endpoint_picker.listen");
}

void check_followed_pods(const gateway::PodOptions& pods, Reading& reading) {
  if (!reading.is_read("gateway.kubernetes")) return;
  if (!pods.inference_pool.empty() && !(pods.selector.empty() && pods.service.empty()))
    reading.report(
        "gateway.kubernetes.inference_pool",
        "names the pods, as does gateway.kubernetes." + std::string{pods.service.empty() ? "selector" : "service"},
        "remove one of them");
  if (!pods.ports.empty() && (pods.selector.empty() || !pods.service.empty()))
    reading.report("gateway.kubernetes.ports", "are those of pods that gateway.kubernetes.selector selects",
                   pods.inference_pool.empty() ? "add a selector" : "an InferencePool states its own");
}

}  // namespace

void settle_planner(Configuration& made, Reading& reading) {
  PlannerChecker{made, reading}.check_all();
  planner::PlannerOptions& options = made.planner.options;
  planner::set_memory(options, made.planner.memory);
  options.schedule.unix_start = std::chrono::duration_cast<std::chrono::seconds>(made.planner.start_time).count();
}

void settle_gateway(Configuration& made, Reading& reading) {
  GatewaySetup& setup = made.gateway;
  for (std::size_t i = 0; i < setup.tenants.size(); ++i) {
    const TenantOptions& tenant = setup.tenants[i];
    const std::string path = fmt::format("tenants[{}]", i);
    if (tenant.name == "anonymous") reading.report(path, "the name anonymous is reserved for requests without a key");
    if (tenant.keys.empty() && tenant.key_files.empty() && tenant.key_envs.empty())
      reading.report(path, "needs keys, key_files or key_envs, or no request could be of this tenant");
    check_caps(tenant.caps, tenant.context_tokens, path, reading);
  }
  for (std::size_t i = 0; i < setup.options.dispatch.models.size(); ++i) {
    dispatch::Model& model = setup.options.dispatch.models[i];
    const std::string path = fmt::format("models[{}]", i);
    if (!reading.given(path + ".cached_input_price")) model.price.cached_input = model.price.input;
    check_caps(model.caps, model.context_tokens, path, reading);
  }
  setup.options.dispatch.tenants.assign(setup.tenants.begin(), setup.tenants.end());
  check_unique(setup.options.dispatch.tenants, &dispatch::Tenant::name, "tenants", "name", reading);
  check_unique(setup.options.dispatch.models, &dispatch::Model::name, "models", "name", reading);
  check_unique(setup.discovery.replicas, &gateway::NamedReplica::url, "gateway.replicas", "url", reading);
  if (setup.tls_certificate.empty() != setup.tls_key.empty() && reading.is_read("gateway.tls"))
    reading.report(setup.tls_key.empty() ? "gateway.tls.certificate" : "gateway.tls.key",
                   "TLS needs a certificate and a key, one of them is missing");
  check_endpoint_picker(setup.endpoint_picker, reading);
  check_followed_pods(setup.discovery.pods, reading);
  const std::vector<std::string>& fields = setup.options.forward.fields;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (!gateway::is_engine_control(fields[i]))
      reading.report("gateway.forward_fields", fmt::format("{} is no field that controls engines", quote(fields[i])),
                     "other fields are always forwarded");
  const AccessSetup& admin = setup.admin;
  const bool admin_is_read =
      reading.are_read({"gateway.admin_tls", "gateway.admin_token_file", "gateway.admin_token_env"});
  if (admin.tls_certificate.empty() != admin.tls_key.empty() && admin_is_read)
    reading.report(admin.tls_key.empty() ? "gateway.admin_tls.certificate" : "gateway.admin_tls.key",
                   "TLS needs a certificate and a key, one of them is missing");
  if (admin.tls_certificate.empty() && !admin.client_ca.empty() && admin_is_read)
    reading.report("gateway.admin_tls.client_ca", "has no effect without a certificate of the admin address");
  const core::Duration exchange = setup.options.peers.interval;
  if (exchange < kExchangeMin || exchange > kExchangeMax)
    reading.report("gateway.peer_interval", fmt::format("must be from {} to {}, is {}", format_duration(kExchangeMin),
                                                        format_duration(kExchangeMax), format_duration(exchange)));
  if (!setup.options.peers.urls.empty() && !admin.client_ca.empty() && admin.token_file.empty() &&
      admin.token_env.empty() && admin_is_read)
    reading.report("gateway.peers", "gateways identify themselves to each other by a token only, and there is none",
                   "set gateway.admin_token_file or gateway.admin_token_env");
  const admission::PressureLimits& pressure = setup.options.dispatch.pressure;
  if (pressure.kv_reject < pressure.kv_throttle && reading.is_read("gateway.admission.kv_throttle"))
    reading.report("gateway.admission.kv_reject",
                   fmt::format("must be at least kv_throttle ({}), is {}", pressure.kv_throttle, pressure.kv_reject));
  check_overload(setup, reading);
  setup.options.dispatch.pools = simulation::pool_rules(made.run.pools);
  // If the file has tenants, requests need a key by default.
  if (!setup.tenants.empty() && !reading.given("gateway.anonymous")) setup.options.anonymous = false;
  // The routers of peers have no admission, unless the file has tenants.
  const bool admits = made.run.router == routing::Strategy::kLive || !setup.tenants.empty();
  if (admits)
    signals::add_deferred_segment(made.run.slo_segments, made.run.slo_goal,
                                  setup.options.dispatch.batch.completion_window);
  else if (reading.given("classes.batch.completion_window") && reading.are_read({"router", "tenants"}))
    reading.report("classes.batch.completion_window",
                   fmt::format("has no effect on the router {}, which has no admission", to_string(made.run.router)));
  setup.options.dispatch.slo = {made.run.slo, made.run.slo_goal, made.run.slo_segments};
  if (admits) made.run.dispatch = setup.options.dispatch;
}

}  // namespace penstock::configuration
