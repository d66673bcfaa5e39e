#include "report/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/format.h"
#include "report/ranking.h"

namespace penstock::report {
namespace {

using decision::RunResult;

constexpr std::string_view kStatic = "static", kPenstock = "penstock", kClairvoyant = "clairvoyant",
                           kSchedule = "schedule";
constexpr std::string_view kBudgetRefusal = "token_budget_exceeded", kTooLarge = "prompt_exceeds_kv_cache";

std::string count_of_replicas(std::uint32_t replicas) {
  return fmt::format("{} {}", replicas, replicas == 1 ? "replica" : "replicas");
}

std::string label_of(const FixedFleet& fleet, const RunInfo& info) {
  if (fleet.replicas.size() != info.pools.size() || fleet.replicas.size() == 1)
    return count_of_replicas(fleet.result.replicas);
  std::string label;
  for (std::size_t i = 0; i < fleet.replicas.size(); ++i)
    label += fmt::format("{}{} {}", label.empty() ? "" : " + ", fleet.replicas[i], info.pools[i].name);
  return label;
}

// The better of two choices: one that reaches the goal, then the cheaper; if none does, the higher attainment.
void consider(Choice& best, Choice other) {
  const auto attainment = [](const Choice& choice) { return choice.result->slo_attainment; };
  if (best.result != nullptr) {
    if (best.reaches != other.reaches) {
      if (best.reaches) return;
    } else if (best.reaches ? !is_cheaper(*other.result, *best.result) : attainment(other) <= attainment(best)) {
      return;
    }
  }
  best = std::move(other);
}

std::string cost_of(const Choice& choice) {
  return fmt::format("{} GPU-hours ({} USD)", format_quantity(choice.result->gpu_hours),
                     format_quantity(choice.result->cost));
}

// By what the choices are compared: the GPU cost, unless it has no price.
double price_of(const RunResult& result) { return result.cost > 0.0 ? result.cost : result.gpu_hours; }

std::string named(std::string_view kind, const Choice& choice) {
  return kind == kStatic ? fmt::format("a fixed fleet of {}", choice.label) : choice.label;
}

std::string others(const Answer& answer, const Choice& best) {
  std::string text;
  for (const auto& [kind, choice] : answer.choices()) {
    if (choice == &best) continue;
    const std::string name = named(choice == &answer.fixed ? kStatic : "", *choice);
    text += text.empty() ? "; " : ", ";
    const std::string more = format_difference(price_of(*choice->result), price_of(*best.result));
    if (!choice->reaches)
      text += fmt::format("{} misses the goal with {}", name, format_share(choice->result->slo_attainment));
    else if (more.starts_with('+'))
      text += fmt::format("{} costs {} more", name, more.substr(1));
    else
      text += name + " costs the same";
  }
  return text;
}

// What may reach the goal. A request that a budget refuses or that no KV cache can hold misses it, whatever the fleet.
std::string advice(const RunResult& result, double goal, const RunInfo& info) {
  std::uint64_t refused = 0, too_large = 0;
  for (const decision::FailureCount& failure : result.failures) {
    if (failure.reason == kBudgetRefusal) refused += failure.requests;
    if (failure.reason == kTooLarge) too_large += failure.requests;
  }
  std::string text;
  if (refused > 0)
    text = fmt::format(
        " Budgets refused {} of {} requests ({}), and more replicas do not change that: raise tokens_per_minute and "
        "burst of the tenants or classes.",
        refused, result.requests, kBudgetRefusal);
  if (too_large > 0)
    text += fmt::format(
        " {} of {} requests do not fit into the KV cache of a replica ({}), and more replicas do not change that: "
        "raise kv_blocks.",
        too_large, result.requests, kTooLarge);
  if (static_cast<double>(refused + too_large) > (1.0 - goal) * static_cast<double>(result.requests)) return text;
  const std::uint32_t most = info.pools.empty() ? 0 : info.pools.front().max_replicas;
  return text + fmt::format(" Allow more than {} (--max-replicas), a faster engine, or choose a looser SLO.",
                            count_of_replicas(most));
}

std::string text_of(const Answer& answer, const Report& report) {
  const Choice* best = nullptr;
  const Choice* closest = nullptr;
  for (const auto& [kind, choice] : answer.choices()) {
    if (choice->reaches && (best == nullptr || is_cheaper(*choice->result, *best->result))) best = choice;
    if (closest == nullptr || choice->result->slo_attainment > closest->result->slo_attainment) closest = choice;
  }
  if (closest == nullptr) return {};
  const std::string goal = closest->result->targets.size() > 1 ? "the goals of all segments" : format_goal(answer.goal);
  if (best == nullptr) {
    return fmt::format("Nothing that was tried reaches {}: {} has {} at {}.{}", goal,
                       named(closest == &answer.fixed ? kStatic : "", *closest),
                       format_share(closest->result->slo_attainment), cost_of(*closest),
                       advice(*closest->result, answer.goal, report.info));
  }
  std::string text =
      fmt::format("{} is the cheapest that reaches {}, at {}{}.", named(best == &answer.fixed ? kStatic : "", *best),
                  goal, cost_of(*best), others(answer, *best));
  if (best == &answer.fixed) text.front() = 'A';
  if (answer.choices().size() > 1) text += " The size of the fixed fleet was found with this trace itself.";
  return text;
}

}  // namespace

bool reaches_goal(const RunResult& result, double goal) {
  if (result.targets.size() <= 1) return result.slo_attainment >= goal;
  return std::all_of(result.targets.begin(), result.targets.end(),
                     [](const decision::TargetResult& target) { return target.attainment() >= target.goal; });
}

bool is_cheaper(const RunResult& a, const RunResult& b) {
  return a.cost != b.cost ? a.cost < b.cost : a.gpu_hours < b.gpu_hours;
}

std::vector<std::pair<const char*, const Choice*>> Answer::choices() const {
  std::vector<std::pair<const char*, const Choice*>> all;
  for (const auto& [kind, choice] :
       {std::pair{"cheapest fixed fleet", &fixed}, {"cheapest rule", &rule}, {"Penstock", &penstock}})
    if (choice->result != nullptr) all.emplace_back(kind, choice);
  return all;
}

Answer answer_of(const Report& report) {
  Answer answer;
  answer.goal = report.info.slo_goal;
  if (report.info.requests == 0 || !report.fixed) return answer;
  const auto choice = [&](const RunResult& result, std::string label) {
    return Choice{&result, std::move(label), reaches_goal(result, answer.goal)};
  };
  consider(answer.fixed, choice(report.fixed->result, label_of(*report.fixed, report.info)));
  for (const RunResult& fleet : report.frontier)
    consider(answer.fixed, choice(fleet, count_of_replicas(fleet.replicas)));
  for (const RankedResult& ranked : rank(report.results)) {
    const RunResult& result = *ranked.result;
    const std::string_view rule = decision::name_without_settings(result.policy);
    if (rule == kClairvoyant || rule == kSchedule) continue;
    if (result.policy == kStatic)
      consider(answer.fixed, choice(result, count_of_replicas(result.replicas)));
    else
      consider(rule == kPenstock ? answer.penstock : answer.rule, choice(result, ranked.label));
  }
  answer.text = text_of(answer, report);
  return answer;
}

}  // namespace penstock::report
