#include "controller/local_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "actuation/step_text.h"
#include "connect/processes/fleet_file.h"
#include "connect/processes/ports.h"
#include "net/address.h"
#include "net/fetch.h"

namespace penstock::controller {
namespace {

constexpr core::Duration kTick = std::chrono::milliseconds{200};
constexpr core::Duration kEngineTimeout = std::chrono::seconds{2};
constexpr std::size_t kPorts = 3;  // Of an engine: HTTP, iteration metrics, KV events.

net::FetchRequest request_to(std::uint16_t port, std::string path, core::Duration timeout) {
  return net::request_to(*net::Address::parse("127.0.0.1", port), std::move(path), timeout);
}

// A planner that crashed finds its engines by this mark; the marks of two planners differ.
std::string mark_of(const std::string& state_file, const actuation::Replica& replica) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(state_file, error);
  return fmt::format("{}#{}", error ? state_file : path.string(), actuation::name_of(replica));
}

// Members of an engine's document about itself; empty if the member is missing or has another type.
std::optional<std::string> text_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}
std::optional<std::uint64_t> count_in(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto count = found->get<std::uint64_t>();
  return count > std::numeric_limits<std::uint32_t>::max() ? std::nullopt : std::optional{count};
}

connect::ReplicaTraffic traffic_of(actuation::Stage stage) {
  switch (stage) {
    case actuation::Stage::kServing: return connect::ReplicaTraffic::kServing;
    case actuation::Stage::kDraining: return connect::ReplicaTraffic::kDraining;
    default: return connect::ReplicaTraffic::kWarming;
  }
}

std::string log_file(const LocalFleetOptions& options, const std::string& pool, std::uint32_t replica) {
  return fmt::format("{}/{}-{}.log", options.log_folder, pool, replica);
}

// The last line of its log. A replica that changed its role has the log of the pool in which it started.
std::string last_log_line(const LocalFleetOptions& options, const actuation::Replica& replica) {
  std::string line = connect::last_line(log_file(options, replica.pool, replica.id));
  for (std::size_t i = 0; i < options.pools.size() && line.empty(); ++i)
    line = connect::last_line(log_file(options, options.pools[i].name, replica.id));
  return line;
}

void log_stages(logging::Log& log, const actuation::FleetState& before, const actuation::FleetState& after) {
  for (const actuation::Replica& replica : after.replicas) {
    const actuation::Replica* was = before.find(replica.id);
    if (was != nullptr && was->stage == replica.stage) continue;
    log.write(logging::Event::kReplicaState, {{"pool", replica.pool},
                                              {"replica", actuation::name_of(replica)},
                                              {"from", was == nullptr ? "" : actuation::to_string(was->stage)},
                                              {"to", actuation::to_string(replica.stage)}});
  }
}

}  // namespace

std::size_t pool_of(const LocalFleetOptions& options, const actuation::Replica& replica) {
  const auto found = std::find_if(options.pools.begin(), options.pools.end(),
                                  [&](const LocalPool& pool) { return pool.name == replica.pool; });
  return static_cast<std::size_t>(found - options.pools.begin());
}

LocalFleet::LocalFleet(net::Loop& loop, net::Client& client, logging::Log& log, LocalFleetOptions options)
    : loop_(loop), client_(client), options_(std::move(options)), events_(log), watch_(loop, client, events_) {
  for (const LocalPool& pool : options_.pools) {
    actuation::PoolWant want;
    want.pool = pool.name;
    want.role_switch = pool.role_switch;
    want.drain_deadline = pool.drain_deadline;
    want.unhealthy_drain_deadline = pool.unhealthy_drain_deadline;
    for (const std::string& argument : pool.arguments) want.revision += argument + " ";
    wants_.push_back(std::move(want));
    actions_failed_.push_back(0);
    role_switches_.push_back(0);
  }
}

