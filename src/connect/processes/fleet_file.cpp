#include "connect/processes/fleet_file.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "connect/json_fields.h"
#include "connect/whole_file.h"

namespace penstock::connect {

using actuation::FleetState;
using actuation::PoolState;
using actuation::Process;
using actuation::Replica;
using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

namespace {

constexpr std::int64_t kFleetVersion = 1;
constexpr std::size_t kNameBytes = 1000;
constexpr std::size_t kPoolsMax = 10'000, kFleetReplicasMax = 100'000, kPortsMax = 16;
// Times beyond a hundred years are rejected, so that sums of them cannot overflow.
constexpr std::int64_t kNanosecondsMax = 3'155'760'000'000'000'000;
constexpr std::int64_t kNumberMax = 0xffff'ffff;

// Times are written as ages in nanoseconds, relative to the time of saving.
struct Ages {
  core::Instant now;
  [[nodiscard]] std::int64_t of(core::Instant instant) const { return (now - instant).count(); }
};

Ordered replica_object(const Replica& replica, const Ages& ages) {
  Ordered object;
  object["id"] = replica.id;
  object["pool"] = replica.pool;
  object["revision"] = replica.revision;
  object["stage"] = to_string(replica.stage);
  object["requested_age_ns"] = ages.of(replica.requested_at);
  object["since_age_ns"] = ages.of(replica.since);
  object["ports"] = replica.ports;
  if (replica.process) {
    object["pid"] = replica.process->pid;
    object["started_ticks"] = replica.process->started_ticks;
  }
  if (replica.unhealthy_since) object["unhealthy_age_ns"] = ages.of(*replica.unhealthy_since);
  if (replica.quiet_since) object["quiet_age_ns"] = ages.of(*replica.quiet_since);
  object["given_up"] = replica.given_up;
  object["killed"] = replica.killed;
  if (replica.to_sleep) object["to_sleep"] = true;
  if (!replica.switch_to.empty()) object["switch_to"] = replica.switch_to;
  return object;
}

Ordered pool_object(const PoolState& pool, const Ages& ages) {
  Ordered object;
  object["name"] = pool.name;
  object["crashes"] = pool.crashes;
  if (pool.start_after) object["start_after_age_ns"] = ages.of(*pool.start_after);
  object["full"] = pool.full;
  if (pool.drain_time) object["drain_ns"] = pool.drain_time->count();
  return object;
}

std::uint32_t take_count(JsonFields& fields, const char* name, std::int64_t min, std::int64_t max = kNumberMax) {
  return static_cast<std::uint32_t>(fields.integer(name, min, max));
}

core::Instant take_instant(JsonFields& fields, const char* name, core::Instant saved_at) {
  return saved_at - core::Duration{fields.integer(name, -kNanosecondsMax, kNanosecondsMax)};
}

std::optional<core::Instant> take_instant_if_any(JsonFields& fields, const char* name, core::Instant saved_at) {
  if (!fields.has(name)) return std::nullopt;
  return take_instant(fields, name, saved_at);
}

void take_ports(JsonFields& fields, Replica& replica) {
  const Json* const ports = fields.list("ports", kPortsMax);
  if (ports == nullptr) return;
  for (const Json& port : *ports) {
    if (!port.is_number_unsigned() || port.get<std::uint64_t>() < 1 || port.get<std::uint64_t>() > 65'535)
      return fields.fail("ports", fmt::format("must be ports (1 to 65535), has {}", port.dump()));
    replica.ports.push_back(port.get<std::uint16_t>());
  }
}

Replica take_replica(JsonFields& fields, core::Instant saved_at, bool same_boot) {
  Replica replica;
  replica.id = take_count(fields, "id", 1);
  replica.pool = fields.text("pool", kNameBytes);
  replica.revision = fields.text("revision", kNameBytes);
  const std::string stage = fields.text("stage", kNameBytes);
  if (const auto known = actuation::stage_named(stage))
    replica.stage = *known;
  else
    fields.fail("stage", fmt::format("unknown stage \"{}\"", stage));
  replica.requested_at = take_instant(fields, "requested_age_ns", saved_at);
  replica.since = take_instant(fields, "since_age_ns", saved_at);
  take_ports(fields, replica);
  if (fields.has("pid")) {
    const Process process{fields.integer("pid", 2, INT32_MAX),
                          static_cast<std::uint64_t>(fields.integer("started_ticks", 0, INT64_MAX))};
    if (same_boot) replica.process = process;
  }
  replica.unhealthy_since = take_instant_if_any(fields, "unhealthy_age_ns", saved_at);
  replica.quiet_since = take_instant_if_any(fields, "quiet_age_ns", saved_at);
  replica.given_up = fields.flag("given_up");
  replica.killed = fields.flag("killed");
  replica.to_sleep = fields.has("to_sleep") && fields.flag("to_sleep");
  if (fields.has("switch_to")) replica.switch_to = fields.text("switch_to", kNameBytes);
  return replica;
}

PoolState take_pool(JsonFields& fields, core::Instant saved_at) {
  PoolState pool;
  pool.name = fields.text("name", kNameBytes);
  pool.crashes = take_count(fields, "crashes", 0);
  pool.start_after = take_instant_if_any(fields, "start_after_age_ns", saved_at);
  pool.full = fields.flag("full");
  if (fields.has("drain_ns")) pool.drain_time = core::Duration{fields.integer("drain_ns", 0, kNanosecondsMax)};
  return pool;
}

// Reads each element of a list with `take`, which receives the element's fields.
template <class Take>
core::Result<void> take_list(const Json& list, const char* name, const std::string& file, Take take) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    JsonFields fields{list[i], file, fmt::format("{}[{}]", name, i)};
    take(fields);
    if (fields.error()) return tl::make_unexpected(*fields.error());
  }
  return {};
}

// Checks what the state machine relies on.
std::optional<core::Error> find_contradiction(const FleetState& fleet, const std::string& file) {
  std::set<std::uint16_t> ports;
  std::set<std::string_view> pools;
  const auto at = [&](const char* list, std::size_t i, std::string what) {
    return core::Error{core::ErrorCode::kInvalidInput, fmt::format("{}: {}[{}]", file, list, i), std::move(what), {}};
  };
  for (std::size_t i = 0; i < fleet.pools.size(); ++i)
    if (!pools.insert(fleet.pools[i].name).second) return at("pools", i, "has a name that another pool has");
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < fleet.replicas.size(); ++i) {
    const Replica& replica = fleet.replicas[i];
    if (replica.id <= before || replica.id >= fleet.next_id)
      return at("replicas", i, "has an id that is out of order, or not below next_id");
    before = replica.id;
    if (has_ended(replica.stage)) continue;
    for (const std::uint16_t port : replica.ports)
      if (!ports.insert(port).second) return at("replicas", i, fmt::format("shares port {} with another", port));
  }
  return std::nullopt;
}

}  // namespace

