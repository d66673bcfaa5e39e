#include "controller/local_fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/processes/fleet_file.h"
#include "connect/processes/ports.h"
#include "net/address.h"
#include "net/fetch.h"

namespace penstock::controller {
namespace {

constexpr core::Duration kTick = std::chrono::milliseconds{200};
constexpr core::Duration kEnginePatience = std::chrono::seconds{2};
constexpr std::size_t kEventsMax = 500;
constexpr std::size_t kPorts = 3;  // of an engine: HTTP, iteration metrics, KV events

net::FetchRequest request_to(std::uint16_t port, std::string path, core::Duration patience) {
  return net::request_to(*net::Address::parse("127.0.0.1", port), std::move(path), patience);
}

// Engines are found again by this after a crash of the planner; it must differ from that of another planner's.
std::string mark_of(const std::string& state_file, const actuation::Replica& replica) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(state_file, error);
  return fmt::format("{}#{}", error ? state_file : path.string(), actuation::name_of(replica));
}

// Of what an engine says of itself; none where it says something else there.
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

}  // namespace

LocalFleet::LocalFleet(net::Loop& loop, net::Client& client, LocalFleetOptions options)
    : loop_(loop), client_(client), options_(std::move(options)), watch_(loop, client) {
  for (const LocalPool& pool : options_.pools) {
    actuation::PoolWant want;
    want.pool = pool.name;
    for (const std::string& argument : pool.arguments) want.revision += argument + " ";
    wants_.push_back(std::move(want));
    actions_failed_.push_back(0);
  }
}

core::Result<std::unique_ptr<LocalFleet>> LocalFleet::open(net::Loop& loop, net::Client& client,
                                                           LocalFleetOptions options) {
  std::unique_ptr<LocalFleet> fleet{new LocalFleet{loop, client, std::move(options)}};
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
      // One that was being started when the last planner ended may run without anybody knowing its number.
      if (!replica.process) {
        const auto running = connect::ProcessHost::find(mark_of(fleet->options_.state_file, replica));
        if (!running.empty()) replica.process = running.front();
      }
      if (!replica.process) continue;
      const auto adopted = fleet->host_.adopt(*replica.process);
      if (adopted && *adopted)
        fleet->tell(false, replica.pool, actuation::name_of(replica) + " goes on under this planner");
      else
        fleet->asked_[replica.id].gone = true;
    }
    for (actuation::PoolWant& want : fleet->wants_)
      want.replicas = static_cast<std::uint32_t>(
          std::count_if(fleet->state_.replicas.begin(), fleet->state_.replicas.end(), [&](const auto& replica) {
            return replica.pool == want.pool && replica.stage <= actuation::Stage::kServing;
          }));
    for (const actuation::Step& step : actuation::resume(fleet->state_)) fleet->take(step);
  }
  fleet->timers_.push_back(loop.every(kTick, [raw = fleet.get()] { raw->advance(); }));
  fleet->timers_.push_back(loop.every(std::chrono::milliseconds{500}, [raw = fleet.get()] { raw->ask_engines(); }));
  return fleet;
}

LocalFleet::~LocalFleet() {
  for (const net::Loop::Timer timer : timers_) loop_.cancel(timer);
}

void LocalFleet::want(std::size_t pool, std::uint32_t replicas) {
  if (!ending_) wants_[pool].replicas = replicas;
}

void LocalFleet::end_all(std::function<void()> done) {
  for (actuation::PoolWant& want : wants_) want.replicas = 0;
  ending_ = true;
  ended_ = std::move(done);
}

bool LocalFleet::is_known(std::uint32_t id) const {
  const actuation::Replica* replica = state_.find(id);
  return replica != nullptr && !actuation::has_ended(replica->stage);
}

std::size_t LocalFleet::pool_of(const actuation::Replica& replica) const {
  const auto found = std::find_if(options_.pools.begin(), options_.pools.end(),
                                  [&](const LocalPool& pool) { return pool.name == replica.pool; });
  return static_cast<std::size_t>(found - options_.pools.begin());
}

std::string LocalFleet::url_of(const actuation::Replica& replica) const {
  return replica.ports.empty() ? std::string{} : fmt::format("http://127.0.0.1:{}", replica.ports.front());
}