core::Result<std::unique_ptr<LocalFleet>> LocalFleet::open(net::Loop& loop, net::Client& client, logging::Log& log,
                                                           LocalFleetOptions options) {
  std::unique_ptr<LocalFleet> fleet{new LocalFleet{loop, client, log, std::move(options)}};
  auto lock = connect::FileLock::take(fleet->options_.state_file + ".lock");
  if (!lock) return tl::make_unexpected(lock.error());
  if (!*lock)
    return core::environment_error(fleet->options_.state_file, "is used by another planner",
                                   "stop it, or give this one another --state-dir");
  fleet->lock_ = std::move(*lock);
  auto known = connect::load_fleet(fleet->options_.state_file, loop.now());
  if (!known) return tl::make_unexpected(known.error());
  if (*known) {
    fleet->state_ = **known;
    fleet->saved_ = fleet->state_;
    for (actuation::Replica& replica : fleet->state_.replicas) {
      if (actuation::has_ended(replica.stage)) continue;
      // A replica that was being started when the last planner ended may run although its process was not recorded.
      if (!replica.process) {
        const auto running = connect::ProcessHost::find(mark_of(fleet->options_.state_file, replica));
        if (!running.empty()) replica.process = running.front();
      }
      if (!replica.process) continue;
      const auto adopted = fleet->host_.adopt(*replica.process);
      if (adopted && *adopted) {
        const std::string name = actuation::name_of(replica);
        fleet->events_.add(loop.now(), false, replica.pool, name + " continues under this planner");
        log.write(logging::Event::kReplicaAdopted,
                  {{"pool", replica.pool}, {"replica", name}, {"pid", replica.process->pid}});
      } else {
        fleet->reports_[replica.id].gone = true;
      }
    }
    for (actuation::PoolWant& want : fleet->wants_)
      for (const actuation::Replica& replica : fleet->state_.replicas) {
        if (replica.pool != want.pool) continue;
        want.replicas += replica.stage <= actuation::Stage::kServing && !replica.to_sleep ? 1 : 0;
        want.asleep += actuation::observed(replica) == signals::ReplicaState::kAsleep ? 1 : 0;
      }
    for (const actuation::Step& step : actuation::resume(fleet->state_)) fleet->run(step);
  }
  fleet->timers_.push_back(loop.every(kTick, [raw = fleet.get()] { raw->advance(); }));
  fleet->timers_.push_back(loop.every(std::chrono::milliseconds{500}, [raw = fleet.get()] { raw->request_info(); }));
  return fleet;
}

LocalFleet::~LocalFleet() {
  for (const net::Loop::Timer timer : timers_) loop_.cancel(timer);
}

void LocalFleet::set_target(std::size_t pool, std::uint32_t replicas) {
  if (!stopping_) wants_[pool].replicas = replicas;
}

void LocalFleet::set_asleep(std::size_t pool, std::uint32_t replicas) {
  if (!stopping_) wants_[pool].asleep = replicas;
}

void LocalFleet::stop_all(std::function<void()> done) {
  for (actuation::PoolWant& want : wants_) want.replicas = want.asleep = 0;
  stopping_ = true;
  on_stopped_ = std::move(done);
}

bool LocalFleet::is_known(std::uint32_t id) const {
  const actuation::Replica* replica = state_.find(id);
  return replica != nullptr && !actuation::has_ended(replica->stage);
}

std::string LocalFleet::url_of(const actuation::Replica& replica) const {
  return replica.ports.empty() ? std::string{} : fmt::format("http://127.0.0.1:{}", replica.ports.front());
}

void LocalFleet::report(bool warning, const std::string& pool, const std::string& text) {
  events_.add(loop_.now(), warning, pool, text);
  events_.log().write(warning ? logging::Event::kActuationWarning : logging::Event::kActuation,
                      {{"pool", pool}, {"message", text}});
}

// ---- observations ---------------------------------------------------------------------------------------------------

void LocalFleet::update_gateway(const GatewayState& state, core::Instant at) {
  for (const actuation::Replica& replica : state_.replicas) {
    if (actuation::has_ended(replica.stage)) continue;
    actuation::GatewaySeen seen;
    seen.at = at;
    if (const auto known = state.replicas.find(actuation::name_of(replica)); known != state.replicas.end()) {
      seen.routes = known->second.eligible;
      seen.open_requests = known->second.open_work();
      seen.healthy = known->second.healthy;
    }
    reports_[replica.id].gateway = seen;
  }
}

void LocalFleet::reap() {
  for (const connect::Ended& ended : host_.reap())
    for (const actuation::Replica& replica : state_.replicas) {
      if (replica.process != ended.process || actuation::has_ended(replica.stage)) continue;
      const std::string line = last_log_line(options_, replica);
      const std::string cause = connect::describe(ended);
      reports_[replica.id].gone = true;
      reports_[replica.id].end_cause = cause + (line.empty() ? "" : ": " + line);
      events_.log().write(logging::Event::kProcessEnded, {{"process", actuation::name_of(replica)},
                                                          {"pid", ended.process.pid},
                                                          {"cause", cause},
                                                          {"last_line", line}});
    }
}

