#include "config/replay_check.h"

#include <fmt/core.h>

#include <algorithm>

#include "config/planner_check.h"
#include "config/replay_options.h"

namespace penstock::config {
namespace {

class ReplayChecker {
 public:
  ReplayChecker(ReplaySettings& settings, const Origins& origins, Problems& problems)
      : settings_(settings), origins_(origins), problems_(problems) {}

  void check_all(std::span<const std::string_view> policies) {
    check_policies(policies);
    check_window();
    check_roles();
    for (std::size_t i = 0; i < settings_.pools.size(); ++i) {
      settle_bounds(i);
      check_engine(i);
    }
    check_outputs();
  }

 private:
  void report(std::string where, std::string what, std::string hint = {}) {
    problems_.push_back({core::ErrorCode::kInvalidInput, std::move(where), std::move(what), std::move(hint)});
  }

  [[nodiscard]] bool given(const std::string& path) const { return origins_.contains(path); }

  [[nodiscard]] std::string place(const std::string& path) const { return place_of(origins_, path); }

  // The path of a pool's value: its own, or that which all pools share.
  [[nodiscard]] std::string in_pool(std::size_t pool, std::string_view key) const {
    std::string own = fmt::format("pools[{}].{}", pool, key);
    return given(own) ? own : std::string{key};
  }

  void check_policies(std::span<const std::string_view> known) {
    std::vector<std::string_view> names{known.begin(), known.end()};
    names.push_back("all");
    std::vector<std::string> chosen;
    const auto add = [&](std::string_view name) {
      if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.emplace_back(name);
    };
    for (std::size_t i = 0; i < settings_.policies.size(); ++i) {
      const std::string& name = settings_.policies[i];
      const std::string path = fmt::format("policy[{}]", i);
      const std::string where = place(given(path) ? path : "policy");
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        const std::string close = suggestion(name, names);
        report(where, "no policy is called " + quoted(name),
               (close.empty() ? "" : close + " ") + "there are " + choices(names));
      } else if (name == "all") {
        std::for_each(known.begin(), known.end(), add);
      } else {
        add(name);
      }
    }
    settings_.policies = std::move(chosen);
  }

  void check_window() {
    if (settings_.to && settings_.from >= *settings_.to) {
      const bool blame_to = given("to") || !given("from");
      report(place(blame_to ? "to" : "from"),
             blame_to ? fmt::format("must be later than from ({}), is {}", format_duration(settings_.from),
                                    format_duration(*settings_.to))
                      : fmt::format("must be earlier than to, is {}", format_duration(settings_.from)));
    }
    if (settings_.slo_ttft <= core::Duration{}) report(place("slo.ttft"), "must be longer than 0");
    if (settings_.slo_itl <= core::Duration{}) report(place("slo.itl"), "must be longer than 0");
    if (settings_.faults.slow_factor != 1.0 && settings_.faults.slow_replicas == 0)
      report(place("faults.slow_factor"), "slows nothing down while slow_replicas is 0",
             "say how many replicas are slow");
  }

  void check_roles() {
    auto& pools = settings_.pools;
    for (PoolSettings& pool : pools)
      if (pool.name.empty()) pool.name = pool.role == "aggregated" ? "default" : pool.role;
    const auto with_role = [&](std::string_view role) {
      return std::count_if(pools.begin(), pools.end(), [&](const PoolSettings& pool) { return pool.role == role; });
    };
    const auto prefill = with_role("prefill");
    const auto decode = with_role("decode");
    const std::string where = place(given("pools[0]") ? "pools[0]" : "pools");
    if (prefill == 0 && decode == 0) {
      if (pools.size() != 1)
        report(where, fmt::format("one aggregated pool is simulated at a time, there are {}", pools.size()));
    } else if (prefill != 1 || decode != 1 || pools.size() != 2) {
      report(where,
             fmt::format(
                 "a disaggregated deployment has one prefill and one decode pool, this one has {} prefill, {} decode "
                 "and {} aggregated",
                 prefill, decode, with_role("aggregated")),
             "give each pool its role");
    } else if (pools[0].name == pools[1].name) {
      report(place("pools[1].name"), fmt::format("two pools are called {}", quoted(pools[1].name)));
    } else if (!settings_.frontier.empty() && settings_.frontier.first < 2) {
      report(place("frontier"), "must begin at 2 or more, since prefill and decode need a replica each");
    }
  }

