#include "gateway/discovery.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <variant>

#include "connect/replicas_file.h"
#include "connect/zmq/subscriber.h"
#include "net/address.h"
#include "net/host_names.h"
#include "telemetry/kv_event.h"

namespace penstock::gateway {
namespace {

constexpr core::Duration kFileInterval = std::chrono::milliseconds{100};

dispatch::ReplicaPhase phase_of(connect::ReplicaTraffic state) {
  switch (state) {
    case connect::ReplicaTraffic::kWarming: return dispatch::ReplicaPhase::kWarming;
    case connect::ReplicaTraffic::kServing: return dispatch::ReplicaPhase::kServing;
    case connect::ReplicaTraffic::kDraining: return dispatch::ReplicaPhase::kDraining;
  }
  return dispatch::ReplicaPhase::kServing;
}

constexpr std::string_view kNotLookedUp = "the host name has not been looked up yet";

class Finder final : public Discovery {
 public:
  Finder(net::Loop& loop, DiscoveryOptions options, Gateway& gateway, logging::Log& log)
      : loop_(loop),
        options_(std::move(options)),
        gateway_(gateway),
        log_(log),
        host_names_(
            loop, options_.dns_interval, [this](const net::HostChange& change) { take_host(change); },
            options_.lookup) {}

  ~Finder() override {
    subscriber_.reset();
    loop_.cancel(timer_);
  }

  core::Result<void> begin() {
    auto credentials = load_credentials(options_);
    if (!credentials) return tl::make_unexpected(credentials.error());
    credentials_ = *std::move(credentials);
    if (!options_.dns.empty())
      if (auto name = parse_replicas_dns(options_.dns); !name) return tl::make_unexpected(name.error());
    auto named = name_replicas(options_.replicas);
    if (!named) return tl::make_unexpected(named.error());
    named_ = *std::move(named);
    auto started =
        connect::Subscriber::start({}, [this](const connect::SubscriberMessage& message) { take_kv_events(message); });
    if (!started) return tl::make_unexpected(started.error());
    subscriber_ = *std::move(started);
    auto files = open_files(options_.files);
    if (!files) return tl::make_unexpected(files.error());
    files_ = *std::move(files);
    timer_ = loop_.every(kFileInterval, [this] { check_files(); });
    if (auto begun = follow_pods(); !begun) return begun;
    publish();
    return {};
  }

  core::Result<std::function<void()>> prepare(const DiscoveryOptions& options) override {
    auto credentials = load_credentials(options);
    if (!credentials) return tl::make_unexpected(credentials.error());
    auto named = name_replicas(options.replicas);
    if (!named) return tl::make_unexpected(named.error());
    auto files = open_files(options.files);
    if (!files) return tl::make_unexpected(files.error());
    return [this, credentials = *std::move(credentials), named = *std::move(named), files = *std::move(files)] {
      credentials_ = credentials;
      named_ = named;
      files_ = files;
      publish();
    };
  }

 private:
  struct File {
    std::string path;
    std::filesystem::file_time_type time{};
    std::vector<ReplicaEndpoint> found;
  };

  // Files that are read already keep what was read last.
  core::Result<std::vector<File>> open_files(const std::vector<std::string>& paths) {
    std::vector<File> all;
    for (const std::string& path : paths) {
      const auto known =
          std::find_if(files_.begin(), files_.end(), [&](const File& file) { return file.path == path; });
      all.push_back(known == files_.end() ? File{path, {}, {}} : *known);
      // A planner that starts later may write a file that does not exist yet.
      if (known == files_.end() && std::filesystem::exists(path))
        if (auto read = read_file(all.back()); !read) return tl::make_unexpected(read.error());
    }
    return all;
  }

  static core::Result<std::vector<ReplicaEndpoint>> name_replicas(const std::vector<NamedReplica>& replicas) {
    std::vector<ReplicaEndpoint> all;
    for (const NamedReplica& replica : replicas) {
      if (const auto url = net::parse_url(replica.url); !url) return tl::make_unexpected(url.error());
      ReplicaEndpoint& found = all.emplace_back();
      found.id = found.url = replica.url;
      found.model = replica.model;
      found.pool = replica.pool;
      found.role = replica.role;
      found.weight = replica.weight;
      found.configured_workers = replica.workers;
      found.fpm = replica.fpm;
      found.kv_events = replica.kv_events;
      found.kv_events_replay = replica.kv_events_replay;
    }
    return all;
  }

  void check_files() {
    bool changed = false;
    for (File& file : files_) {
      std::error_code error;
      const auto written = std::filesystem::last_write_time(file.path, error);
      if (error || written == file.time) continue;
      auto read = read_file(file);
      changed = changed || read;
      if (read) {
        log_.write(logging::Event::kReplicasReloaded, {{"source", file.path}, {"replicas", file.found.size()}});
        continue;
      }
      file.time = written;
      log_.write(logging::Event::kReplicasReloadFailed, {{"source", file.path}, {"error", read.error().message()}});
    }
    if (changed) publish();
  }