void LocalFleet::request_info() {
  for (const actuation::Replica& replica : state_.replicas) {
    if (actuation::has_ended(replica.stage) || !replica.process || replica.ports.empty()) continue;
    if (std::exchange(reports_[replica.id].in_flight, true)) continue;
    net::fetch(
        client_, request_to(replica.ports.front(), "/penstock/v1/info", kEngineTimeout),
        [this, id = replica.id, controls = reports_[replica.id].controls](core::Result<net::FetchAnswer> answer) {
          const auto found = reports_.find(id);
          if (found == reports_.end() || !is_known(id)) return;
          found->second.in_flight = false;
          actuation::EngineSeen seen;
          seen.at = loop_.now();
          found->second.engine = seen;
          if (answer && answer->status == 200) store_info(id, answer->body);
          if (controls != found->second.controls || found->second.controlled)
            found->second.engine->asleep = found->second.engine->switching = true;
          control(id);
        });
  }
}

void LocalFleet::store_info(std::uint32_t id, const std::string& info) {
  const auto read = nlohmann::json::parse(info, nullptr, false);
  if (!read.is_object()) return;
  Reports& reports = reports_[id];
  const std::string state = text_in(read, "state").value_or("");
  reports.engine->healthy = state == "ready" || state == "draining";
  const auto requests = count_in(read, "requests_open");
  const auto transfers = count_in(read, "transfers_open");
  if (requests && transfers)
    reports.engine->open =
        actuation::OpenWork{static_cast<std::uint32_t>(*requests), static_cast<std::uint32_t>(*transfers)};
  const auto sleeping = read.find("is_sleeping");
  reports.engine->asleep = sleeping != read.end() && sleeping->is_boolean() && sleeping->get<bool>();
  reports.role = text_in(read, "role").value_or("");
  const std::size_t pool = pool_of(options_, *state_.find(id));
  reports.engine->switching = pool == options_.pools.size() || reports.role != to_string(options_.pools[pool].role);
  const auto fpm = text_in(read, "fpm_endpoint");
  reports.fpm = fpm ? std::vector{*fpm} : std::vector<std::string>{};
  reports.kv_events_endpoint = text_in(read, "kv_events_endpoint").value_or("");
  reports.block_tokens = static_cast<std::uint32_t>(count_in(read, "block_tokens").value_or(0));
  reports.kv_blocks = count_in(read, "kv_blocks").value_or(0);
}

std::vector<actuation::Seen> LocalFleet::observe() const {
  std::vector<actuation::Seen> all;
  for (const actuation::Replica& replica : state_.replicas) {
    if (actuation::has_ended(replica.stage)) continue;
    actuation::Seen one;
    one.replica = replica.id;
    if (const auto found = reports_.find(replica.id); found != reports_.end()) {
      one.engine = found->second.engine;
      one.gateway = found->second.gateway;
      one.warm_up = found->second.warm_up;
      one.exit_message = found->second.end_cause;
      if (found->second.gone) one.process = actuation::ProcessSeen::kGone;
    }
    if (one.process != actuation::ProcessSeen::kGone && replica.process)
      one.process =
          host_.is_alive(*replica.process) ? actuation::ProcessSeen::kAlive : actuation::ProcessSeen::kUnknown;
    all.push_back(std::move(one));
  }
  return all;
}

// ---- steps ----------------------------------------------------------------------------------------------------------

void LocalFleet::advance() {
  reap();
  const actuation::FleetState before = state_;
  const actuation::Advance next = actuation::advance(state_, wants_, observe(), options_.limits, loop_.now());
  for (const actuation::Note& note : next.notes) {
    report(note.warning, note.pool, note.text);
    if (note.warning)
      for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
        if (options_.pools[pool].name == note.pool) ++actions_failed_[pool];
  }
  save();
  for (const actuation::Step& step : next.steps) run(step);
  log_stages(events_.log(), before, state_);
  write_replicas();
  save();
  std::erase_if(reports_, [this](const auto& each) { return !is_known(each.first); });
  std::vector<WatchedEngine> engines;
  for (const actuation::Replica& replica : state_.replicas)
    if (!actuation::has_ended(replica.stage) && replica.stage >= actuation::Stage::kWarming)
      engines.push_back({replica.id, url_of(replica), reports_[replica.id].fpm, actuation::name_of(replica),
                         replica.stage == actuation::Stage::kStopping});
  watch_.watch(engines);
  const bool none_left = std::all_of(state_.replicas.begin(), state_.replicas.end(),
                                     [](const auto& replica) { return actuation::has_ended(replica.stage); });
  if (on_stopped_ && none_left) std::exchange(on_stopped_, nullptr)();
}

