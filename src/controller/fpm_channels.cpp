#include "controller/fpm_channels.h"

#include <optional>
#include <utility>

#include "telemetry/event_envelope.h"

namespace penstock::controller {
namespace {

using Metrics = core::Result<telemetry::ForwardPassMetrics>;

// Nothing: an event of another topic.
std::optional<ChannelMessage> decode_event(const core::Result<telemetry::EventEnvelope>& envelope,
                                           std::string_view topic) {
  if (topic == telemetry::kKvEventsTopic || topic == telemetry::kKvMetricsTopic)
    return envelope ? telemetry::decode_worker_kv(*envelope)
                    : core::Result<telemetry::WorkerKvMessage>{tl::make_unexpected(envelope.error())};
  if (topic != telemetry::kForwardPassTopic) return std::nullopt;
  return envelope ? telemetry::decode_forward_pass(envelope->payload) : Metrics{tl::make_unexpected(envelope.error())};
}

std::optional<ChannelMessage> decode(const connect::SubscriberMessage& message) {
  if (message.malformed)
    return Metrics{core::invalid_input("forward pass metrics", "the message has frames of an unknown form")};
  if (!message.publisher) return telemetry::decode_forward_pass(message.payload);
  return decode_event(telemetry::decode_event_frame(message.payload), message.topic);
}

// The same over NATS, where the envelope is the message.
std::optional<ChannelMessage> decode(std::string_view payload) {
  const auto envelope = telemetry::decode_event_envelope(payload);
  return decode_event(envelope, envelope ? envelope->topic : telemetry::kForwardPassTopic);
}

}  // namespace

FpmChannels::FpmChannels(net::Loop& loop, Listener listener, NatsServerOptions nats)
    : loop_(loop), listener_(std::move(listener)), nats_(std::move(nats)) {
  // Without a subscriber the scrapes remain as the source of telemetry.
  auto started = connect::Subscriber::start(
      {}, [this, alive = std::weak_ptr<int>{alive_}](const connect::SubscriberMessage& message) {
        auto decoded = decode(message);
        if (!decoded) return;
        loop_.post([this, alive, endpoint = std::string{message.endpoint}, decoded = *std::move(decoded)] {
          if (!alive.expired()) listener_.message(endpoint, decoded);
        });
      });
  if (started) subscriber_ = *std::move(started);
}

FpmChannels::~FpmChannels() { subscriber_.reset(); }

core::Result<void> FpmChannels::add(const std::string& endpoint) {
  if (subscribed_.contains(endpoint)) return {};
  auto added = connect::is_nats_endpoint(endpoint) ? add_nats(endpoint)
               : subscriber_                       ? subscriber_->add(endpoint)
                                                   : core::Result<void>{};
  subscribed_.insert(endpoint);  // A refused one is reported once.
  return added;
}

void FpmChannels::keep_only(const std::set<std::string>& endpoints) {
  for (const std::string& endpoint : subscribed_) {
    if (endpoints.contains(endpoint)) continue;
    if (connect::is_nats_endpoint(endpoint))
      remove_nats(endpoint);
    else if (subscriber_)
      subscriber_->remove(endpoint);
  }
  std::erase_if(subscribed_, [&](const std::string& endpoint) { return !endpoints.contains(endpoint); });
}

core::Result<void> FpmChannels::add_nats(const std::string& endpoint) {
  const auto parsed = connect::parse_nats_endpoint(endpoint);
  if (!parsed) return tl::make_unexpected(parsed.error());
  if (parsed->subject.empty())
    return core::invalid_input(endpoint, "names no subject", "use a form like nats://127.0.0.1:4222/subject");
  const std::string name = parsed->server();
  NatsServer& server = servers_[name];
  if (!server.client) {
    connect::NatsOptions options;
    if (name == nats_.server) options.access = nats_.access;
    server.client = std::make_unique<connect::NatsClient>(
        loop_, *parsed,
        connect::NatsClient::Listener{[this, name](const std::string& subject, std::string_view payload) {
                                        if (const auto decoded = decode(payload))
                                          listener_.message(servers_.at(name).endpoints.at(subject), *decoded);
                                      },
                                      [this, name](const std::string& cause) { listener_.report(name, cause); }},
        std::move(options));
  }
  server.endpoints.emplace(parsed->subject, endpoint);
  return server.client->subscribe(parsed->subject);
}

void FpmChannels::remove_nats(const std::string& endpoint) {
  const auto parsed = connect::parse_nats_endpoint(endpoint);
  const auto server = parsed ? servers_.find(parsed->server()) : servers_.end();
  if (server == servers_.end()) return;
  server->second.client->unsubscribe(parsed->subject);
  server->second.endpoints.erase(parsed->subject);
  if (server->second.endpoints.empty()) servers_.erase(server);
}

}  // namespace penstock::controller
