// Reports overload policies that contradict each other or have no effect.
#include <fmt/format.h>

#include <algorithm>

#include "configuration/configuration.h"

namespace penstock::configuration {
namespace {

using admission::Class;
using admission::OverloadAction;

constexpr core::Duration kWindowMin = std::chrono::seconds{10};

class OverloadChecker {
 public:
  OverloadChecker(const GatewaySetup& setup, options::Reading& reading)
      : tenants_(setup.tenants), options_(setup.options.dispatch), reading_(reading) {}

  void check_all() {
    if (!reading_.is_read("classes") ||
        !reading_.are_read_in_items("tenants", tenants_.size(), {"class", "tier", "overload", "over_budget"}))
      return;
    for (const Class each : {Class::kInteractive, Class::kBatch}) check_class(each);
    for (std::size_t i = 0; i < tenants_.size(); ++i) check_tenant(i);
    check_order();
    check_deferral();
  }

 private:
  [[nodiscard]] static std::string key(Class traffic_class, std::string_view option) {
    return fmt::format("classes.{}.{}", admission::to_string(traffic_class), option);
  }
  [[nodiscard]] bool given(Class traffic_class, std::string_view option) const {
    return reading_.given(key(traffic_class, option));
  }
  [[nodiscard]] bool may_have(const TenantOptions& tenant, Class traffic_class) const {
    return traffic_class == Class::kBatch || tenant.traffic_class == Class::kInteractive;
  }
  [[nodiscard]] OverloadAction action(const TenantOptions& tenant, Class traffic_class) const {
    const dispatch::ClassOptions& of_class = options_.of_class(traffic_class);
    return admission::action_of(tenant.overload, of_class.overload, of_class.queue_time);
  }
  // Whether some request of the class may have the action.
  [[nodiscard]] bool any(Class traffic_class, OverloadAction wanted) const {
    const dispatch::ClassOptions& of_class = options_.of_class(traffic_class);
    if (admission::action_of({}, of_class.overload, of_class.queue_time) == wanted) return true;
    return std::any_of(tenants_.begin(), tenants_.end(), [&](const TenantOptions& tenant) {
      return may_have(tenant, traffic_class) && action(tenant, traffic_class) == wanted;
    });
  }
  [[nodiscard]] bool any_waits(Class traffic_class) const {
    return any(traffic_class, OverloadAction::kQueue) || any(traffic_class, OverloadAction::kDegrade) ||
           any(traffic_class, OverloadAction::kDrop);
  }

  void check_class(Class traffic_class) {
    const dispatch::ClassOptions& of_class = options_.of_class(traffic_class);
    const bool sheds = of_class.overload == OverloadAction::kShed, no_wait = of_class.queue_time == core::Duration{};
    if (given(traffic_class, "overload") && !sheds && no_wait)
      reading_.report(key(traffic_class, "overload"),
                      fmt::format("{} needs a queue_time above 0s", to_string(of_class.overload)),
                      "write overload: shed to refuse requests at once");
    if (given(traffic_class, "queue_time") && !no_wait && !any_waits(traffic_class))
      reading_.report(key(traffic_class, "queue_time"), "has no effect, since overload: shed lets no request wait");
    for (const char* option : {"degrade_above", "degrade_to"})
      if (given(traffic_class, option) && !any(traffic_class, OverloadAction::kDegrade))
        reading_.report(key(traffic_class, option),
                        "has no effect, since no request of the class has overload: degrade");
    if (of_class.overload == OverloadAction::kDrop && traffic_class == Class::kInteractive && !has_tiers())
      reading_.report(key(traffic_class, "overload"),
                      "drop has no effect, since no request has precedence over the class interactive",
                      "write queue, degrade or shed, or give tenants a higher tier");
  }

