#include "cli/keda_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "cli/keda_cron.h"
#include "cli/pool_flag.h"
#include "options/values.h"

namespace penstock::cli {
namespace {

using deployment::Fallback;
using deployment::KedaSettings;
using deployment::ScaleTarget;

constexpr std::array<std::string_view, 2> kKedaFlags = {"--fallback", "--cron"};
constexpr std::uint32_t kFailuresMax = 1000, kFallbackReplicasMax = 1'000'000;
constexpr std::string_view kNoFallback = "none", kStatic = ":static";

// Empty for "none". Without a number of replicas it is that of the pool's minimum, at least 1.
core::Result<std::optional<Fallback>> parse_fallback(std::string_view text, std::uint32_t replicas_min) {
  constexpr const char* kExample = "as 3, 3:6, 3:6:static or none";
  if (text == kNoFallback) return std::optional<Fallback>{};
  Fallback made;
  made.replicas = std::max(1U, replicas_min);
  made.is_static = text.ends_with(kStatic);
  if (made.is_static) text.remove_suffix(kStatic.size());
  const std::size_t colon = text.find(':');
  const auto failures = options::parse_count(text.substr(0, colon), 0, kFailuresMax);
  if (failures) made.failures = static_cast<std::uint32_t>(*failures);
  bool good = failures.has_value();
  if (colon != std::string_view::npos) {
    const auto replicas = options::parse_count(text.substr(colon + 1), 1, kFallbackReplicasMax);
    if (replicas) made.replicas = static_cast<std::uint32_t>(*replicas);
    good = good && replicas;
  }
  if (good) return std::optional{made};
  return core::invalid_input(
      {}, fmt::format("must be FAILURES from 0 to {}, with or without :REPLICAS above 0", kFailuresMax), kExample);
}

core::Result<void> check_fallback(const std::string& text) {
  return parse_fallback(text, 1).map([](const std::optional<Fallback>&) {});
}
core::Result<void> check_cron(const std::string& text) {
  return parse_cron_trigger(text).map([](const deployment::CronTrigger&) {});
}

// KEDA caps both at maxReplicaCount without an error.
void check_most(const char* flag, const ScaleTarget& target, std::uint32_t replicas, options::Reading& reading) {
  if (replicas > target.replicas_max)
    reading.report(flag, fmt::format("asks for {} replicas of the pool {}, whose max_replicas is {}", replicas,
                                     options::quote(target.pool), target.replicas_max));
}

}  // namespace

std::span<const std::string_view> keda_flag_names() { return kKedaFlags; }

void add_keda_flags(options::Table& table, KedaFlags& made) {
  using namespace options;
  table.group("ScaledObjects of KEDA, with a value for one pool or for all of them");
  table
      .add({"", "--fallback",
            "after more failures of a trigger in succession it asks for the replicas that there are, and for "
            "min_replicas or the given number at least; with :static, as 3:6:static, for exactly so many"},
           each_use(made.fallbacks))
      .placeholder("[POOL:]FAILURES[:REPLICAS]")
      .by_default("none")
      .repeatable();
  table
      .add({"", "--cron",
            "fewest replicas from each start to the next end, as 'Europe/Berlin; 0 8 * * 1-5; 0 18 * * 1-5; 6'"},
           each_use(made.crons))
      .placeholder("[POOL:]TIMEZONE;START;END;REPLICAS")
      .repeatable();
}

std::vector<KedaSettings> keda_settings(const std::vector<ScaleTarget>& targets, const KedaFlags& flags,
                                        options::Reading& reading) {
  std::vector<std::string> pools;
  for (const ScaleTarget& each : targets) pools.push_back(each.pool);
  const PoolFlag fallbacks{"--fallback", flags.fallbacks, pools}, crons{"--cron", flags.crons, pools};
  fallbacks.report_refused(reading, check_fallback);
  crons.report_refused(reading, check_cron);
  std::vector<KedaSettings> all;
  for (const ScaleTarget& target : targets) {
    KedaSettings& made = all.emplace_back();
    const std::string fallback_text = fallbacks.of(target.pool, std::string{kNoFallback});
    if (const auto fallback = parse_fallback(fallback_text, target.replicas_min)) made.fallback = *fallback;
    if (made.fallback) check_most("--fallback", target, made.fallback->replicas, reading);
    for (const std::string& text : crons.all_of(target.pool)) {
      auto cron = parse_cron_trigger(text);
      if (!cron) continue;
      check_most("--cron", target, cron->replicas, reading);
      made.crons.push_back(*std::move(cron));
    }
  }
  return all;
}

std::vector<std::string> add_schedules(const configuration::Configuration& made,
                                       const std::vector<ScaleTarget>& targets, std::vector<KedaSettings>& settings) {
  std::vector<std::string> notes;
  for (const configuration::Configuration& each : configuration::configurations_of(made))
    for (const configuration::Schedule& schedule : each.planner.schedules) {
      const auto target = std::find_if(targets.begin(), targets.end(),
                                       [&](const ScaleTarget& candidate) { return candidate.pool == schedule.pool; });
      if (target == targets.end()) continue;
      auto cron = cron_trigger_of(schedule.cron, schedule.length, each.planner.utc_offset, schedule.replicas);
      if (cron)
        settings[static_cast<std::size_t>(target - targets.begin())].crons.push_back(*std::move(cron));
      else
        notes.push_back(
            fmt::format("KEDA's cron scaler cannot have the schedule {} of planner.schedules: {}; give --cron.",
                        options::quote(schedule.cron), cron.error().what));
    }
  return notes;
}

}  // namespace penstock::cli
