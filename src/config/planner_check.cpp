#include "config/planner_check.h"

#include <fmt/core.h>

#include <algorithm>

#include "config/planner_options.h"

namespace penstock::config {
namespace {

constexpr core::Duration kIntervalMin = std::chrono::seconds{1};

class PlannerChecker {
 public:
  PlannerChecker(ReplaySettings& settings, const Origins& origins, Problems& problems)
      : settings_(settings), planner_(settings.planner), origins_(origins), problems_(problems) {}

  void check_all(std::span<const std::string_view> predictors) {
    check_goal(settings_.slo_goal, "slo.goal");
    for (std::size_t i = 0; i < settings_.slo_segments.size(); ++i) check_segment(i);
    check_target();
    check_loops();
    check_predictor(predictors);
    for (std::size_t i = 0; i < planner_.schedules.size(); ++i) check_schedule(i);
    check_budget();
  }

 private:
  void report(const std::string& path, std::string what, std::string hint = {}) {
    problems_.push_back({core::ErrorCode::kInvalidInput, place_of(origins_, path), std::move(what), std::move(hint)});
  }
  [[nodiscard]] bool given(const std::string& path) const { return origins_.contains(path); }

  void check_goal(double goal, const std::string& path) {
    if (goal <= 0.0 || goal >= 1.0)
      report(path, fmt::format("must be above 0 and below 1, is {}", format_number(goal)));
  }

  void check_segment(std::size_t index) {
    SegmentSettings& segment = settings_.slo_segments[index];
    const std::string path = fmt::format("slo.segments[{}]", index);
    check_values(segment, path);
    check_selectors(index, path);
    for (std::size_t earlier = 0; earlier < index; ++earlier)
      if (settings_.slo_segments[earlier].name == segment.name)
        return report(path + ".name", fmt::format("two segments are called {}", quoted(segment.name)));
    if (segment.name == kGeneralTarget)
      report(path + ".name",
             fmt::format("must not be {}, which is the target of all other requests", quoted(kGeneralTarget)));
  }

  void check_values(SegmentSettings& segment, const std::string& path) {
    if (segment.ttft && *segment.ttft <= core::Duration{}) report(path + ".ttft", "must be longer than 0");
    if (segment.itl && *segment.itl <= core::Duration{}) report(path + ".itl", "must be longer than 0");
    if (segment.goal) check_goal(*segment.goal, path + ".goal");
    if (!segment.ttft) segment.ttft = settings_.slo_ttft;
    if (!segment.itl) segment.itl = settings_.slo_itl;
    if (!segment.goal) segment.goal = settings_.slo_goal;
  }

  void check_selectors(std::size_t index, const std::string& path) {
    const SegmentSettings& segment = settings_.slo_segments[index];
    if (!selects(index))
      return report(path, "selects nothing", "give it a model, class, tenant, prompt_min or prompt_max");
    if (segment.prompt_min > segment.prompt_max)
      return report(given(path + ".prompt_max") ? path + ".prompt_max" : path + ".prompt_min",
                    fmt::format("must be at least prompt_min ({}), is {}", segment.prompt_min, segment.prompt_max));
    if (!segment.model.empty() && !settings_.model.empty() && segment.model != settings_.model)
      return report(path + ".model",
                    fmt::format("never matches, since the deployment serves {}", quoted(settings_.model)));
    for (std::size_t i = 0; i < index; ++i) {
      const SegmentSettings& earlier = settings_.slo_segments[i];
      if (!selects(i) || !covers(earlier, segment)) continue;
      const bool nameless = !earlier.model.empty() && settings_.model.empty();
      return report(
          path, fmt::format("never matches, since segment {} before it matches all that it does", quoted(earlier.name)),
          nameless ? "without the key model, a segment of any model matches; say which one is served"
                   : "the first that matches counts; put the narrower one first");
    }
  }

  [[nodiscard]] bool selects(std::size_t index) const {
    const SegmentSettings& segment = settings_.slo_segments[index];
    const std::string path = fmt::format("slo.segments[{}]", index);
    return !segment.model.empty() || !segment.traffic_class.empty() || !segment.tenant.empty() ||
           given(path + ".prompt_min") || given(path + ".prompt_max");
  }

  // Whether `wide` matches everything that `narrow` does.
  [[nodiscard]] bool covers(const SegmentSettings& wide, const SegmentSettings& narrow) const {
    const auto same = [](const std::string& of_wide, const std::string& of_narrow) {
      return of_wide.empty() || of_wide == of_narrow;
    };
    const bool model = settings_.model.empty() || wide.model == settings_.model || same(wide.model, narrow.model);
    return model && same(wide.traffic_class, narrow.traffic_class) && same(wide.tenant, narrow.tenant) &&
           wide.prompt_min <= narrow.prompt_min && wide.prompt_max >= narrow.prompt_max;
  }