  // A bound that nobody named gives way to one that somebody did.
  void settle_bounds(std::size_t index) {
    PoolSettings& pool = settings_.pools[index];
    const std::string replicas = in_pool(index, "replicas");
    const std::string least = in_pool(index, "min_replicas");
    const std::string most = in_pool(index, "max_replicas");
    if (!given(most))
      pool.max_replicas = std::max({pool.max_replicas, given(replicas) ? pool.replicas : 1, pool.min_replicas});
    if (pool.min_replicas > pool.max_replicas)
      return report(place(most),
                    fmt::format("must be at least min_replicas ({}), is {}", pool.min_replicas, pool.max_replicas));
    if (!given(replicas)) pool.replicas = std::clamp(pool.replicas, pool.min_replicas, pool.max_replicas);
    if (pool.replicas < pool.min_replicas)
      report(place(replicas),
             fmt::format("must be at least min_replicas ({}), is {}", pool.min_replicas, pool.replicas));
    if (pool.replicas > pool.max_replicas)
      report(place(replicas),
             fmt::format("must be at most max_replicas ({}), is {}", pool.max_replicas, pool.replicas));
  }

  void check_engine(std::size_t index) {
    const EngineSettings& engine = settings_.pools[index].engine;
    const auto where = [&](std::string_view key) { return place(in_pool(index, "engine." + std::string{key})); };
    if (engine.max_batched_tokens < engine.max_sequences) {
      const bool blame_tokens = given(in_pool(index, "engine.max_batched_tokens"));
      report(where(blame_tokens ? "max_batched_tokens" : "max_sequences"),
             blame_tokens ? fmt::format("must be at least max_sequences ({}), is {}", engine.max_sequences,
                                        engine.max_batched_tokens)
                          : fmt::format("must be at most max_batched_tokens ({}), is {}", engine.max_batched_tokens,
                                        engine.max_sequences));
    }
    if (engine.watermark >= 1.0) report(where("watermark"), "must be below 1, or no request is ever admitted");
    const std::uint32_t block = settings_.pools.front().engine.block_tokens;
    if (engine.block_tokens != block)
      report(where("block_size"),
             fmt::format("must be the same in both pools, is {} and {}", block, engine.block_tokens));
    if (engine.prefill_share_min <= 0.0)
      report(where("prefill_share_min"), "must be above 0, or no prompt is ever computed");
    if (engine.prefill_share_min > engine.prefill_share_max) {
      const bool blame_max = given(in_pool(index, "engine.prefill_share_max"));
      report(where(blame_max ? "prefill_share_max" : "prefill_share_min"),
             fmt::format("prefill_share_min ({}) must be at most prefill_share_max ({})",
                         format_number(engine.prefill_share_min), format_number(engine.prefill_share_max)));
    } else if (engine.prefill_share < 1.0 &&
               (engine.prefill_share < engine.prefill_share_min || engine.prefill_share > engine.prefill_share_max)) {
      report(where("prefill_share"),
             fmt::format("must be 1, or from prefill_share_min ({}) to prefill_share_max ({}), is {}",
                         format_number(engine.prefill_share_min), format_number(engine.prefill_share_max),
                         format_number(engine.prefill_share)));
    }
  }

  void check_outputs() {
    const std::pair<std::string, const std::string*> files[] = {{"json", &settings_.json},
                                                                {"csv", &settings_.csv},
                                                                {"html", &settings_.html},
                                                                {"decision_log", &settings_.decision_log},
                                                                {"metrics", &settings_.metrics}};
    for (std::size_t i = 0; i < std::size(files); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (!files[i].second->empty() && *files[i].second == *files[j].second)
          report(place(files[i].first), "names the same file as " + files[j].first + ", " + quoted(*files[i].second));
  }

  ReplaySettings& settings_;
  const Origins& origins_;
  Problems& problems_;
};

}  // namespace

std::string place_of(const Origins& origins, const std::string& path) {
  if (const auto found = origins.find(path); found != origins.end()) return found->second;
  for (const Option& option : replay_options())
    if (option.key == path && !option.flag.empty()) return std::string{option.flag};
  return path;
}

void check_replay(ReplaySettings& settings, const KnownNames& known, const Origins& origins, Problems& problems) {
  ReplayChecker{settings, origins, problems}.check_all(known.policies);
  check_planner(settings, known.predictors, origins, problems);
}

}  // namespace penstock::config
