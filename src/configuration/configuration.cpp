// Reads a configuration and reports contradictions between pools, engines, policies and outputs.
#include "configuration/configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "connect/kubernetes/scale_target.h"
#include "engine/kv_memory.h"
#include "engine/step_time_models.h"
#include "planner/policy.h"
#include "signals/role_switch.h"

namespace penstock::configuration {
namespace {

using options::format_duration;
using options::format_number;
using options::quote;
using options::Reading;

// Returns the path of a pool's value, or of the value that all pools share.
std::string path_in_pool(const Reading& reading, const std::string& prefix, const std::string& key) {
  return reading.given(prefix + key) ? prefix + key : key;
}
std::string prefix_of_pool(std::size_t index) { return fmt::format("pools[{}].", index); }

// Returns true if the values of the pool, or those that all pools share, could be read.
bool are_read_in_pool(const Reading& reading, const std::string& prefix, std::initializer_list<const char*> keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const char* key) {
    return reading.are_read({prefix + key, path_in_pool(reading, prefix, key)});
  });
}
bool are_read_in_pools(const Reading& reading, std::size_t pools, std::initializer_list<const char*> keys) {
  for (std::size_t i = 0; i < pools; ++i)
    if (!are_read_in_pool(reading, prefix_of_pool(i), keys)) return false;
  return true;
}

// Names that begin with the word come before those that are spelt alike: `hpa` is not kpa.
std::string suggested_policy(const std::string& written, const std::vector<std::string_view>& names) {
  std::vector<std::string_view> begun;
  for (const std::string_view name : names)
    if (!written.empty() && name.starts_with(written)) begun.push_back(name);
  return begun.empty() ? options::suggestion(written, names) : fmt::format("did you mean {}?", options::choices(begun));
}

void settle_policies(Configuration& made, Reading& reading) {
  const std::vector<std::string_view> known = all_policies();
  std::vector<std::string_view> names = known;
  names.push_back("all");
  std::vector<std::string> chosen;
  const auto add = [&](std::string_view name) {
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.emplace_back(name);
  };
  for (std::size_t i = 0; i < made.policies.size(); ++i) {
    const std::string& name = made.policies[i];
    const std::string rule{decision::name_without_settings(name)};
    const std::string path = reading.first_given({fmt::format("policy[{}]", i), "policy"});
    if (rule == kSchedule) {
      if (name.size() <= rule.size() + 1) reading.report(path, "the policy schedule lacks its file", "schedule:FILE");
      add(name);
    } else if (std::find(names.begin(), names.end(), rule) == names.end()) {
      const std::string close = suggested_policy(rule, names);
      reading.report(
          path, "unknown policy " + quote(name),
          (close.empty() ? "" : close + " ") + "there are " + options::choices(names) + ", and schedule:FILE");
    } else if (rule == "all" && name != rule) {
      reading.report(path, quote(name) + ": all takes no settings", "name each policy with its settings");
    } else if (const auto settings = planner::settings_of(name); !settings) {
      reading.report(path, quote(name) + ": " + settings.error().what, settings.error().hint);
    } else if (name == "all") {
      std::for_each(known.begin(), known.end(), add);
    } else {
      add(name);
    }
  }
  made.policies = std::move(chosen);
}

void check_window(const Configuration& made, Reading& reading) {
  const workload::ReadOptions& read = made.traces.read;
  if (read.to && read.from >= *read.to && reading.are_read({"from", "to"})) {
    const bool at_to = reading.given("to") || !reading.given("from");
    reading.report(at_to ? "to" : "from",
                   at_to ? fmt::format("must be later than from ({}), is {}", format_duration(read.from),
                                       format_duration(*read.to))
                         : fmt::format("must be earlier than to, is {}", format_duration(read.from)));
  }
}

// Without a role and a name, a pool is called "default".
bool names_are_read(const Configuration& made, const Reading& reading) {
  return reading.are_read_in_items("pools", made.run.pools.size(), {"name", "role"});
}