  // A replay scores by the SLO whatever the planner aims at; goals and segments are for the planner, too.
  void check_target() {
    if (planner_.target == "sla") return;
    for (const char* ignored : {"slo.segments", "slo.goal"})
      if (given(ignored))
        return report("planner.target", fmt::format("must be sla, since {} is given, which {} ignores; is {}", ignored,
                                                    planner_.target, quoted(planner_.target)));
  }

  void check_loops() {
    const core::Duration off{};
    const core::Duration throughput = planner_.throughput_interval;
    const core::Duration load = planner_.load_interval;
    for (const char* path : {"planner.throughput_interval", "planner.load_interval"}) {
      const core::Duration interval = std::string_view{path} == "planner.load_interval" ? load : throughput;
      if (interval != off && interval < kIntervalMin)
        return report(path, fmt::format("must be at least {}, or 0s to switch the loop off, is {}",
                                        format_duration(kIntervalMin), format_duration(interval)));
    }
    const std::string load_path =
        given("planner.load_interval") ? "planner.load_interval" : "planner.throughput_interval";
    if (throughput > off && load > throughput)
      report(load_path, fmt::format("load_interval ({}) must be at most throughput_interval ({})",
                                    format_duration(load), format_duration(throughput)));
    const bool plans = planner_.phase != "observe" && planner_.phase != "guardrails";
    if (plans && throughput == off && load == off)
      report(load_path, fmt::format("both loops are off, so phase {} has nothing to act by", quoted(planner_.phase)),
             "switch one of them on, or say phase: guardrails");
    else if (planner_.phase == "throughput" && throughput == off)
      report("planner.throughput_interval", "the one loop of phase 'throughput' is off", "say phase: load");
  }

  void check_predictor(std::span<const std::string_view> names) {
    if (!given("planner.predictor") || std::find(names.begin(), names.end(), planner_.predictor) != names.end()) return;
    const std::string close = suggestion(planner_.predictor, names);
    report("planner.predictor", "no predictor is called " + quoted(planner_.predictor),
           (close.empty() ? "" : close + " ") + "there are " + choices(names));
  }

  void check_schedule(std::size_t index) {
    ScheduleSettings& schedule = planner_.schedules[index];
    const std::string path = fmt::format("planner.schedules[{}]", index);
    if (schedule.length <= core::Duration{}) report(path + ".length", "must be longer than 0");
    std::vector<std::string_view> names;
    for (const PoolSettings& pool : settings_.pools) names.push_back(pool.name);
    if (schedule.pool.empty() && names.size() > 1)
      return report(path, "must name its pool", "there are " + both(names));
    if (schedule.pool.empty()) schedule.pool = names.front();
    const auto pool = std::find_if(settings_.pools.begin(), settings_.pools.end(),
                                   [&](const PoolSettings& each) { return each.name == schedule.pool; });
    if (pool == settings_.pools.end())
      return report(path + ".pool", "no pool is called " + quoted(schedule.pool), hint_of(schedule.pool, names));
    if (schedule.replicas > pool->max_replicas)
      report(path + ".replicas", fmt::format("must be at most max_replicas of the pool ({}), is {}", pool->max_replicas,
                                             schedule.replicas));
  }

  [[nodiscard]] static std::string both(std::span<const std::string_view> names) {
    std::string text;
    for (const std::string_view name : names) text += (text.empty() ? "" : " and ") + quoted(name);
    return text;
  }
  [[nodiscard]] static std::string hint_of(std::string_view written, std::span<const std::string_view> names) {
    const std::string close = suggestion(written, names);
    return !close.empty() ? close : (names.size() == 1 ? "there is " : "there are ") + both(names);
  }

  void check_budget() {
    const std::uint64_t budget = planner_.gpu_budget;
    if (budget == 0) return;
    std::uint64_t least = 0, initial = 0;
    for (const PoolSettings& pool : settings_.pools) {
      least += std::uint64_t{pool.min_replicas} * pool.gpus;
      initial += std::uint64_t{pool.replicas} * pool.gpus;
    }
    if (least > budget)
      report("planner.gpu_budget",
             fmt::format("must be at least the {} GPUs of the pools' min_replicas, is {}", least, budget),
             "a budget below the smallest fleet cannot be kept");
    else if (initial > budget)
      report("planner.gpu_budget",
             fmt::format("must be at least the {} GPUs of the pools' replicas at the start, is {}", initial, budget));
  }

  ReplaySettings& settings_;
  PlannerSettings& planner_;
  const Origins& origins_;
  Problems& problems_;
};

}  // namespace

void check_planner(ReplaySettings& settings, std::span<const std::string_view> predictors, const Origins& origins,
                   Problems& problems) {
  PlannerChecker{settings, origins, problems}.check_all(predictors);
}

}  // namespace penstock::config
