#include "gateway/health_checker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "api/prompt_keys.h"
#include "telemetry/adapters.h"

namespace penstock::gateway {
namespace {

constexpr core::Duration kTimeout = std::chrono::seconds{2};
// A replica that does not answer for this long after it was listed, or a source of replicas that cannot be read for
// this long after the start, no longer holds up the gateway.
constexpr core::Duration kModelsTime = std::chrono::seconds{10};
constexpr core::Duration kScrapePauseMax = std::chrono::minutes{1};
constexpr core::Duration kCountTime = std::chrono::seconds{1};
constexpr std::uint32_t kCountsMax = 16;  // Counts in flight at one replica.
constexpr std::string_view kNoEngine =
    "; if the server is no engine, correct the URL, otherwise name its model (gateway.replicas[].model)";
constexpr std::string_view kNoMetrics =
    "/metrics contains no metrics of a known engine; the load is estimated from the requests sent to it";
constexpr std::string_view kAsleep = "the engine is in sleep mode; it receives requests once it is woken up";
constexpr std::string_view kLastResort =
    "; it gets requests only while no replica of its model, role and pool is healthy";
constexpr std::size_t kNamesShown = 5;
constexpr std::uint32_t kFailuresMax = 2;  // Consecutive failures after which a replica counts as unhealthy.

// The first ones: a list may be long.
std::vector<std::string> names_of(const std::vector<ListedModel>& listed) {
  std::vector<std::string> names;
  for (const ListedModel& each : listed)
    if (names.size() < kNamesShown) names.push_back(each.id);
  return names;
}

routing::ReportedLoad load_of(const telemetry::EngineScrape& scrape, core::Instant now) {
  routing::ReportedLoad load;
  load.at = now;
  load.waiting = static_cast<std::uint32_t>(scrape.queued_requests.value_or(0));
  load.running = static_cast<std::uint32_t>(scrape.running_requests.value_or(0));
  load.waiting_prefill_tokens = scrape.queued_prefill_tokens;
  load.kv_usage = scrape.kv_usage;
  load.kv_capacity_tokens = scrape.kv_capacity_tokens;
  return load;
}

}  // namespace

HealthChecker::HealthChecker(net::Loop& loop, const GatewayOptions& options, SharedDispatcher& dispatcher,
                             ReplicaClient& client, logging::Log& log)
    : loop_(loop),
      options_(options),
      dispatcher_(dispatcher),
      client_(client),
      log_(log),
      started_at_(net::Loop::read_clock()) {
  dispatcher_.set_models_complete(false);
  loop_.every(std::chrono::milliseconds{500}, [this] { update_models_complete(); });
  loop_.every(options_.health_interval, [this] { check_health(); });
  loop_.every(options_.scrape_interval, [this] { scrape(); });
}

// ---- the list -------------------------------------------------------------------------------------------------------

void HealthChecker::set_replicas(std::vector<ReplicaEndpoint> replicas, bool complete) {
  list_complete_ = complete;
  std::map<std::string, Replica> before = std::exchange(replicas_, {});
  for (ReplicaEndpoint& endpoint : replicas) {
    Replica replica;
    replica.listed_at = loop_.now();
    const std::string configured = endpoint.model;
    if (const auto known = before.find(endpoint.id);
        known != before.end() && known->second.endpoint.url == endpoint.url) {
      replica = known->second;
      // What the replica has reported stays known.
      if (endpoint.model.empty() || endpoint.model == replica.configured_model) {
        endpoint.also = replica.endpoint.also;
        endpoint.context_tokens = replica.endpoint.context_tokens;
      }
      if (endpoint.model.empty()) endpoint.model = replica.endpoint.model;
    }
    replica.configured_model = configured;
    replica.configured_kv_tokens = endpoint.kv_tokens;
    replica.endpoint = std::move(endpoint);
    describe_workers(replica);
    replicas_.insert_or_assign(std::string{replica.endpoint.id}, std::move(replica));
  }
  log_changes(before);
  update_dispatcher();
  for (auto& [id, replica] : replicas_) request_models(replica);
  update_problems();
  update_models_complete();
}

void HealthChecker::log_changes(const std::map<std::string, Replica>& before) const {
  for (const auto& [id, replica] : replicas_) {
    const ReplicaEndpoint& now = replica.endpoint;
    const auto known = before.find(id);
    if (known == before.end() || known->second.endpoint.url != now.url)
      log_.write(logging::Event::kReplicaAdded, {{"replica", id},
                                                 {"url", now.url},
                                                 {"model", now.model},
                                                 {"pool", now.pool},
                                                 {"role", signals::to_string(now.role)},
                                                 {"phase", dispatch::to_string(now.phase)}});
    else if (known->second.endpoint.phase != now.phase)
      log_.write(logging::Event::kReplicaPhase, {{"replica", id},
                                                 {"from", dispatch::to_string(known->second.endpoint.phase)},
                                                 {"to", dispatch::to_string(now.phase)}});
  }
  for (const auto& [id, gone] : before)
    if (const auto left = replicas_.find(id); left == replicas_.end() || left->second.endpoint.url != gone.endpoint.url)
      log_.write(logging::Event::kReplicaRemoved, {{"replica", id}, {"url", gone.endpoint.url}});
}

void HealthChecker::update_dispatcher() {
  std::vector<ReplicaEndpoint> endpoints;
  for (const auto& [id, replica] : replicas_)
    if (!replica.endpoint.model.empty() && replica.has_address()) endpoints.push_back(replica.endpoint);
  dispatcher_.set_replicas(endpoints, loop_.now());
  // The dispatcher takes a replica that was not in its last list for a healthy one.
  for (const auto& [id, replica] : replicas_) {
    if (!replica.is_healthy()) dispatcher_.set_health(id, replica.health, loop_.now());
    if (replica.unresponsive) dispatcher_.set_unresponsive(id, true);
  }
  update_counted_models();
}

void HealthChecker::send(const Replica& replica, const std::string& target, std::string body, core::Duration timeout,
                         Done done) {
  client_.send(replica.endpoint, replica.address, target, std::move(body), timeout,
               [this, target, id = replica.endpoint.id, url = replica.endpoint.url,
                done = std::move(done)](core::Result<net::FetchAnswer> answer) {
                 const auto found = replicas_.find(id);
                 // A pod that is made again may have the id of the one before, and another address.
                 if (found == replicas_.end() || found->second.endpoint.url != url) return;
                 Response response;
                 if (answer) {
                   found->second.answered_at = loop_.now();
                   response.status = answer->status;
                   response.body = std::move(answer->body);
                   if (response.status != 200)
                     response.failure = fmt::format("{} answered with status {}", target, response.status);
                 } else {
                   ++found->second.address;
                   response.failure = answer.error().message();
                   response.timed_out = answer.error().code == core::ErrorCode::kTimeout;
                 }
                 done(found->second, response);
               });
}

// ---- models and health ----------------------------------------------------------------------------------------------

void HealthChecker::request_models(Replica& replica) {
  if (!replica.has_address() || std::exchange(replica.models_in_flight, true)) return;
  send(replica, "/v1/models", {}, kTimeout, [this](Replica& checked, const Response& response) {
    checked.models_in_flight = false;
    take_models(checked, response);
    update_problems();
    update_models_complete();
  });
}

void HealthChecker::check_credentials(const std::string& id) {
  if (const auto found = replicas_.find(id); found != replicas_.end()) request_models(found->second);
}

void HealthChecker::take_models(Replica& replica, const Response& response) {
  const bool refused = response.status == 401 || response.status == 403;
  replica.models_status = response.status;
  // An engine that starts may answer with 503.
  if (response.status != 0 && response.status < 500) replica.models_read = true;
  if (response.status != 0) replica.refused_status = refused ? response.status : 0;
  update_health(replica);
  const std::vector<ListedModel> listed =
      response.failure.empty() ? models_in(response.body) : std::vector<ListedModel>{};
  std::string failure;
  if (!listed.empty()) {
    set_models(replica, listed);
    const std::string& model = replica.endpoint.model;
    if (std::none_of(listed.begin(), listed.end(), [&](const ListedModel& each) { return each.id == model; }))
      failure = fmt::format("the replica serves {}, and not its configured model {}; correct its model or its URL",
                            fmt::join(names_of(listed), ", "), model);
  } else if (replica.endpoint.model.empty()) {
    failure = response.failure.empty() ? "/v1/models lists no models" : response.failure;
    // An engine that starts may not answer, or answer with 503.
    if (replica.models_read) failure += kNoEngine;
  }
  const bool is_known = replica.model_failure == failure;
  replica.model_failure = failure;
  if (is_known || failure.empty()) return;
  log_.write(logging::Event::kReplicaModelUnknown,
             {{"replica", replica.endpoint.id}, {"url", replica.endpoint.url}, {"cause", failure}});
}

// The first base model of the list is the one of the replica unless the options name it. Names with the same root are
// aliases; all others have a KV of their own.
void HealthChecker::set_models(Replica& replica, const std::vector<ListedModel>& listed) {
  ReplicaEndpoint& endpoint = replica.endpoint;
  const auto named = [&](const std::string& name) {
    return std::find_if(listed.begin(), listed.end(), [&](const ListedModel& each) { return each.id == name; });
  };
  auto own = named(endpoint.model);
  if (own == listed.end())
    own = std::find_if(listed.begin(), listed.end(), [](const ListedModel& each) { return each.parent.empty(); });
  if (own == listed.end()) own = listed.begin();
  const std::string model = replica.configured_model.empty() ? own->id : endpoint.model;
  std::vector<dispatch::ServedModel> also;
  std::vector<std::string> names;
  for (const ListedModel& each : listed) {
    names.push_back(each.id);
    if (each.id == model) continue;
    const bool is_alias = each.parent.empty() && !each.root.empty() && each.root == own->root;
    also.push_back({each.id, is_alias ? 0 : api::key_salt_of(each.id) | 1,
                    each.context_tokens > 0 ? each.context_tokens : own->context_tokens});
  }
  if (model == endpoint.model && also == endpoint.also && own->context_tokens == endpoint.context_tokens) return;
  endpoint.model = model;
  endpoint.also = std::move(also);
  endpoint.context_tokens = own->context_tokens;
  replica.counts_prompts = true;
  log_.write(logging::Event::kReplicaModels,
             {{"replica", endpoint.id}, {"url", endpoint.url}, {"models", fmt::format("{}", fmt::join(names, ","))}});
  update_dispatcher();
}

void HealthChecker::check_health() {
  for (auto& [id, replica] : replicas_) {
    request_models(replica);
    if (!replica.has_address() || std::exchange(replica.health_in_flight, true)) continue;
    replica.checked_at = loop_.now();
    send(replica, "/health", {}, options_.health_timeout, [this](Replica& checked, const Response& response) {
      checked.health_in_flight = false;
      take_health(checked, response);
      update_problems();
    });
  }
}

void HealthChecker::take_health(Replica& replica, const Response& response) {
  // A server without this path may still serve. A busy one answers late, but it answers requests.
  const bool good = response.status == 200 || response.status == 404 ||
                    (response.timed_out && dispatcher_.answered_since(replica.endpoint.id, replica.checked_at));
  replica.failures = good ? 0 : replica.failures + 1;
  replica.health_failure = good ? std::string{} : response.failure;
  replica.health_status = response.status;
  replica.timed_out = !good && response.timed_out;
  update_health(replica);
  const std::string& id = replica.endpoint.id;
  if (!replica.count_silence(good, [&](core::Instant since) { return dispatcher_.answered_since(id, since); })) return;
  dispatcher_.set_unresponsive(id, replica.unresponsive);
  if (!replica.unresponsive) return;
  log_.write(logging::Event::kReplicaUnresponsive,
             {{"replica", id},
              {"url", replica.endpoint.url},
              {"cause", replica.health_failure},
              {"silent_s", core::to_seconds(loop_.now() - replica.silent_since)}});
}

void HealthChecker::update_health(Replica& replica) {
  using dispatch::ReplicaHealth;
  const bool refuses = replica.refused_status != 0 || replica.asleep;
  ReplicaHealth health = refuses ? ReplicaHealth::kUnhealthy : ReplicaHealth::kHealthy;
  if (!refuses && replica.failures >= kFailuresMax)
    health = replica.timed_out ? ReplicaHealth::kSlow : ReplicaHealth::kUnhealthy;
  const bool was_healthy = replica.is_healthy();
  if (health == std::exchange(replica.health, health)) return;
  dispatcher_.set_health(replica.endpoint.id, health, loop_.now());
  if (was_healthy == replica.is_healthy()) return;
  update_counted_models();
  if (replica.is_healthy())
    log_.write(logging::Event::kReplicaHealthy, {{"replica", replica.endpoint.id}, {"url", replica.endpoint.url}});
  else
    log_.write(logging::Event::kReplicaUnhealthy, {{"replica", replica.endpoint.id},
                                                   {"url", replica.endpoint.url},
                                                   {"cause", cause_of(replica)},
                                                   {"failures", replica.failures}});
}

std::string HealthChecker::cause_of(const Replica& replica) {
  if (replica.refused_status != 0) return refusal_of(replica);
  if (replica.asleep && replica.failures < kFailuresMax) return std::string{kAsleep};
  return replica.health_failure;
}

std::string HealthChecker::refusal_of(const Replica& replica) {
  const bool has_key = replica.endpoint.credentials && replica.endpoint.credentials->has_key;
  return has_key ? fmt::format("the replica refused the gateway's API key (status {})", replica.refused_status)
                 : fmt::format("the replica requires an API key (status {}); set gateway.credentials",
                               replica.refused_status);
}

void HealthChecker::update_problems() {
  std::vector<ReplicaProblem> problems;
  for (const auto& [id, replica] : replicas_) {
    const auto add = [&, &listed = replica, &name = id](std::string_view code, std::string text) {
      problems.push_back({name, listed.endpoint.url, code, std::move(text)});
    };
    if (!replica.has_address())
      add("unreachable", replica.endpoint.unresolved);
    else if (replica.refused_status != 0)
      add("unauthorized", refusal_of(replica));
    else if (replica.asleep && replica.failures < kFailuresMax)
      add("asleep", std::string{kAsleep});
    else if (replica.health == dispatch::ReplicaHealth::kSlow)
      add("health_timeout", replica.health_failure + std::string{kLastResort});
    else if (!replica.is_healthy())
      add(replica.health_status == 0 ? "unreachable" : "unhealthy", replica.health_failure);
    else if (!replica.model_failure.empty())
      add(replica.models_status == 0 ? "unreachable" : "model_unknown", replica.model_failure);
    else if (!replica.telemetry_failure.empty())
      add("metrics_unavailable", replica.telemetry_failure);
  }
  if (problems != problems_) dispatcher_.set_problems(problems_ = std::move(problems));
}

void HealthChecker::update_models_complete() {
  const core::Instant now = loop_.now();
  const bool complete = list_complete_ || now - started_at_ >= kModelsTime;
  dispatcher_.set_models_complete(complete && std::all_of(replicas_.begin(), replicas_.end(), [&](const auto& entry) {
                                    const Replica& replica = entry.second;
                                    // A replica that warms up or drains gets no requests.
                                    return replica.models_read ||
                                           replica.endpoint.phase != dispatch::ReplicaPhase::kServing ||
                                           now - replica.listed_at >= kModelsTime;
                                  }));
}

// ---- counts of prompts ----------------------------------------------------------------------------------------------

bool HealthChecker::may_count(const Replica& replica, std::string_view model) {
  const ReplicaEndpoint& endpoint = replica.endpoint;
  const bool serves = endpoint.model == model || std::any_of(endpoint.also.begin(), endpoint.also.end(),
                                                             [&](const auto& also) { return also.name == model; });
  return serves && replica.counts_prompts && replica.is_healthy() && replica.has_address() &&
         replica.counts_in_flight < kCountsMax;
}

void HealthChecker::update_counted_models() {
  std::set<std::string, std::less<>> models;
  for (const auto& [id, replica] : replicas_) {
    if (!replica.counts_prompts || !replica.is_healthy() || replica.endpoint.model.empty()) continue;
    models.insert(replica.endpoint.model);
    for (const dispatch::ServedModel& also : replica.endpoint.also) models.insert(also.name);
  }
  dispatcher_.set_counted_models(std::move(models));
}

void HealthChecker::count_prompt(std::string_view model, std::string body,
                                 std::function<void(std::optional<std::uint32_t>)> done) {
  Replica* least_busy = nullptr;
  for (auto& [id, replica] : replicas_)
    if (may_count(replica, model) && (least_busy == nullptr || replica.counts_in_flight < least_busy->counts_in_flight))
      least_busy = &replica;
  if (least_busy == nullptr || body.empty()) return done(std::nullopt);
  ++least_busy->counts_in_flight;
  send(*least_busy, "/tokenize", std::move(body), kCountTime,
       [this, done = std::move(done)](Replica& replica, const Response& response) {
         if (replica.counts_in_flight > 0) --replica.counts_in_flight;
         if (response.status == 404 || response.status == 405) {
           replica.counts_prompts = false;
           update_counted_models();
         }
         done(response.status == 200 ? prompt_tokens_in(response.body) : std::nullopt);
       });
}

// ---- metrics --------------------------------------------------------------------------------------------------------

void HealthChecker::scrape() {
  for (auto& [id, replica] : replicas_) {
    const bool answers = replica.health != dispatch::ReplicaHealth::kUnhealthy || replica.asleep;
    const bool may = answers && replica.has_address() && loop_.now() >= replica.scrape_at;
    if (!may || std::exchange(replica.scrape_in_flight, true)) continue;
    send(replica, "/metrics", {}, kTimeout, [this](Replica& checked, const Response& response) {
      checked.scrape_in_flight = false;
      take_metrics(checked, response);
    });
  }
}

void HealthChecker::take_metrics(Replica& replica, const Response& response) {
  replica.scrape_pause = response.status == 404
                             ? std::min(std::max(replica.scrape_pause, options_.scrape_interval) * 2, kScrapePauseMax)
                             : core::Duration{};
  replica.scrape_at = loop_.now() + replica.scrape_pause;
  if (!response.failure.empty()) return report_telemetry(replica, response.failure);
  const auto parsed = telemetry::parse_exposition(response.body, replica.endpoint.id);
  if (!parsed) return report_telemetry(replica, parsed.error().message());
  if (const auto behind = telemetry::read_frontend_workers(*parsed)) set_workers(replica, *behind);
  const telemetry::EngineScrape scrape = telemetry::read_scrape(*parsed);
  set_asleep(replica, scrape.asleep.value_or(false));
  if (replica.take_prompt_tokens(scrape.prompt_tokens_total))
    dispatcher_.kv_event(replica.endpoint.id, dispatch::KvChange::kCleared, {});
  replica.queued_requests = scrape.queued_requests.value_or(0);
  if (!scrape.running_requests) return report_telemetry(replica, std::string{kNoMetrics});
  report_telemetry(replica, {});
  dispatcher_.report_load(replica.endpoint.id, load_of(scrape, loop_.now()));
}

// An engine in sleep mode answers health checks, and lets requests wait until it is woken up.
void HealthChecker::set_asleep(Replica& replica, bool asleep) {
  if (std::exchange(replica.asleep, asleep) == asleep) return;
  if (asleep) dispatcher_.kv_event(replica.endpoint.id, dispatch::KvChange::kCleared, {});
  update_health(replica);
  update_problems();
}

void HealthChecker::set_workers(Replica& replica, const telemetry::FrontendWorkers& behind) {
  if (replica.behind == behind) return;
  replica.behind = behind;
  describe_workers(replica);
  update_dispatcher();
}

// The configuration comes before what the replica reports.
void HealthChecker::describe_workers(Replica& replica) {
  ReplicaEndpoint& endpoint = replica.endpoint;
  endpoint.workers = endpoint.configured_workers;
  if (endpoint.workers == 0) endpoint.workers = replica.behind ? replica.behind->workers : 1;
  endpoint.kv_tokens = replica.configured_kv_tokens;
  if (endpoint.kv_tokens == 0 && replica.behind) endpoint.kv_tokens = replica.behind->kv_tokens.value_or(0);
}

void HealthChecker::report_telemetry(Replica& replica, const std::string& failure) {
  // One failure after an answer is no state: the next scrape may succeed.
  replica.telemetry_failures = failure.empty() ? 0 : replica.telemetry_failures + 1;
  if (replica.telemetry_failures == 1 && replica.has_telemetry) return;
  replica.has_telemetry = failure.empty();
  const bool was_reported = !std::exchange(replica.telemetry_failure, failure).empty();
  if (was_reported == !failure.empty()) return;
  update_problems();
  if (failure.empty())
    log_.write(logging::Event::kTelemetryAvailable, {{"replica", replica.endpoint.id}, {"url", replica.endpoint.url}});
  else
    log_.write(logging::Event::kTelemetryUnavailable,
               {{"replica", replica.endpoint.id}, {"url", replica.endpoint.url}, {"cause", failure}});
}

// ---- prompts of ours ------------------------------------------------------------------------------------------------

const CheckedReplica* HealthChecker::find(const std::string& id) const {
  const auto found = replicas_.find(id);
  return found == replicas_.end() ? nullptr : &found->second;
}

bool HealthChecker::send_prompt(const std::string& id, std::string_view path, std::string body) {
  const auto found = replicas_.find(id);
  if (found == replicas_.end()) return false;
  ++found->second.prompts_in_flight;
  send(found->second, std::string{path}, std::move(body), options_.dispatch.first_byte_timeout,
       [](Replica& checked, const Response&) {
         // A replica that was removed and added again in the meantime has none in flight.
         if (checked.prompts_in_flight > 0) --checked.prompts_in_flight;
       });
  return true;
}

}  // namespace penstock::gateway