void check_faults(const Configuration& made, Reading& reading) {
  const simulation::Faults& faults = made.run.faults;
  if (faults.cache_event_delay > core::Duration{} && made.run.router != routing::Strategy::kKv &&
      reading.is_read("router"))
    reading.report("faults.cache_event_delay", "has no effect on this router; only kv follows KV events");
  if (reading.given("faults.cancelled_after") && faults.cancelled_requests == 0.0 &&
      reading.is_read("faults.cancelled_requests"))
    reading.report("faults.cancelled_after", "has no effect while cancelled_requests is 0",
                   "set the share of clients that leave");
  for (std::size_t i = 0; i < faults.events.size(); ++i) {
    const simulation::FaultEvent& event = faults.events[i];
    const std::string prefix = fmt::format("faults.events[{}].", i);
    const auto& pools = made.run.pools;
    const bool known =
        std::any_of(pools.begin(), pools.end(), [&](const auto& pool) { return pool.name == event.pool; });
    if (!event.pool.empty() && !known && names_are_read(made, reading))
      reading.report(prefix + "pool", fmt::format("no pool is named {}", quote(event.pool)));
    if (!reading.is_read(prefix + "kind")) continue;
    if (reading.given(prefix + "factor") && event.kind != simulation::FaultKind::kSlow)
      reading.report(prefix + "factor", "has an effect on kind slow only");
    if (event.kind == simulation::FaultKind::kCrash && event.length > core::Duration{})
      reading.report(prefix + "for", "a crash has no end; the pool starts another replica");
  }
}

void settle_roles(Configuration& made, Reading& reading) {
  auto& pools = made.run.pools;
  for (simulation::PoolSpec& pool : pools)
    if (pool.name.empty()) pool.name = pool.role == signals::Role::kAggregated ? "default" : to_string(pool.role);
  const auto with_role = [&](signals::Role role) {
    return std::count_if(pools.begin(), pools.end(), [&](const auto& pool) { return pool.role == role; });
  };
  const auto prefill = with_role(signals::Role::kPrefill);
  const auto decode = with_role(signals::Role::kDecode);
  const std::string where = reading.first_given({"pools[0]", "pools"});
  check_pool_rules(made, reading);
  if (!names_are_read(made, reading)) return;
  if (prefill == 0 && decode == 0) {
    if (pools.size() > 2 && !made.frontier.empty())
      reading.report("frontier", fmt::format("needs one or two pools, there are {}", pools.size()));
  } else if (prefill != 1 || decode != 1 || pools.size() != 2) {
    reading.report(where,
                   fmt::format("a disaggregated deployment has one prefill and one decode pool, this one has {} "
                               "prefill, {} decode and {} aggregated",
                               prefill, decode, with_role(signals::Role::kAggregated)),
                   "give each pool its role");
  } else if (pools[0].name == pools[1].name) {
    reading.report("pools[1].name", fmt::format("two pools are called {}", quote(pools[1].name)));
  } else if (!made.frontier.empty() && made.frontier.first < 2) {
    reading.report("frontier", "must begin at 2 or more, since prefill and decode need a replica each");
  }
}

void check_targets(const Configuration& made, Reading& reading) {
  const std::vector<simulation::PoolSpec>& pools = made.run.pools;
  for (const std::string& name : made.planner.kubernetes.single_node)
    if (std::none_of(pools.begin(), pools.end(), [&](const auto& pool) { return pool.name == name; }) &&
        names_are_read(made, reading))
      reading.report("planner.kubernetes.single_node", fmt::format("no pool is called {}", quote(name)),
                     "write the name of a pool");
  std::vector<connect::ScaleTarget> targets;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].kubernetes.empty()) continue;
    const std::string path = prefix_of_pool(i) + "kubernetes";
    auto target = connect::parse_scale_target(pools[i].kubernetes);
    if (!target) {
      reading.report(path, target.error().what, target.error().hint);
      continue;
    }
    if (std::any_of(targets.begin(), targets.end(), [&](const auto& each) { return is_same(each, *target); }))
      reading.report(path, fmt::format("two pools have the target {}", to_string(*target)),
                     "give each pool an object of its own");
    targets.push_back(*std::move(target));
  }
}

void settle_drains(simulation::PoolSpec& pool, const PlannerSetup& planner) {
  if (!pool.drain_deadline) pool.drain_deadline = planner.drain_deadline;
  if (!pool.unhealthy_drain_deadline) pool.unhealthy_drain_deadline = planner.unhealthy_drain_deadline;
}