std::string LocalFleet::log_file(const actuation::Replica& replica) const {
  return options_.log_folder + "/" + actuation::name_of(replica) + ".log";
}

void LocalFleet::tell(bool warning, std::string pool, std::string text) {
  if (warning && options_.say) options_.say(text);
  events_.push_back({loop_.now(), warning, std::move(pool), std::move(text)});
  if (events_.size() > kEventsMax) events_.erase(events_.begin());
}

// ---- what is seen ----------------------------------------------------------------------------------------------------

void LocalFleet::gateway_says(const GatewayState& state, core::Instant at) {
  for (const actuation::Replica& replica : state_.replicas) {
    if (actuation::has_ended(replica.stage)) continue;
    actuation::GatewaySeen seen;
    seen.at = at;
    if (const auto known = state.replicas.find(actuation::name_of(replica)); known != state.replicas.end()) {
      seen.routes = known->second.eligible;
      seen.open_requests = known->second.open_requests;
    }
    asked_[replica.id].gateway = seen;
  }
}

void LocalFleet::reap() {
  for (const connect::Ended& ended : host_.reap())
    for (const actuation::Replica& replica : state_.replicas) {
      if (replica.process != ended.process || actuation::has_ended(replica.stage)) continue;
      asked_[replica.id].gone = true;
      const std::string line = connect::last_line(log_file(replica));
      asked_[replica.id].last_words = connect::describe(ended) + (line.empty() ? "" : ": " + line);
    }
}

void LocalFleet::ask_engines() {
  for (const actuation::Replica& replica : state_.replicas) {
    if (actuation::has_ended(replica.stage) || !replica.process || replica.ports.empty()) continue;
    Asked& asked = asked_[replica.id];
    if (std::exchange(asked.under_way, true)) continue;
    net::fetch(client_, request_to(replica.ports.front(), "/penstock/v1/info", kEnginePatience),
               [this, id = replica.id](core::Result<net::FetchAnswer> answer) {
                 const auto found = asked_.find(id);
                 if (found == asked_.end() || !is_known(id)) return;
                 found->second.under_way = false;
                 actuation::EngineSeen seen;
                 seen.at = loop_.now();
                 found->second.engine = seen;
                 if (answer && answer->status == 200) took(id, answer->body);
               });
  }
}

void LocalFleet::took(std::uint32_t id, const std::string& info) {
  const auto read = nlohmann::json::parse(info, nullptr, false);
  if (!read.is_object()) return;
  Asked& asked = asked_[id];
  const std::string state = text_in(read, "state").value_or("");
  asked.engine->healthy = state == "ready" || state == "draining";
  const auto requests = count_in(read, "requests_open");
  const auto transfers = count_in(read, "transfers_open");
  if (requests && transfers)
    asked.engine->open =
        actuation::OpenWork{static_cast<std::uint32_t>(*requests), static_cast<std::uint32_t>(*transfers)};
  asked.fpm_endpoint = text_in(read, "fpm_endpoint").value_or("");
  asked.kv_events_endpoint = text_in(read, "kv_events_endpoint").value_or("");
  asked.block_tokens = static_cast<std::uint32_t>(count_in(read, "block_tokens").value_or(0));
  asked.kv_blocks = count_in(read, "kv_blocks").value_or(0);
}

std::vector<actuation::Seen> LocalFleet::seen() const {
  std::vector<actuation::Seen> all;
  for (const actuation::Replica& replica : state_.replicas) {
    if (actuation::has_ended(replica.stage)) continue;
    actuation::Seen one;
    one.replica = replica.id;
    if (const auto asked = asked_.find(replica.id); asked != asked_.end()) {
      one.engine = asked->second.engine;
      one.gateway = asked->second.gateway;
      one.warm_up = asked->second.warm_up;
      one.last_words = asked->second.last_words;
      if (asked->second.gone) one.process = actuation::ProcessSeen::kGone;
    }
    if (one.process != actuation::ProcessSeen::kGone && replica.process)
      one.process =
          host_.is_alive(*replica.process) ? actuation::ProcessSeen::kAlive : actuation::ProcessSeen::kUnknown;
    all.push_back(std::move(one));
  }
  return all;
}