void LocalFleet::run(const actuation::Step& step) {
  const actuation::Replica* replica = state_.find(step.replica);
  if (replica == nullptr) return;
  const std::string name = actuation::name_of(*replica);
  const std::string_view kind = actuation::to_string(step.kind), why = actuation::to_string(step.why);
  events_.add(loop_.now(), false, replica->pool, actuation::sentence(step.kind, name, step.why));
  events_.log().write(logging::Event::kReplicaStep,
                      {{"pool", replica->pool}, {"replica", name}, {"step", kind}, {"cause", why}});
  switch (step.kind) {
    case actuation::StepKind::kStart: return start(step.replica);
    case actuation::StepKind::kWarmUp: return warm_up(step.replica);
    case actuation::StepKind::kStop: return send_signal(step.replica, SIGTERM);
    case actuation::StepKind::kKill: return send_signal(step.replica, SIGKILL);
    // The replicas file has both for the gateway, and is written after every tick.
    case actuation::StepKind::kAdmit:
      if (step.why == actuation::StepReason::kSwitched) ++role_switches_[pool_of(options_, *replica)];
      return;
    case actuation::StepKind::kDrain: return;
    // After a restart the state of the engine is unknown, and its first report decides.
    case actuation::StepKind::kSleep:
    case actuation::StepKind::kWake:
    case actuation::StepKind::kSwitch: return control(step.replica);
  }
}

void LocalFleet::start(std::uint32_t id) {
  actuation::Replica* replica = state_.find(id);
  const auto fail = [&](std::string_view why) {
    for (const actuation::Note& note : actuation::start_failed(state_, id, why, options_.limits, loop_.now()))
      report(note.warning, note.pool, note.text);
  };
  // The previous planner started it, and was killed before it recorded that.
  if (replica->process) return actuation::started(state_, id, *replica->process, loop_.now());
  const std::size_t pool = pool_of(options_, *replica);
  if (pool == options_.pools.size()) return fail("its pool is not configured any more");
  while (replica->ports.size() < kPorts) {
    if (!actuation::reserve_port(state_, id, options_.ports, connect::is_port_free)) {
      ++actions_failed_[pool];
      return fail("no port is free");
    }
  }
  connect::Command command;
  command.argv = {options_.program, "engine"};
  command.argv.insert(command.argv.end(), options_.pools[pool].arguments.begin(), options_.pools[pool].arguments.end());
  for (const auto& [flag, value] : {std::pair<std::string, std::string>{"--id", actuation::name_of(*replica)},
                                    {"--port", std::to_string(replica->ports[0])},
                                    {"--fpm-port", std::to_string(replica->ports[1])},
                                    {"--kv-events-port", std::to_string(replica->ports[2])}}) {
    command.argv.push_back(flag);
    command.argv.push_back(value);
  }
  command.log_file = log_file(options_, replica->pool, replica->id);
  command.mark = mark_of(options_.state_file, *replica);
  command.dies_with_us = options_.dies_with_us;
  const auto process = host_.start(command);
  if (!process) {
    ++actions_failed_[pool];
    return fail(process.error().message());
  }
  actuation::started(state_, id, *process, loop_.now());
  events_.log().write(
      logging::Event::kProcessStarted,
      {{"process", actuation::name_of(*replica)}, {"pid", process->pid}, {"log_file", command.log_file}});
}