void check_asleep(const simulation::PoolSpec& pool, const std::string& prefix, Reading& reading) {
  if (!are_read_in_pool(reading, prefix, {"max_replicas", "asleep", "wake_time", "start_up"})) return;
  const std::string asleep = path_in_pool(reading, prefix, "asleep");
  if (pool.min_asleep > 0 && pool.wake_time <= core::Duration{})
    reading.report(asleep, "needs wake_time above 0s, the time to wake a replica");
  if (pool.min_asleep > pool.max_replicas)
    reading.report(asleep, fmt::format("must be at most max_replicas ({}), is {}", pool.max_replicas, pool.min_asleep),
                   "lower it, or raise max_replicas");
  if (pool.wake_time > pool.start_up)
    reading.report(path_in_pool(reading, prefix, "wake_time"),
                   fmt::format("must be at most start_up ({}), is {}", format_duration(pool.start_up),
                               format_duration(pool.wake_time)),
                   "leave it out, because a start is faster");
}

// A bound that was not given is adapted to one that was.
void settle_bounds(simulation::PoolSpec& pool, const std::string& prefix, Reading& reading) {
  const std::string replicas = path_in_pool(reading, prefix, "replicas");
  const std::string least = path_in_pool(reading, prefix, "min_replicas");
  const std::string most = path_in_pool(reading, prefix, "max_replicas");
  if (!reading.given(most))
    pool.max_replicas = std::max({pool.max_replicas, reading.given(replicas) ? pool.replicas : 1, pool.min_replicas});
  if (!are_read_in_pool(reading, prefix, {"replicas", "min_replicas", "max_replicas"})) return;
  if (pool.min_replicas > pool.max_replicas)
    return reading.report(
        most, fmt::format("must be at least min_replicas ({}), is {}", pool.min_replicas, pool.max_replicas));
  check_asleep(pool, prefix, reading);
  if (!reading.given(replicas)) pool.replicas = std::clamp(pool.replicas, pool.min_replicas, pool.max_replicas);
  if (pool.replicas < pool.min_replicas)
    reading.report(replicas,
                   fmt::format("must be at least min_replicas ({}), is {}", pool.min_replicas, pool.replicas));
  if (pool.replicas > pool.max_replicas)
    reading.report(replicas, fmt::format("must be at most max_replicas ({}), is {}", pool.max_replicas, pool.replicas));
}

// Only one prefill and one decode pool of equal replicas exchange them.
void check_switches(const Configuration& made, Reading& reading) {
  if (!are_read_in_pools(reading, made.run.pools.size(),
                         {"role", "gpus", "engine.model", "start_up", "switch_time", "kubernetes"}))
    return;
  for (std::size_t i = 0; i < made.run.pools.size(); ++i) {
    const simulation::PoolSpec& pool = made.run.pools[i];
    if (pool.switch_time <= core::Duration{}) continue;
    const std::string path = path_in_pool(reading, prefix_of_pool(i), "switch_time");
    if (!signals::switch_partner(made.run.pools, i))
      return reading.report(path, "needs one prefill and one decode pool with the same number of GPUs per replica",
                            "leave it out, or give --pool role=prefill --pool role=decode");
    if (pool.switch_time >= pool.start_up)
      return reading.report(path,
                            fmt::format("must be shorter than start_up ({}), is {}", format_duration(pool.start_up),
                                        format_duration(pool.switch_time)),
                            "leave it out, because a start is faster");
  }
  // Of targets, only a Deployment gives a pod away and adopts one.
  const bool switches = std::any_of(made.run.pools.begin(), made.run.pools.end(),
                                    [](const auto& pool) { return pool.switch_time > core::Duration{}; });
  for (std::size_t i = 0; switches && i < made.run.pools.size(); ++i) {
    const auto target = connect::parse_scale_target(made.run.pools[i].kubernetes);
    if (made.run.pools[i].kubernetes.empty() || !target || connect::kind_of(*target) == "Deployment") continue;
    reading.report(prefix_of_pool(i) + "kubernetes",
                   fmt::format("is a {}, whose pods cannot change their role", connect::kind_of(*target)),
                   "leave out switch_time, or name a deployment");
  }
}

void check_blocks(const Configuration& made, Reading& reading) {
  if (!are_read_in_pools(reading, made.run.pools.size(), {"engine.block_size"})) return;
  const std::uint32_t block = made.run.pools.front().engine.block_tokens;
  for (std::size_t i = 1; i < made.run.pools.size(); ++i)
    if (const std::uint32_t other = made.run.pools[i].engine.block_tokens; other != block)
      reading.report(path_in_pool(reading, prefix_of_pool(i), "engine.block_size"),
                     fmt::format("must be the same in all pools, is {} and {}", block, other));
}

