#include "controller/scaled_pool.h"

#include "net/address.h"

namespace penstock::controller {
namespace {

std::string names_of(const std::map<std::string, connect::ScaledComponent>& components) {
  std::string names;
  for (const auto& [name, component] : components) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

const connect::ScaleTarget& scaled_target(const ScaledPool& pool) {
  return pool.adapter != nullptr && !pool.adapter->all().empty() ? pool.adapter_target : pool.configured.target;
}

const connect::ScaledObject* object_of(const ScaledPool& pool) {
  const bool has_adapter = &scaled_target(pool) == &pool.adapter_target;
  const auto& found = has_adapter ? pool.adapter->all() : pool.target->all();
  return found.empty() ? nullptr : &found.begin()->second;
}

std::string unknown_of(const ScaledPool& pool, const std::string& in_namespace, core::Instant now) {
  const connect::ScaleTarget& configured = pool.configured.target;
  const std::string target = to_string(scaled_target(pool));
  std::string age = age_of(*pool.target, to_string(configured), now);
  if (age.empty() && pool.adapter != nullptr && pool.serves_adapters)
    age = age_of(*pool.adapter, to_string(pool.adapter_target), now);
  if (!age.empty()) return pool.watch_failure.empty() ? age : age + ": " + pool.watch_failure;
  if (pool.target->all().empty())
    return fmt::format("{} does not exist in the namespace \"{}\"", to_string(configured), in_namespace);
  const auto& components = pool.target->all().begin()->second.components;
  if (!configured.component.empty() && !components.contains(configured.component)) {
    return fmt::format("{} does not exist; its components are: {}", to_string(configured), names_of(components));
  }
  if (!pool.scale)
    return fmt::format("the scale of {} is not known{}{}", target, pool.failure.empty() ? "" : ": ", pool.failure);
  if (pool.pods == nullptr)
    return fmt::format("the scale of {} has no selector of pods; its controller has not set it", target);
  return age_of(*pool.pods, "pods of " + target, now);
}

std::optional<connect::ObjectReference> reference_of(const ScaledPool& pool, const std::string& in_namespace) {
  const connect::ScaledObject* object = object_of(pool);
  if (object == nullptr) return std::nullopt;
  const connect::ScaleTarget& target = scaled_target(pool);
  const std::string& group = target.resource.group;
  return connect::ObjectReference{(group.empty() ? "" : group + "/") + target.resource.version,
                                  connect::kind_of(target), in_namespace, target.name, object->uid};
}

std::string url_of(const connect::PodState& pod, std::uint16_t port) {
  const auto address = net::Address::parse(pod.address, port);
  return address ? "http://" + address->text() : std::string{};
}

}  // namespace penstock::controller