// ---- what is done ----------------------------------------------------------------------------------------------------

void LocalFleet::advance() {
  reap();
  const std::vector<actuation::Seen> now_seen = seen();
  const actuation::Advance next = actuation::advance(state_, wants_, now_seen, options_.limits, loop_.now());
  for (const actuation::Note& note : next.notes) {
    tell(note.warning, note.pool, note.text);
    if (note.warning)
      for (std::size_t pool = 0; pool < options_.pools.size(); ++pool)
        if (options_.pools[pool].name == note.pool) ++actions_failed_[pool];
  }
  save();
  for (const actuation::Step& step : next.steps) take(step);
  write_replicas();
  save();
  std::erase_if(asked_, [this](const auto& asked) { return !is_known(asked.first); });
  std::vector<WatchedEngine> engines;
  for (const actuation::Replica& replica : state_.replicas)
    if (!actuation::has_ended(replica.stage) && replica.stage >= actuation::Stage::kWarming)
      engines.push_back({replica.id, url_of(replica), asked_[replica.id].fpm_endpoint});
  watch_.watch(engines);
  const bool none_left = std::all_of(state_.replicas.begin(), state_.replicas.end(),
                                     [](const auto& replica) { return actuation::has_ended(replica.stage); });
  if (ended_ && none_left) std::exchange(ended_, nullptr)();
}

void LocalFleet::take(const actuation::Step& step) {
  const actuation::Replica* replica = state_.find(step.replica);
  if (replica == nullptr) return;
  tell(false, replica->pool,
       fmt::format("{} {}: {}", actuation::to_string(step.kind), actuation::name_of(*replica),
                   actuation::to_string(step.why)));
  switch (step.kind) {
    case actuation::StepKind::kStart: return start(step.replica);
    case actuation::StepKind::kWarmUp: return warm_up(step.replica);
    case actuation::StepKind::kStop: return send_signal(step.replica, SIGTERM);
    case actuation::StepKind::kKill: return send_signal(step.replica, SIGKILL);
    // The file that the gateway follows says both, and is written after every tick.
    case actuation::StepKind::kAdmit:
    case actuation::StepKind::kDrain: return;
  }
}

void LocalFleet::start(std::uint32_t id) {
  actuation::Replica* replica = state_.find(id);
  const auto fail = [&](std::string_view why) {
    for (const actuation::Note& note : actuation::start_failed(state_, id, why, options_.limits, loop_.now()))
      tell(note.warning, note.pool, note.text);
  };
  // The last planner started it, and was killed before it could note that.
  if (replica->process) return actuation::started(state_, id, *replica->process, loop_.now());
  const std::size_t pool = pool_of(*replica);
  if (pool == options_.pools.size()) return fail("its pool is not there any more");
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
  command.log_file = log_file(*replica);
  command.mark = mark_of(options_.state_file, *replica);
  command.dies_with_us = options_.dies_with_us;
  const auto process = host_.start(command);
  if (!process) {
    ++actions_failed_[pool];
    return fail(process.error().message());
  }
  actuation::started(state_, id, *process, loop_.now());
}

void LocalFleet::warm_up(std::uint32_t id) {
  const actuation::Replica* replica = state_.find(id);
  const std::size_t pool = pool_of(*replica);
  if (pool == options_.pools.size() || replica->ports.empty()) return;
  const LocalPool& of = options_.pools[pool];
  std::vector<actuation::HotPrefix> prefixes;
  if (of.role != signals::Role::kDecode)
    for (const GatewayPrefix& hot : hot_prefixes_)
      if (hot.model == of.model) prefixes.push_back({hot.path, hot.body, hot.tokens, hot.hits});
  actuation::WarmUp plan = actuation::plan_warm_up(recent_input_tokens_, prefixes, options_.warm_up);
  Asked& asked = asked_[id];
  asked.warm_up =
      actuation::WarmUpSeen{static_cast<std::uint32_t>(plan.representative.size() + plan.prefixes.size()), 0};
  asked.prefixes = std::move(plan.prefixes);
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
    const auto found = asked_.find(id);
    if (found == asked_.end() || !found->second.warm_up) return;
    const actuation::WarmUpSeen& seen = *found->second.warm_up;
    if (++found->second.warm_up->answered + found->second.prefixes.size() == seen.prompts && is_known(id))
      send_prefixes(id);
  });
}