void check_outputs(const OutputOptions& output, Reading& reading) {
  const std::pair<std::string_view, const std::string*> files[] = {{"json", &output.json},
                                                                   {"csv", &output.csv},
                                                                   {"html", &output.html},
                                                                   {"decision_log", &output.decision_log},
                                                                   {"metrics", &output.metrics}};
  for (std::size_t i = 0; i < std::size(files); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!files[i].second->empty() && *files[i].second == *files[j].second)
        reading.report(files[i].first,
                       fmt::format("names the same file as {}, {}", files[j].first, quote(*files[i].second)));
}

}  // namespace

void settle_gpus(simulation::PoolSpec& pool, const std::string& path, Reading& reading) {
  const auto roofline = engine::find_roofline(pool.step_time_model);
  if (!roofline) return;
  const engine::RooflineSpec& spec = roofline->spec();
  if (reading.given(path) && pool.gpus_per_replica != spec.gpus()) {
    const std::string stages = spec.pipeline_parallel > 1 ? fmt::format(" × pp={}", spec.pipeline_parallel) : "";
    reading.report(path,
                   fmt::format("is {}, but a replica of {} has {} GPUs (tp={}{})", pool.gpus_per_replica,
                               spec.model->name, spec.gpus(), spec.tensor_parallel, stages),
                   "correct one of the two, or leave gpus out");
  }
  pool.gpus_per_replica = spec.gpus();
}

void settle_engine_limits(engine::EngineConfig& engine, const std::string& step_time_model,
                          const EngineLimitPaths& paths, Reading& reading) {
  const std::string& path = paths.kv_blocks;
  if (const auto profile = engine::find_profile(step_time_model)) {
    constexpr double kMost = 1e9;
    if (profile->sequences_max >= 1.0 && !profile->sequences_at_least && !reading.given(paths.max_sequences))
      engine.max_sequences =
          static_cast<std::uint32_t>(std::min(profile->sequences_max, static_cast<double>(engine.max_batched_tokens)));
    if (profile->kv_tokens_max >= 1.0 && !profile->kv_tokens_at_least && !reading.given(path))
      engine.kv_blocks =
          static_cast<std::uint32_t>(std::clamp(profile->kv_tokens_max / engine.block_tokens, 1.0, kMost));
    return;
  }
  const auto roofline = engine::find_roofline(step_time_model);
  if (!roofline) return;
  engine.attention_ranks = roofline->spec().attention_ranks;
  const engine::KvMemory memory =
      engine::kv_memory(roofline->spec(), {engine.max_sequences, engine.max_batched_tokens, engine.block_tokens});
  if (!reading.given(path)) {
    engine.kv_blocks = static_cast<std::uint32_t>(std::max(1.0, memory.tokens / engine.block_tokens));
    return;
  }
  const double tokens = static_cast<double>(engine.kv_blocks) * engine.block_tokens;
  if (tokens <= memory.most_tokens || !reading.is_read(std::string_view{path}.substr(0, path.rfind('.')))) return;
  reading.report(
      path,
      fmt::format("{} blocks of {} tokens do not fit the GPUs, which hold {:.0f} tokens without any overhead",
                  engine.kv_blocks, engine.block_tokens, memory.most_tokens),
      fmt::format("leave it out for {:.0f} tokens", memory.tokens));
}

void check_engine(const engine::EngineConfig& engine, const std::string& prefix, Reading& reading) {
  const auto at = [&](const char* key) { return path_in_pool(reading, prefix, std::string{"engine."} + key); };
  if (engine.max_batched_tokens < engine.max_sequences &&
      are_read_in_pool(reading, prefix, {"engine.max_batched_tokens", "engine.max_sequences"})) {
    const bool at_tokens = reading.given(at("max_batched_tokens"));
    reading.report(at(at_tokens ? "max_batched_tokens" : "max_sequences"),
                   at_tokens ? fmt::format("must be at least max_sequences ({}), is {}", engine.max_sequences,
                                           engine.max_batched_tokens)
                             : fmt::format("must be at most max_batched_tokens ({}), is {}", engine.max_batched_tokens,
                                           engine.max_sequences));
  }
  if (engine.watermark >= 1.0) reading.report(at("watermark"), "must be below 1, or no request is ever admitted");
  if (engine.prefill_share_min <= 0.0)
    reading.report(at("prefill_share_min"), "must be above 0, or no prompt is ever computed");
  if (!are_read_in_pool(reading, prefix,
                        {"engine.prefill_share", "engine.prefill_share_min", "engine.prefill_share_max"}))
    return;
  const std::string low = format_number(engine.prefill_share_min), high = format_number(engine.prefill_share_max);
  if (engine.prefill_share_min > engine.prefill_share_max) {
    const bool at_max = reading.given(at("prefill_share_max"));
    reading.report(at(at_max ? "prefill_share_max" : "prefill_share_min"),
                   fmt::format("prefill_share_min ({}) must be at most prefill_share_max ({})", low, high));
  } else if (engine.prefill_share < 1.0 &&
             (engine.prefill_share < engine.prefill_share_min || engine.prefill_share > engine.prefill_share_max)) {
    reading.report(at("prefill_share"),
                   fmt::format("must be 1, or from prefill_share_min ({}) to prefill_share_max ({}), is {}", low, high,
                               format_number(engine.prefill_share)));
  }
}