  void check_deferral() {
    const dispatch::BatchOptions& batch = options_.batch;
    const std::string window = key(Class::kBatch, "completion_window");
    if (batch.completion_window <= core::Duration{}) {
      for (const char* option : {"defer_load", "near_deadline"})
        if (given(Class::kBatch, option))
          reading_.report(key(Class::kBatch, option), "has no effect without classes.batch.completion_window");
      return;
    }
    const OverloadAction batch_action = admission::action_of({}, batch.overload, batch.queue_time);
    if (batch_action == OverloadAction::kShed || batch_action == OverloadAction::kDrop)
      reading_.report(window,
                      fmt::format("contradicts overload: {}, since such requests do not wait for spare capacity",
                                  to_string(batch_action)),
                      "write classes.batch.overload: queue or degrade, and a queue_time above 0s");
    if (batch.time_budget > core::Duration{} && batch.time_budget < batch.completion_window)
      reading_.report(window,
                      fmt::format("must be at most classes.batch.time_budget ({}), which ends deferred requests, too",
                                  options::format_duration(batch.time_budget)));
    if (batch.completion_window < kWindowMin)
      reading_.report(window, fmt::format("must be 0s or at least {}, is {}", options::format_duration(kWindowMin),
                                          options::format_duration(batch.completion_window)));
  }

  // Whether a tenant may have precedence over the requests of another one of the class interactive.
  [[nodiscard]] bool has_tiers() const {
    return std::any_of(tenants_.begin(), tenants_.end(), [](const TenantOptions& tenant) { return tenant.tier != 0; });
  }

  // A tenant that sheds has an error of its own.
  void check_over_budget(const TenantOptions& tenant, const std::string& path) {
    if (tenant.over_budget != dispatch::OverBudget::kBatch || tenant.overload == OverloadAction::kShed) return;
    if (admission::action_of(tenant.overload, options_.batch.overload, options_.batch.queue_time) ==
        OverloadAction::kShed)
      reading_.report(path, "batch needs batch requests that wait, and those of the tenant do not",
                      "raise classes.batch.queue_time, and write no classes.batch.overload: shed");
  }

  void check_tenant(std::size_t index) {
    const TenantOptions& tenant = tenants_[index];
    check_over_budget(tenant, fmt::format("tenants[{}].over_budget", index));
    if (!tenant.overload) return;
    const std::string path = fmt::format("tenants[{}].overload", index);
    const bool no_wait = options_.of_class(tenant.traffic_class).queue_time == core::Duration{};
    if (*tenant.overload != OverloadAction::kShed && no_wait)
      return reading_.report(
          path,
          fmt::format("{} needs a {} above 0s", to_string(*tenant.overload), key(tenant.traffic_class, "queue_time")),
          "write shed, or omit it");
    if (*tenant.overload == OverloadAction::kShed && tenant.over_budget != dispatch::OverBudget::kReject)
      return reading_.report(path, fmt::format("shed contradicts over_budget: {}, since no request of the tenant waits",
                                               to_string(tenant.over_budget)));
    const bool outranked = std::any_of(tenants_.begin(), tenants_.end(),
                                       [&](const TenantOptions& other) { return other.tier > tenant.tier; });
    if (*tenant.overload == OverloadAction::kDrop && tenant.traffic_class == Class::kInteractive && !outranked)
      reading_.report(path, "drop has no effect, since no tenant has precedence over the tenant",
                      "write class: batch, or give other tenants a higher tier");
  }

  // Batch requests count the tokens of both classes, so equal limits keep the order.
  void check_order() {
    if (!any(Class::kInteractive, OverloadAction::kDegrade) || !any(Class::kBatch, OverloadAction::kDegrade)) return;
    const std::uint64_t interactive = options_.interactive.degrade.above_waiting_tokens;
    const std::uint64_t batch = options_.batch.degrade.above_waiting_tokens;
    if (interactive < batch)
      reading_.report(
          reading_.first_given({key(Class::kInteractive, "degrade_above"), key(Class::kBatch, "degrade_above")}),
          fmt::format("classes.interactive.degrade_above ({}) must be at least classes.batch.degrade_above "
                      "({}), or interactive answers are shortened first",
                      interactive, batch));
  }

  const std::vector<TenantOptions>& tenants_;
  const dispatch::DispatchOptions& options_;
  options::Reading& reading_;
};

}  // namespace

void check_overload(const GatewaySetup& setup, options::Reading& reading) {
  OverloadChecker{setup, reading}.check_all();
}

}  // namespace penstock::configuration
