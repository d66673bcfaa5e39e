#include "gateway/budget_document.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::gateway {
namespace {

using Json = nlohmann::ordered_json;
using admission::Class;
using admission::SharedUse;

constexpr std::array kReportedClasses = {Class::kInteractive, Class::kBatch};
constexpr std::size_t kReportedTenantsMax = 100'000, kReportedNameBytesMax = 4096;
constexpr std::uint64_t kReportedTokensMax = 1'000'000'000'000'000, kReportedRunningMax = 10'000'000;
constexpr double kReportedSecondsMax = 1e9;  // Some thirty years, so that it fits the clock.

Json use_json(std::string_view name, const SharedUse& use) {
  return {{"name", name}, {"taken", use.taken}, {"missing", use.missing}, {"running", use.running}};
}

// Reads members, and keeps the first error.
class ReportReader {
 public:
  [[nodiscard]] std::uint64_t count(const Json& object, const char* name, std::uint64_t most) {
    const Json* found = member(object, name);
    if (found != nullptr && found->is_number_unsigned() && found->get<std::uint64_t>() <= most)
      return found->get<std::uint64_t>();
    fail(name);
    return 0;
  }
  [[nodiscard]] double number(const Json& object, const char* name, double most) {
    const Json* found = member(object, name);
    if (found != nullptr && found->is_number() && found->get<double>() >= 0.0 && found->get<double>() <= most)
      return found->get<double>();
    fail(name);
    return 0.0;
  }
  [[nodiscard]] std::string text(const Json& object, const char* name, std::size_t bytes_max) {
    const Json* found = member(object, name);
    if (found != nullptr && found->is_string() && !found->get_ref<const std::string&>().empty() &&
        found->get_ref<const std::string&>().size() <= bytes_max)
      return found->get<std::string>();
    fail(name);
    return {};
  }
  [[nodiscard]] const Json& list(const Json& object, const char* name, std::size_t most) {
    static const Json kNone = Json::array();
    const Json* found = member(object, name);
    if (found != nullptr && found->is_array() && found->size() <= most) return *found;
    fail(name);
    return kNone;
  }
  [[nodiscard]] SharedUse use(const Json& object) {
    return {count(object, "taken", kReportedTokensMax),
            number(object, "missing", static_cast<double>(kReportedTokensMax)),
            static_cast<std::uint32_t>(count(object, "running", kReportedRunningMax))};
  }
  [[nodiscard]] const std::string& failed() const { return failed_; }

 private:
  [[nodiscard]] static const Json* member(const Json& object, const char* name) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(name);
    return found == object.end() ? nullptr : &*found;
  }
  void fail(const char* name) {
    if (failed_.empty()) failed_ = name;
  }

  std::string failed_;  // Name of the first member that is missing or out of its range.
};

}  // namespace

std::string budget_document(const dispatch::BudgetReport& report) {
  Json made{{"boot", report.process}, {"number", report.number}, {"age_s", core::to_seconds(report.age)}};
  made["tenants"] = Json::array();
  for (const auto& [name, use] : report.tenants) made["tenants"].push_back(use_json(name, use));
  made["classes"] = Json::array();
  for (const Class each : kReportedClasses)
    made["classes"].push_back(use_json(admission::to_string(each), report.classes[index_of(each)]));
  return made.dump(-1, ' ', false, Json::error_handler_t::replace);
}

core::Result<dispatch::BudgetReport> read_budget_document(std::string_view json) {
  const char* const where = "the gateway's budgets";
  if (json.size() > kBudgetDocumentBytesMax)
    return core::invalid_input(where, fmt::format("have more than {} bytes", kBudgetDocumentBytesMax));
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_object()) return core::invalid_input(where, "are not a JSON object");
  ReportReader reader;
  dispatch::BudgetReport report;
  report.process = reader.text(parsed, "boot", kReportedNameBytesMax);
  report.number = reader.count(parsed, "number", UINT64_MAX);
  report.age = core::from_seconds(reader.number(parsed, "age_s", kReportedSecondsMax));
  for (const Json& tenant : reader.list(parsed, "tenants", kReportedTenantsMax))
    report.tenants.emplace_back(reader.text(tenant, "name", kReportedNameBytesMax), reader.use(tenant));
  for (const Json& traffic_class : reader.list(parsed, "classes", kReportedTenantsMax)) {
    const std::string name = reader.text(traffic_class, "name", kReportedNameBytesMax);
    for (const Class each : kReportedClasses)
      if (name == admission::to_string(each)) report.classes[index_of(each)] = reader.use(traffic_class);
  }
  if (!reader.failed().empty()) return core::invalid_input(where, fmt::format("lack {} in its range", reader.failed()));
  return report;
}

}  // namespace penstock::gateway