namespace {

// Engines of others are what the configuration describes, not the defaults of the simulation.
void settle_known_engine(simulation::PoolSpec& pool, const std::string& max_sequences, double kv_bytes_per_token,
                         const Reading& reading) {
  const auto profile = engine::find_profile(pool.step_time_model);
  const bool is_measured = profile && profile->sequences_max >= 1.0 && !profile->sequences_at_least;
  if (is_measured || reading.given(max_sequences)) pool.known_max_sequences = pool.engine.max_sequences;
  if (reading.given("kv_transfer.bytes_per_token")) {
    pool.known_kv_bytes_per_token = kv_bytes_per_token;
  } else if (const auto roofline = engine::find_roofline(pool.step_time_model)) {
    const engine::RooflineSpec& spec = roofline->spec();
    const std::uint32_t ranks = std::min(spec.attention_ranks, spec.tensor_parallel);
    pool.known_kv_bytes_per_token =
        engine::kv_layout(spec, pool.engine.block_tokens).token_bytes() * spec.gpus() / ranks;
  }
}

}  // namespace

std::vector<std::string_view> all_policies() {
  std::vector<std::string_view> names = planner::policy_names();
  names.insert(names.begin(), kPenstock);
  names.push_back(kClairvoyant);
  return names;
}

void settle(Configuration& made, Reading& reading) {
  if (!reading.given("pools[0]")) made.run.pools = {made.pool};
  settle_policies(made, reading);
  check_window(made, reading);
  settle_roles(made, reading);
  check_faults(made, reading);
  for (std::size_t i = 0; i < made.run.pools.size(); ++i) {
    settle_drains(made.run.pools[i], made.planner);
    settle_bounds(made.run.pools[i], prefix_of_pool(i), reading);
    settle_gpus(made.run.pools[i], path_in_pool(reading, prefix_of_pool(i), "gpus"), reading);
    check_engine(made.run.pools[i].engine, prefix_of_pool(i), reading);
    settle_engine_limits(made.run.pools[i].engine, made.run.pools[i].step_time_model,
                         {path_in_pool(reading, prefix_of_pool(i), "engine.kv_blocks"),
                          path_in_pool(reading, prefix_of_pool(i), "engine.max_sequences")},
                         reading);
    settle_known_engine(made.run.pools[i], path_in_pool(reading, prefix_of_pool(i), "engine.max_sequences"),
                        made.run.kv_bytes_per_token, reading);
  }
  check_blocks(made, reading);
  check_switches(made, reading);
  check_targets(made, reading);
  check_outputs(made.output, reading);
}

Reading load_as_far_as_read(Configuration& made, const options::Table& table, const options::Source& source) {
  Reading reading = read(table, source);
  settle(made, reading);
  settle_planner(made, reading);
  settle_scale_to_zero(made, reading);
  settle_gateway(made, reading);
  settle_deployments(made, reading);
  return reading;
}

tl::expected<Reading, options::Problems> load(Configuration& made, const options::Table& table,
                                              const options::Source& source) {
  Reading reading = load_as_far_as_read(made, table, source);
  if (!reading.good()) return tl::make_unexpected(reading.problems());
  return reading;
}

tl::expected<Configuration, options::Problems> load_configuration(const options::Source& source) {
  Configuration made;
  const options::Table table = configuration_table(made);
  return load(made, table, source).map([&](const Reading&) { return std::move(made); });
}

}  // namespace penstock::configuration
