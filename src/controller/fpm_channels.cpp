#include "controller/fpm_channels.h"

#include <optional>
#include <utility>

#include "telemetry/event_envelope.h"

namespace penstock::controller {
namespace {

using Metrics = core::Result<telemetry::ForwardPassMetrics>;

Metrics decode_event(const core::Result<telemetry::EventEnvelope>& envelope) {
  if (!envelope) return tl::make_unexpected(envelope.error());
  return telemetry::decode_forward_pass(envelope->payload);
}

// Nothing: an event of another topic.
std::optional<Metrics> decode(const connect::SubscriberMessage& message) {
  if (message.malformed)
    return Metrics{core::invalid_input("forward pass metrics", "the message has frames of an unknown form")};
  if (!message.publisher) return telemetry::decode_forward_pass(message.payload);
  if (message.topic != telemetry::kForwardPassTopic) return std::nullopt;
  return decode_event(telemetry::decode_event_frame(message.payload));
}

// The same over NATS, where the envelope is the message.
std::optional<Metrics> decode(std::string_view payload) {
  const auto envelope = telemetry::decode_event_envelope(payload);
  if (envelope && envelope->topic != telemetry::kForwardPassTopic) return std::nullopt;
  return decode_event(envelope);
}

}  // namespace

FpmChannels::FpmChannels(net::Loop& loop, Listener listener, NatsServerOptions nats)
    : loop_(loop), listener_(std::move(listener)), nats_(std::move(nats)) {
  // Without a subscriber the scrapes remain as the source of telemetry.
  auto started = connect::Subscriber::start(
      {}, [this, alive = std::weak_ptr<int>{alive_}](const connect::SubscriberMessage& message) {
        auto metrics = decode(message);
        if (!metrics) return;
        loop_.post([this, alive, endpoint = std::string{message.endpoint}, metrics = *std::move(metrics)] {
          if (!alive.expired()) listener_.message(endpoint, metrics);
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
                                        if (const auto metrics = decode(payload))
                                          listener_.message(servers_.at(name).endpoints.at(subject), *metrics);
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