  core::Result<void> read_file(File& file) {
    std::error_code error;
    const auto written = std::filesystem::last_write_time(file.path, error);
    auto entries = connect::load_replicas(file.path);
    if (!entries) return tl::make_unexpected(entries.error());
    std::vector<ReplicaEndpoint> all;
    for (connect::ReplicaEntry& entry : *entries) {
      if (const auto url = net::parse_url(entry.url); !url) return tl::make_unexpected(url.error());
      ReplicaEndpoint found;
      found.id = std::move(entry.id);
      found.url = std::move(entry.url);
      found.model = std::move(entry.model);
      found.pool = std::move(entry.pool);
      found.role = entry.role;
      found.phase = phase_of(entry.state);
      found.weight = entry.weight;
      found.kv_tokens = entry.kv_blocks.value_or(0) * entry.block_tokens.value_or(0);
      found.configured_workers = entry.workers.value_or(0);
      found.fpm = std::move(entry.fpm);
      found.kv_events = std::move(entry.kv_events);
      found.kv_events_replay = std::move(entry.kv_events_replay);
      all.push_back(std::move(found));
    }
    file.time = written;
    file.found = std::move(all);
    return {};
  }

  core::Result<void> follow_pods() {
    if (!options_.pods.follows_any()) return {};
    const PodOptions& pods = options_.pods;
    const std::string source = !pods.inference_pool.empty() ? "InferencePool " + pods.inference_pool
                               : pods.service.empty()       ? "pods " + pods.selector
                                                            : "service " + pods.service;
    auto started = PodSource::start(
        loop_, options_.pods,
        {[this, source](std::vector<ReplicaEndpoint> found) {
           if (!pods_read_ || found.size() != from_pods_.size())
             log_.write(logging::Event::kReplicasReloaded, {{"source", source}, {"replicas", found.size()}});
           from_pods_ = std::move(found);
           pods_read_ = true;
           publish();
         },
         [this, source](const std::string& error) {
           log_.write(logging::Event::kReplicasReloadFailed, {{"source", source}, {"error", error}});
         }});
    if (!started) return tl::make_unexpected(started.error());
    pods_ = *std::move(started);
    return {};
  }

  // A failure is logged once, until the name is resolved again.
  void report_dns(const std::string& error) {
    if (error == dns_error_) return;
    dns_error_ = error;
    if (!error.empty()) log_.write(logging::Event::kReplicasReloadFailed, {{"source", options_.dns}, {"error", error}});
  }

  // Each address of the name is a replica.
  std::vector<ReplicaEndpoint> replicas_of_dns() {
    std::vector<ReplicaEndpoint> all;
    if (options_.dns.empty()) return all;
    const auto url = parse_replicas_dns(options_.dns);
    PENSTOCK_ASSERT(url.has_value(), "the name is checked at the start");
    const net::HostNames::Entry& entry = host_names_.follow({url->host, url->port});
    report_dns(entry.failure);
    for (const net::Address& address : entry.addresses) {
      ReplicaEndpoint& found = all.emplace_back();
      found.id = found.url = "http://" + address.text();
      found.pool = "default";
    }
    if (all.size() != std::exchange(dns_replicas_, all.size()))
      log_.write(logging::Event::kReplicasReloaded, {{"source", options_.dns}, {"replicas", all.size()}});
    return all;
  }

  void take_host(const net::HostChange& change) {
    if (!change.failure.empty())
      log_.write(logging::Event::kHostUnresolved, {{"host", change.host}, {"cause", change.failure}});
    if (!change.addresses.empty())
      log_.write(logging::Event::kHostResolved, {{"host", change.host}, {"addresses", change.addresses}});
    publish();
  }

  void locate(ReplicaEndpoint& replica) {
    const auto url = net::parse_url(replica.url);
    PENSTOCK_ASSERT(url.has_value(), "URLs are checked when they are read");
    if (const auto numeric = net::Address::parse(url->host, url->port)) return void(replica.addresses = {*numeric});
    const net::HostNames::Entry& entry = host_names_.follow({url->host, url->port});
    replica.addresses = entry.addresses;
    if (replica.addresses.empty()) replica.unresolved = entry.looked_up ? entry.failure : std::string{kNotLookedUp};
  }

  void publish() {
    std::vector<ReplicaEndpoint> specs;
    std::map<std::string, std::string> events, replays;
    std::set<std::string> ids, urls;
    const auto add = [&](const std::vector<ReplicaEndpoint>& part) {
      for (const ReplicaEndpoint& found : part) {
        // The load of a replica that is listed twice would be counted twice.
        if (ids.contains(found.id) || !urls.insert(found.url).second) {
          log_.write(logging::Event::kReplicaDuplicate, {{"replica", found.id}, {"url", found.url}});
          continue;
        }
        ids.insert(found.id);
        specs.push_back(found);
        specs.back().credentials = credentials_.of(found.url);
        if (found.addresses.empty()) locate(specs.back());
        if (found.kv_events.empty()) continue;
        events.emplace(found.kv_events, found.id);
        replays.emplace(found.kv_events, found.kv_events_replay);
      }
    };
    add(named_);
    for (const File& file : files_) add(file.found);
    add(replicas_of_dns());
    add(from_pods_);
    host_names_.end_list();
    for (const auto& [endpoint, id] : events)
      if (auto added = subscriber_->add(endpoint, replays[endpoint]); !added)
        log_.write(logging::Event::kKvEventsUnavailable, {{"endpoint", endpoint}, {"error", added.error().message()}});
    {
      const std::scoped_lock lock{mutex_};
      for (const auto& [endpoint, id] : by_endpoint_)
        if (!events.contains(endpoint)) subscriber_->remove(endpoint);
      by_endpoint_ = std::move(events);
    }
    const bool complete =
        (options_.dns.empty() || dns_replicas_ > 0) && (!options_.pods.follows_any() || pods_read_) &&
        std::all_of(files_.begin(), files_.end(), [](const File& file) { return file.time != File{}.time; });
    gateway_.set_replicas(std::move(specs), complete);
  }

