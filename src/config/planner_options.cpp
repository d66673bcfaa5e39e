#include "config/planner_options.h"

#include "config/moments.h"
#include "config/option_rows.h"

namespace penstock::config {
namespace {

using namespace rows;

// A row for a list of sections. What it shows is nothing, since there are none by default.
Option items(Option option) {
  option.type = "list of sections";
  option.items = true;
  option.put = [](OptionTarget, Values) -> core::Result<void> {
    return core::invalid_input({}, "must be a list of sections", "begin each with a dash");
  };
  option.show = [](const ReplaySettings&, const PoolSettings&) { return std::string{}; };
  return option;
}

template <class ValueOf>
Option share_within(Option option, ValueOf value_of, double low, double high) {
  option.type = "share";
  const auto parse = [=](std::string_view text) -> core::Result<double> {
    auto value = parse_share(text);
    if (value && (*value < low || *value > high))
      return core::invalid_input(
          {}, fmt::format("must be from {} to {}, is {}", format_number(low), format_number(high), quoted(text)));
    return value;
  };
  return scalar(option, value_of, parse, show_number);
}

// `option.type` is set by the caller.
template <class ValueOf, class Parse, class Show>
Option typed(Option option, std::string_view type, ValueOf value_of, Parse parse, Show show) {
  option.type = type;
  return scalar(option, value_of, parse, show);
}

constexpr std::string_view kPlanner = "Planner";

void add_loops(std::vector<Option>& table) {
  table.push_back(choice(row(kPlanner, "planner.target", "--target",
                             "what it plans for: throughput, latency or sla. Sla, since a replay always has an SLO to "
                             "score against; throughput needs no SLO"),
                         PENSTOCK_FIELD(replay.planner.target), {"throughput", "latency", "sla"}));
  table.push_back(choice(
      row(kPlanner, "planner.phase", "--phase",
          "how much of it acts, each phase with those before: observe, guardrails, throughput, load, "
          "phase-specific or cost"),
      PENSTOCK_FIELD(replay.planner.phase), {"observe", "guardrails", "throughput", "load", "phase-specific", "cost"}));
  table.push_back(duration(row(kPlanner, "planner.throughput_interval", "--throughput-interval",
                               "from one plan by forecast to the next; 0s switches this loop off"),
                           PENSTOCK_FIELD(replay.planner.throughput_interval)));
  table.push_back(duration(row(kPlanner, "planner.load_interval", "--load-interval",
                               "from one correction by load to the next; 0s switches this loop off"),
                           PENSTOCK_FIELD(replay.planner.load_interval)));
  table.push_back(duration(row(kPlanner, "planner.memory", "",
                               "how far back the traffic goes that fleets are tried on; shorter where a day is short"),
                           PENSTOCK_FIELD(replay.planner.memory)));
  table.push_back(share_within(row(kPlanner, "planner.utilisation", "",
                                   "of a replica's capacity that the token formula and the target throughput plan for"),
                               PENSTOCK_FIELD(replay.planner.utilisation), 0.5, 0.95));
  table.push_back(duration(row(kPlanner, "planner.cost_after", "",
                               "how long the SLO must have held before the fleet is made cheaper than planned"),
                           PENSTOCK_FIELD(replay.planner.cost_after)));
}

void add_outlook(std::vector<Option>& table) {
  table.push_back(text(row(kPlanner, "planner.predictor", "--predictor", "forecast of the traffic, by its name"),
                       PENSTOCK_FIELD(replay.planner.predictor)));
  table.push_back(text(
      row(kPlanner, "planner.warm_trace", "--warm-trace", "trace file of earlier traffic that forecasts begin with"),
      PENSTOCK_FIELD(replay.planner.warm_trace)));
  table.push_back(count(row(kPlanner, "planner.warm_pool", "--warm-pool", "replicas beyond the plan that stay ready"),
                        PENSTOCK_FIELD(replay.planner.warm_pool), 0, kReplicasMax));
  table.push_back(
      typed(row(kPlanner, "planner.start_time", "", "moment that the start of the trace means for schedules"), "moment",
            PENSTOCK_FIELD(replay.planner.start_time), parse_moment, format_moment));
  table.push_back(typed(row(kPlanner, "planner.utc_offset", "", "what schedules take for local time, as +02:00"),
                        "offset", PENSTOCK_FIELD(replay.planner.utc_offset), parse_utc_offset, format_utc_offset));
  table.push_back(items(row(kPlanner, "planner.schedules", "", "fewest replicas at times of the calendar")));
}

void add_limits(std::vector<Option>& table) {
  table.push_back(
      count(row(kPlanner, "planner.gpu_budget", "--gpu-budget", "GPUs of all pools together; 0 is no limit"),
            PENSTOCK_FIELD(replay.planner.gpu_budget), 0, 10'000'000));
  table.push_back(number(row(kPlanner, "planner.growth", "", "a pool grows to at most so many times its size a minute"),
                         PENSTOCK_FIELD(replay.planner.growth), 1.0, 1000.0));
  table.push_back(
      duration(row(kPlanner, "planner.stabilisation", "", "a pool shrinks to the most that was planned in this time"),
               PENSTOCK_FIELD(replay.planner.stabilisation)));
  table.push_back(
      share(row(kPlanner, "planner.shrink_share", "", "of a pool that one step may take away, at least one replica"),
            PENSTOCK_FIELD(replay.planner.shrink_share)));
  table.push_back(number(row(kPlanner, "planner.sensitivity", "", "from 0 to 100; higher shrinks sooner"),
                         PENSTOCK_FIELD(replay.planner.sensitivity), 0.0, 100.0));
  table.push_back(duration(
      row(kPlanner, "planner.manual_hold", "", "how long a number of replicas that a person set is left alone"),
      PENSTOCK_FIELD(replay.planner.manual_hold)));
  table.push_back(duration(row(kPlanner, "planner.failure_cooldown", "",
                               "how long nothing changes after a scaling action failed; doubles with each in a row"),
                           PENSTOCK_FIELD(replay.planner.failure_cooldown)));
  table.push_back(share(row(kPlanner, "planner.kv_hot", "", "mean use of the KV cache at which nothing shrinks"),
                        PENSTOCK_FIELD(replay.planner.kv_hot)));
}

core::Result<std::string> parse_class(std::string_view text) { return parse_choice(text, {"interactive", "batch"}); }
core::Result<std::uint64_t> parse_prompt(std::string_view text) { return parse_count(text, 0, 1'000'000'000); }
core::Result<std::uint64_t> parse_floor(std::string_view text) { return parse_count(text, 1, kReplicasMax); }

template <class Item>
std::vector<ItemRow> rows_of(const std::vector<ItemKey<Item>>& keys) {
  std::vector<ItemRow> shown;
  for (const ItemKey<Item>& key : keys) shown.push_back({key.key, key.type, key.fallback, key.help});
  return shown;
}

}  // namespace

void add_targets(std::vector<Option>& table, std::string_view group) {
  table.push_back(share(row(group, "slo.goal", "", "share of the requests that are to keep both"),
                        PENSTOCK_FIELD(replay.slo_goal)));
  table.push_back(items(row(group, "slo.segments", "",
                            "requests with an SLO of their own; the first segment that matches a request counts")));
}

void add_planner(std::vector<Option>& table) {
  add_loops(table);
  add_outlook(table);
  add_limits(table);
}

const std::vector<ItemKey<SegmentSettings>>& segment_keys() {
  using Item = SegmentSettings;
  static const std::vector<ItemKey<Item>> kKeys = {
      {"name", "text", "", "what reports call it", true, put_into(&Item::name, parse_text)},
      {"model", "text", "", "requests for this model", false, put_into(&Item::model, parse_text)},
      {"class", "choice", "", "requests of this class: interactive or batch", false,
       put_into(&Item::traffic_class, parse_class)},
      {"tenant", "text", "", "requests of this tenant", false, put_into(&Item::tenant, parse_text)},
      {"prompt_min", "count", "", "requests whose prompt has so many tokens or more", false,
       put_into(&Item::prompt_min, parse_prompt)},
      {"prompt_max", "count", "", "requests whose prompt has so many tokens or fewer", false,
       put_into(&Item::prompt_max, parse_prompt)},
      {"ttft", "duration", "slo.ttft", "longest time to first token", false, put_into(&Item::ttft, parse_duration)},
      {"itl", "duration", "slo.itl", "longest mean gap between a request's tokens", false,
       put_into(&Item::itl, parse_duration)},
      {"goal", "share", "slo.goal", "share of its requests that are to keep both", false,
       put_into(&Item::goal, parse_share)}};
  return kKeys;
}

const std::vector<ItemKey<ScheduleSettings>>& schedule_keys() {
  using Item = ScheduleSettings;
  static const std::vector<ItemKey<Item>> kKeys = {
      {"cron", "text", "", "when it begins, in the five fields of crontab(5)", true, put_into(&Item::cron, parse_text)},
      {"length", "duration", "", "how long it lasts", true, put_into(&Item::length, parse_duration)},
      {"pool", "text", "", "the pool it is for; may be left out where there is one", false,
       put_into(&Item::pool, parse_text)},
      {"replicas", "count", "", "fewest replicas meanwhile", true, put_into(&Item::replicas, parse_floor)}};
  return kKeys;
}

std::vector<ItemRow> item_rows(std::string_view list) {
  return list == "slo.segments" ? rows_of(segment_keys()) : rows_of(schedule_keys());
}

}  // namespace penstock::config