void LocalFleet::warm_up(std::uint32_t id) {
  const actuation::Replica* replica = state_.find(id);
  const std::size_t pool = pool_of(options_, *replica);
  if (pool == options_.pools.size() || replica->ports.empty()) return;
  const LocalPool& of = options_.pools[pool];
  std::vector<actuation::HotPrefix> prefixes;
  if (of.role != signals::Role::kDecode && !replica->to_sleep)
    for (const GatewayPrefix& hot : hot_prefixes_)
      if (hot.model == of.model) prefixes.push_back({hot.path, hot.body, hot.tokens, hot.hits});
  actuation::WarmUp plan = actuation::plan_warm_up(recent_input_tokens_, prefixes, options_.warm_up);
  Reports& reports = reports_[id];
  reports.warm_up =
      actuation::WarmUpSeen{static_cast<std::uint32_t>(plan.representative.size() + plan.prefixes.size()), 0};
  reports.prefixes = std::move(plan.prefixes);
  for (const actuation::WarmUp::Prompt& prompt : plan.representative)
    send_prompt(
        id, "/v1/completions",
        nlohmann::json{
            {"model", of.model}, {"prompt", prompt.text}, {"max_tokens", prompt.max_tokens}, {"ignore_eos", true}}
            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (plan.representative.empty()) send_prefixes(id);
}

void LocalFleet::send_prompt(std::uint32_t id, std::string path, std::string body) {
  net::FetchRequest request =
      request_to(state_.find(id)->ports.front(), std::move(path), options_.limits.warm_up_deadline);
  request.method = "POST";
  request.fields.push_back({"Content-Type", "application/json"});
  request.body = std::move(body);
  net::fetch(client_, std::move(request), [this, id](const core::Result<net::FetchAnswer>&) {
    const auto found = reports_.find(id);
    if (found == reports_.end() || !found->second.warm_up) return;
    const actuation::WarmUpSeen& seen = *found->second.warm_up;
    if (++found->second.warm_up->answered + found->second.prefixes.size() == seen.prompts && is_known(id))
      send_prefixes(id);
  });
}

void LocalFleet::send_prefixes(std::uint32_t id) {
  for (actuation::HotPrefix& prefix : std::exchange(reports_[id].prefixes, {}))
    send_prompt(id, std::move(prefix.path), std::move(prefix.body));
}

void LocalFleet::send_signal(std::uint32_t id, int number) {
  const actuation::Replica* replica = state_.find(id);
  if (!replica->process) return;
  if (auto sent = host_.signal(*replica->process, number); !sent) report(true, replica->pool, sent.error().message());
}

// A failure is reported once; every tick retries.
void LocalFleet::report_write(std::string& failure, const core::Result<void>& done) {
  const std::string before = std::exchange(failure, done ? std::string{} : done.error().message());
  if (failure == before) return;
  const bool good = failure.empty();
  events_.add(loop_.now(), true, {}, good ? "can be written again: " + before : failure);
  events_.log().write(good ? logging::Event::kFileWritable : logging::Event::kFileUnwritable,
                      {{"error", good ? before : failure}});
}

void LocalFleet::save() {
  if (state_ == saved_) return;
  const auto done = connect::save_fleet(options_.state_file, state_, loop_.now());
  report_write(state_failure_, done);
  if (done) saved_ = state_;
}

void LocalFleet::write_replicas() {
  std::vector<connect::ReplicaEntry> entries;
  for (const actuation::Replica& replica : state_.replicas) {
    // The gateway need not know of replicas that are asleep or wake up: they are as new to it as those that start.
    const bool listens = replica.stage == actuation::Stage::kWarming || replica.stage == actuation::Stage::kServing ||
                         replica.stage == actuation::Stage::kDraining;
    const std::size_t pool = pool_of(options_, replica);
    if (!listens || pool == options_.pools.size()) continue;
    const Reports& reports = reports_[replica.id];
    connect::ReplicaEntry entry;
    entry.id = actuation::name_of(replica);
    entry.url = url_of(replica);
    entry.model = options_.pools[pool].model;
    entry.pool = replica.pool;
    entry.role = options_.pools[pool].role;
    entry.state = traffic_of(replica.stage);
    entry.kv_events = reports.kv_events_endpoint;
    if (reports.block_tokens > 0) entry.block_tokens = reports.block_tokens;
    if (reports.kv_blocks > 0) entry.kv_blocks = reports.kv_blocks;
    entries.push_back(std::move(entry));
  }
  if (ever_written_ && entries == written_) return;
  const auto done = connect::save_replicas(options_.replicas_file, entries);
  report_write(replicas_failure_, done);
  if (!done) return;
  written_ = std::move(entries);
  ever_written_ = true;
}

// ---- for the planner ------------------------------------------------------------------------------------------------

void LocalFleet::fill(std::size_t pool, signals::PoolObservation& seen) const {
  seen.target_replicas = wants_[pool].replicas;
  seen.asleep_target = wants_[pool].asleep;
  seen.actions_failed_total = actions_failed_[pool];
  seen.switching = state_.switching_to(options_.pools[pool].name);
  add_replicas(replicas(pool), seen);
}

std::vector<ReplicaView> LocalFleet::replicas(std::size_t pool) const {
  std::vector<ReplicaView> views;
  for (const actuation::Replica& replica : state_.replicas) {
    if (replica.pool != options_.pools[pool].name || actuation::has_ended(replica.stage)) continue;
    ReplicaView& view = views.emplace_back();
    view = {actuation::name_of(replica),
            actuation::to_string(replica.stage),
            url_of(replica),
            replica.since,
            {replica.id, actuation::observed(replica), replica.since, watch_.sample_of(replica.id)},
            watch_.messages_of(replica.id)};
    view.switch_to = replica.switch_to;
  }
  return views;
}

}  // namespace penstock::controller