void LocalFleet::send_prefixes(std::uint32_t id) {
  for (actuation::HotPrefix& prefix : std::exchange(asked_[id].prefixes, {}))
    send_prompt(id, std::move(prefix.path), std::move(prefix.body));
}

void LocalFleet::send_signal(std::uint32_t id, int number) {
  const actuation::Replica* replica = state_.find(id);
  if (!replica->process) return;
  if (auto sent = host_.signal(*replica->process, number); !sent) tell(true, replica->pool, sent.error().message());
}

// It is tried again at every tick, and told once.
void LocalFleet::note_write(std::string& trouble, const core::Result<void>& done) {
  const std::string before = std::exchange(trouble, done ? std::string{} : done.error().message());
  if (trouble == before) return;
  tell(true, "", trouble.empty() ? "can be written again: " + before : trouble);
}

void LocalFleet::save() {
  if (state_ == saved_) return;
  const auto done = connect::save_fleet(options_.state_file, state_, loop_.now());
  note_write(save_trouble_, done);
  if (done) saved_ = state_;
}

void LocalFleet::write_replicas() {
  std::vector<connect::ReplicaEntry> entries;
  for (const actuation::Replica& replica : state_.replicas) {
    const bool listens = replica.stage >= actuation::Stage::kWarming && replica.stage <= actuation::Stage::kDraining;
    const std::size_t pool = pool_of(replica);
    if (!listens || pool == options_.pools.size()) continue;
    const Asked& asked = asked_[replica.id];
    connect::ReplicaEntry entry;
    entry.id = actuation::name_of(replica);
    entry.url = url_of(replica);
    entry.model = options_.pools[pool].model;
    entry.pool = replica.pool;
    entry.role = options_.pools[pool].role;
    entry.state = traffic_of(replica.stage);
    entry.kv_events = asked.kv_events_endpoint;
    if (asked.block_tokens > 0) entry.block_tokens = asked.block_tokens;
    if (asked.kv_blocks > 0) entry.kv_blocks = asked.kv_blocks;
    entries.push_back(std::move(entry));
  }
  if (ever_written_ && entries == written_) return;
  const auto done = connect::save_replicas(options_.replicas_file, entries);
  note_write(replicas_trouble_, done);
  if (!done) return;
  written_ = std::move(entries);
  ever_written_ = true;
}

// ---- what the planner sees -------------------------------------------------------------------------------------------

void LocalFleet::fill(std::size_t pool, signals::PoolObservation& seen) const {
  seen.target_replicas = wants_[pool].replicas;
  seen.actions_failed_total = actions_failed_[pool];
  for (const actuation::Replica& replica : state_.replicas) {
    if (replica.pool != options_.pools[pool].name || actuation::has_ended(replica.stage)) continue;
    const signals::ReplicaState state = actuation::observed(replica.stage);
    seen.replicas.push_back({replica.id, state, replica.since, watch_.sample_of(replica.id)});
    switch (state) {
      case signals::ReplicaState::kStarting: ++seen.starting; break;
      case signals::ReplicaState::kReady: ++seen.ready; break;
      case signals::ReplicaState::kDraining: ++seen.draining; break;
      case signals::ReplicaState::kStopped:
      case signals::ReplicaState::kCrashed: break;
    }
  }
}

std::vector<ReplicaView> LocalFleet::replicas(std::size_t pool) const {
  std::vector<ReplicaView> views;
  for (const actuation::Replica& replica : state_.replicas) {
    if (replica.pool != options_.pools[pool].name || actuation::has_ended(replica.stage)) continue;
    views.push_back({actuation::name_of(replica),
                     actuation::to_string(replica.stage),
                     url_of(replica),
                     replica.since,
                     {replica.id, actuation::observed(replica.stage), replica.since, watch_.sample_of(replica.id)}});
  }
  return views;
}

}  // namespace penstock::controller