  // On the subscriber's thread.
  void take_kv_events(const connect::SubscriberMessage& message) {
    std::string id;
    {
      const std::scoped_lock lock{mutex_};
      const auto known = by_endpoint_.find(std::string{message.endpoint});
      if (known == by_endpoint_.end()) return;
      id = known->second;
    }
    using Batch = core::Result<telemetry::KvEventBatch>;
    const Batch batch = message.malformed
                            ? Batch{core::invalid_input("KV events", "the message has frames of an unknown form")}
                            : telemetry::decode_batch(message.payload);
    gateway_.count_kv_messages(id, {batch ? 1U : 0U, batch ? 0U : 1U, message.lost, message.replayed ? 1U : 0U});
    using Change = dispatch::KvChange;
    // Missed events may have removed anything: the index forgets the replica rather than hold stale entries.
    if (message.restarted)
      gateway_.kv_event(id, Change::kCleared, {});
    else if (message.lost > 0 || !batch)
      gateway_.kv_event(id, Change::kLost, {});
    if (!batch) return report_rejection(id, message.endpoint, batch.error().message());
    for (const telemetry::KvEvent& event : batch->events) {
      if (const auto* stored = std::get_if<telemetry::BlockStored>(&event))
        gateway_.kv_event(id, Change::kStored, stored->block_hashes);
      else if (const auto* removed = std::get_if<telemetry::BlockRemoved>(&event))
        gateway_.kv_event(id, Change::kRemoved, removed->block_hashes);
      else
        gateway_.kv_event(id, Change::kCleared, {});
    }
  }

  // Once for each replica. On the subscriber's thread.
  void report_rejection(const std::string& id, std::string_view endpoint, const std::string& cause) {
    if (!rejected_.insert(id).second) return;
    log_.write(logging::Event::kKvEventsRejected, {{"replica", id}, {"endpoint", endpoint}, {"cause", cause}});
  }

  net::Loop& loop_;
  const DiscoveryOptions options_;
  Gateway& gateway_;
  logging::Log& log_;
  net::CredentialStore credentials_;
  net::HostNames host_names_;
  std::vector<ReplicaEndpoint> named_, from_pods_;
  std::size_t dns_replicas_ = 0;  // Addresses of the name; 0 before it was resolved.
  bool pods_read_ = false;        // The pods were listed once.
  std::string dns_error_;         // Error of the last look-up; empty if it succeeded.
  std::vector<File> files_;
  net::Loop::Timer timer_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::string> by_endpoint_;
  std::set<std::string> rejected_;  // Replicas whose messages were rejected. Belongs to the subscriber's thread.
  std::unique_ptr<connect::Subscriber> subscriber_;
  std::unique_ptr<PodSource> pods_;
};

}  // namespace

core::Result<net::CredentialStore> load_credentials(const DiscoveryOptions& options) {
  std::vector<net::CredentialStore::Server> servers;
  for (const NamedReplica& replica : options.replicas) servers.push_back({replica.url, replica.credentials});
  auto store = net::CredentialStore::load(options.credentials, servers);
  if (!store) {
    std::string& where = store.error().where;
    const auto named = std::find_if(options.replicas.begin(), options.replicas.end(),
                                    [&](const NamedReplica& replica) { return replica.url == where; });
    where = where.empty() ? "gateway.credentials"
                          : "gateway.replicas[" + std::to_string(named - options.replicas.begin()) + "]";
  }
  return store;
}

core::Result<net::Url> parse_replicas_dns(const std::string& name) {
  const char* const where = "gateway.replicas_dns";
  auto url = net::parse_url(name);
  if (!url) return core::invalid_input(where, url.error().message());
  if (url->tls || !url->path.empty())
    return core::invalid_input(where, "\"" + name + "\" is not a name and a port",
                               "write name:port, or list replicas with https or a path in gateway.replicas");
  return url;
}

core::Result<std::unique_ptr<Discovery>> Discovery::start(net::Loop& loop, DiscoveryOptions options, Gateway& gateway,
                                                          logging::Log& log) {
  auto finder = std::make_unique<Finder>(loop, std::move(options), gateway, log);
  if (auto begun = finder->begin(); !begun) return tl::make_unexpected(begun.error());
  return finder;
}

}  // namespace penstock::gateway