Moment moment_at(core::Instant now) {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  Moment moment{now, std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec}, ""};
  if (const auto boot = read_whole_file("/proc/sys/kernel/random/boot_id", 100); boot && *boot)
    moment.boot = (*boot)->substr(0, (*boot)->find('\n'));
  return moment;
}

std::string fleet_text(const FleetState& fleet, const Moment& moment) {
  const Ages ages{moment.now};
  Ordered root;
  root["version"] = kFleetVersion;
  root["boot"] = moment.boot;
  root["since_boot_ns"] = moment.since_boot.count();
  root["next_id"] = fleet.next_id;
  root["next_port"] = fleet.next_port;
  root["pools"] = Ordered::array();
  for (const PoolState& pool : fleet.pools) root["pools"].push_back(pool_object(pool, ages));
  root["replicas"] = Ordered::array();
  for (const Replica& replica : fleet.replicas) root["replicas"].push_back(replica_object(replica, ages));
  return root.dump(1, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

core::Result<FleetState> read_fleet(std::string_view text, const std::string& file, const Moment& moment) {
  const auto root = parse_object(text, file);
  if (!root) return tl::make_unexpected(root.error());
  JsonFields top{*root, file, ""};
  if (const std::int64_t version = top.integer("version", 1, INT64_MAX); version != kFleetVersion)
    top.fail("version", fmt::format("is {}, but only {} is known", version, kFleetVersion),
             "use the penstock that wrote it");
  const bool same_boot = top.text("boot", kNameBytes) == moment.boot && !moment.boot.empty();
  const core::Duration since_boot{top.integer("since_boot_ns", 0, kNanosecondsMax)};
  const core::Duration passed =
      same_boot ? std::max(moment.since_boot - since_boot, core::Duration{}) : core::Duration{};
  const core::Instant saved_at = moment.now - passed;

  FleetState fleet;
  fleet.next_id = take_count(top, "next_id", 1);
  fleet.next_port = static_cast<std::uint16_t>(top.integer("next_port", 0, 65'535));
  const Json* const pools = top.list("pools", kPoolsMax);
  const Json* const replicas = top.list("replicas", kFleetReplicasMax);
  if (top.error()) return tl::make_unexpected(*top.error());
  if (const auto taken = take_list(*pools, "pools", file,
                                   [&](JsonFields& fields) { fleet.pools.push_back(take_pool(fields, saved_at)); });
      !taken)
    return tl::make_unexpected(taken.error());
  if (const auto taken =
          take_list(*replicas, "replicas", file,
                    [&](JsonFields& fields) { fleet.replicas.push_back(take_replica(fields, saved_at, same_boot)); });
      !taken)
    return tl::make_unexpected(taken.error());
  if (const auto error = find_contradiction(fleet, file)) return tl::make_unexpected(*error);
  return fleet;
}

core::Result<void> save_fleet(const std::string& path, const FleetState& fleet, core::Instant now) {
  return replace_file(path, fleet_text(fleet, moment_at(now)));
}

core::Result<std::optional<FleetState>> load_fleet(const std::string& path, core::Instant now) {
  const auto text = read_whole_file(path, kFleetFileBytes);
  if (!text) return tl::make_unexpected(text.error());
  if (!*text) return std::optional<FleetState>{};
  auto fleet = read_fleet(**text, path, moment_at(now));
  if (!fleet) return tl::make_unexpected(fleet.error());
  return std::optional{std::move(*fleet)};
}

}  // namespace penstock::connect
