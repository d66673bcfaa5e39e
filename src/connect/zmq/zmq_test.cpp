// Publisher and subscriber together, over the loopback.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "connect/zmq/publisher.h"
#include "connect/zmq/subscriber.h"

namespace penstock::connect {
namespace {

constexpr std::chrono::seconds kTimeout{60};

struct Received {
  std::string endpoint, topic, payload;
  std::optional<std::uint64_t> sequence;
  std::uint64_t lost;
  bool restarted, replayed;
};

class Inbox {
 public:
  Subscriber::Handler handler() {
    return [this](const SubscriberMessage& message) {
      if (message.malformed) return;
      const std::lock_guard lock(mutex_);
      messages_.push_back({std::string(message.endpoint), std::string(message.topic), std::string(message.payload),
                           message.sequence, message.lost, message.restarted, message.replayed});
      arrived_.notify_all();
    };
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return messages_.size();
  }
  std::vector<Received> all() {
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  template <class Condition>
  bool wait(Condition condition, std::chrono::milliseconds timeout = kTimeout) {
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, timeout, [&] { return condition(messages_); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Received> messages_;
};

std::unique_ptr<Publisher> publisher(std::uint16_t port = 0, const std::string& address = "127.0.0.1") {
  PublisherOptions options;
  options.address = address;
  options.port = port;
  auto bound = Publisher::bind(options);
  EXPECT_TRUE(bound) << bound.error().message();
  return std::move(*bound);
}

std::unique_ptr<Subscriber> subscriber(Inbox& inbox, const SubscriberOptions& options = {}) {
  auto started = Subscriber::start(options, inbox.handler());
  EXPECT_TRUE(started) << started.error().message();
  return std::move(*started);
}

bool has_from(const std::vector<Received>& messages, const std::string& endpoint) {
  for (const Received& one : messages)
    if (one.endpoint == endpoint) return true;
  return false;
}

// A subscriber that has just come misses what was sent before; so send until something arrives.
void join(Publisher& from, Inbox& inbox) {
  for (auto left = kTimeout * 10; left.count() > 0; --left) {
    ASSERT_TRUE(from.send("", "hello"));
    const auto here = [&](const auto& messages) { return has_from(messages, from.endpoint()); };
    if (inbox.wait(here, std::chrono::milliseconds{100})) return;
  }
  FAIL() << "nothing arrived from " << from.endpoint();
}

TEST(Zmq, CarriesMessagesInOrderWithTheirSequence) {
  const auto from = publisher();
  EXPECT_EQ(from->endpoint(), "tcp://127.0.0.1:" + std::to_string(from->port()));
  Inbox inbox;
  const auto to = subscriber(inbox);
  ASSERT_TRUE(to->add(from->endpoint()));
  join(*from, inbox);
  const std::size_t count = 2000;
  for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(from->send("topic", std::to_string(i)));
  ASSERT_TRUE(inbox.wait([&](const auto& messages) { return messages.back().payload == std::to_string(count - 1); }));
  const auto messages = inbox.all();
  for (std::size_t i = 1; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].sequence.value(), messages[i - 1].sequence.value() + 1);
    EXPECT_EQ(messages[i].lost, 0U);
    EXPECT_FALSE(messages[i].restarted);
  }
  EXPECT_EQ(messages.back().topic, "topic");
  EXPECT_EQ(from->dropped(), 0U);
  EXPECT_EQ(from->sent(), messages.back().sequence.value() + 1);
  EXPECT_EQ(to->counts().received, messages.size());
  EXPECT_EQ(to->counts().lost, 0U);
}

TEST(Zmq, CarriesMessagesOfAnIpv6Address) {
  const auto from = publisher(0, "::1");
  const std::string port = std::to_string(from->port());
  EXPECT_EQ(from->endpoint(), "tcp://[::1]:" + port);
  Inbox inbox;
  const auto to = subscriber(inbox);
  ASSERT_TRUE(to->add(from->endpoint()));
  join(*from, inbox);
}

TEST(Zmq, TellsManyEndpointsApartAndForgetsRemovedOnes) {
  std::vector<std::unique_ptr<Publisher>> engines;
  Inbox inbox;
  const auto to = subscriber(inbox);
  for (int i = 0; i < 20; ++i) {
    engines.push_back(publisher());
    ASSERT_TRUE(to->add(engines.back()->endpoint()));
    ASSERT_TRUE(to->add(engines.back()->endpoint()));  // once more changes nothing
  }
  for (const auto& engine : engines) join(*engine, inbox);
  const std::string gone = engines[3]->endpoint();
  to->remove(gone);
  to->remove("tcp://127.0.0.1:1");  // never was there
  // Messages in flight may still arrive; then no more come from the removed endpoint, while the others continue.
  std::uint64_t before = 0, after = 1;
  for (int round = 0; round < 600 && before != after; ++round) {
    const auto count = [&] {
      std::uint64_t messages = 0;
      for (const Received& one : inbox.all()) messages += one.endpoint == gone ? 1 : 0;
      return messages;
    };
    before = count();
    ASSERT_TRUE(engines[3]->send("", "late"));
    const std::size_t known = inbox.size();
    ASSERT_TRUE(engines[4]->send("", "on"));
    // Those of joins may still come behind it.
    ASSERT_TRUE(inbox.wait([&](const auto& messages) {
      return std::any_of(messages.begin() + known, messages.end(), [&](const Received& one) {
        return one.endpoint == engines[4]->endpoint() && one.payload == "on";
      });
    }));
    after = count();
  }
  EXPECT_EQ(before, after);
}

TEST(Zmq, ReconnectsToARestartedPublisher) {
  auto from = publisher();
  const std::uint16_t port = from->port();
  Inbox inbox;
  const auto to = subscriber(inbox);
  ASSERT_TRUE(to->add(from->endpoint()));
  join(*from, inbox);
  ASSERT_TRUE(from->send("", "more"));
  ASSERT_TRUE(inbox.wait([](const auto& messages) { return messages.back().payload == "more"; }));
  const std::uint64_t last = inbox.all().back().sequence.value();
  from.reset();
  from = publisher(port);
  const auto anew = [](const auto& messages) { return messages.back().payload == "anew"; };
  for (int i = 0; i < 600 && !inbox.wait(anew, std::chrono::milliseconds{100}); ++i)
    ASSERT_TRUE(from->send("", "anew"));
  ASSERT_TRUE(inbox.wait(anew));
  // The subscriber may have missed so many that the numbers went on without going back.
  for (const Received& one : inbox.all())
    if (one.payload == "anew") {
      EXPECT_EQ(one.restarted, one.sequence.value() <= last);
      break;
    }
}

// Ends of connections to a local port, on the side that connected.
std::vector<int> connections_to(std::uint16_t port) {
  std::vector<int> found;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.sin_family == AF_INET &&
        ntohs(peer.sin_port) == port)
      found.push_back(descriptor);
  }
  return found;
}

int tcp_option(int descriptor, int level, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  EXPECT_EQ(::getsockopt(descriptor, level, option, &value, &size), 0);
  return value;
}

// The host of a publisher may vanish without closing its connections, and return at the same address.
TEST(Zmq, ProbesAnIdleConnection) {
  const auto from = publisher();
  Inbox inbox;
  const auto to = subscriber(inbox);
  ASSERT_TRUE(to->add(from->endpoint()));
  join(*from, inbox);
  const std::vector<int> connections = connections_to(from->port());
  ASSERT_EQ(connections.size(), 1U);
  EXPECT_EQ(tcp_option(connections[0], SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(tcp_option(connections[0], IPPROTO_TCP, TCP_KEEPIDLE), 30);
  EXPECT_EQ(tcp_option(connections[0], IPPROTO_TCP, TCP_KEEPINTVL), 10);
  EXPECT_EQ(tcp_option(connections[0], IPPROTO_TCP, TCP_KEEPCNT), 3);
}

TEST(Zmq, WaitsForAPublisherThatIsNotThereYet) {
  auto from = publisher();
  const std::uint16_t port = from->port();
  const std::string endpoint = from->endpoint();
  from.reset();
  Inbox inbox;
  const auto to = subscriber(inbox);
  ASSERT_TRUE(to->add(endpoint));
  from = publisher(port);
  join(*from, inbox);
}

TEST(Zmq, ReadsOtherFramesAndCountsWhatItCannotRead) {
  zmq::context_t context;
  zmq::socket_t raw(context, zmq::socket_type::pub);
  raw.bind("tcp://127.0.0.1:*");
  const std::string endpoint = raw.get(zmq::sockopt::last_endpoint);
  Inbox inbox;
  const auto to = subscriber(inbox);
  ASSERT_TRUE(to->add(endpoint));
  const auto send = [&](const std::vector<std::string>& frames) {
    for (std::size_t i = 0; i < frames.size(); ++i)
      raw.send(zmq::buffer(frames[i]), i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  };
  for (int i = 0; i < 600 && inbox.size() == 0; ++i) {
    send({"hello"});
    inbox.wait([](const auto& messages) { return !messages.empty(); }, std::chrono::milliseconds{100});
  }
  send({"topic", "two frames"});
  send({"a", "b", "no sequence"});
  send({"a", "b", "c", "too many"});
  send({std::string(7, '\0') + '\x05', "numbered"});
  send({std::string(7, '\0') + '\x09', "after a gap"});
  ASSERT_TRUE(inbox.wait([](const auto& messages) { return messages.back().payload == "after a gap"; }));
  const auto messages = inbox.all();
  EXPECT_EQ(messages[0].payload, "hello");
  EXPECT_FALSE(messages[0].sequence);
  EXPECT_EQ(messages[messages.size() - 3].topic, "topic");
  EXPECT_EQ(messages[messages.size() - 2].sequence, 5U);
  EXPECT_EQ(messages.back().lost, 3U);
  EXPECT_EQ(to->counts().malformed, 2U);
  EXPECT_EQ(to->counts().lost, 3U);
}

TEST(Zmq, ReceivesOnlyItsTopic) {
  const auto from = publisher();
  Inbox inbox;
  SubscriberOptions options;
  options.topic = "kv";
  const auto to = subscriber(inbox, options);
  ASSERT_TRUE(to->add(from->endpoint()));
  for (int i = 0; i < 600 && inbox.size() == 0; ++i) {
    from->send("other", "x");
    from->send("kv-events", "y");
    inbox.wait([](const auto& messages) { return !messages.empty(); }, std::chrono::milliseconds{100});
  }
  ASSERT_GT(inbox.size(), 0U);
  for (const Received& one : inbox.all()) EXPECT_EQ(one.topic, "kv-events");
}

TEST(Zmq, AddsAndRemovesFromItsOwnHandler) {
  const auto first = publisher(), second = publisher();
  Inbox inbox;
  const auto keep = inbox.handler();
  Subscriber* self = nullptr;
  std::mutex mutex;
  auto started = Subscriber::start({}, [&](const SubscriberMessage& message) {
    keep(message);
    const std::lock_guard lock(mutex);
    if (self == nullptr || message.endpoint != first->endpoint()) return;
    EXPECT_TRUE(self->add(second->endpoint()));
    self->remove(std::string(message.endpoint));
  });
  ASSERT_TRUE(started);
  {
    const std::lock_guard lock(mutex);
    self = started->get();
  }
  ASSERT_TRUE(self->add(first->endpoint()));
  join(*first, inbox);
  join(*second, inbox);
}

TEST(Zmq, NeverBlocksOnASubscriberThatDoesNotRead) {
  PublisherOptions options;
  options.high_water_mark = 10;
  auto from = std::move(*Publisher::bind(options));
  zmq::context_t context;
  zmq::socket_t idle(context, zmq::socket_type::sub);
  idle.set(zmq::sockopt::rcvhwm, 1);
  idle.set(zmq::sockopt::subscribe, "");
  idle.connect(from->endpoint());
  zmq::message_t frame;
  while (!idle.recv(frame, zmq::recv_flags::dontwait)) ASSERT_TRUE(from->send("", "hello"));
  const std::string large(100'000, 'x');
  for (int i = 0; i < 2000; ++i) from->send("", large);
  EXPECT_GE(from->sent() + from->dropped(), 2000U);
}

TEST(Zmq, ReportsInvalidEndpoints) {
  const auto taken = publisher();
  PublisherOptions options;
  options.port = taken->port();
  const auto again = Publisher::bind(options);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, core::ErrorCode::kEnvironment);
  EXPECT_NE(again.error().message().find("cannot be bound"), std::string::npos) << again.error().message();
  options.address = "203.0.113.7";
  EXPECT_FALSE(Publisher::bind(options));
  Inbox inbox;
  const auto to = subscriber(inbox);
  const auto added = to->add("localhost:5557");
  ASSERT_FALSE(added);
  EXPECT_NE(added.error().message().find("localhost:5557"), std::string::npos);
}

// A ROUTER socket that sends the messages [0, kept) again, as vLLM does, on a thread of its own.
class ReplayServer {
 public:
  ReplayServer(std::uint64_t kept_before, bool with_topic) : kept(kept_before), with_topic_(with_topic) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.bind("tcp://127.0.0.1:*");
    endpoint = socket_.get(zmq::sockopt::last_endpoint);
    thread_ = std::thread{[this] { run(); }};
  }
  ~ReplayServer() {
    stopping_ = true;
    thread_.join();
  }
  static std::string sequence(std::uint64_t number) {
    std::string bytes(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (8 * (7 - i)));
    return bytes;
  }

  std::string endpoint;
  std::atomic<int> requests{0};
  std::atomic<std::uint64_t> asked_from{0}, kept;

 private:
  void run() {
    while (!stopping_) {
      zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
      if (zmq::poll(&item, 1, std::chrono::milliseconds{20}) == 0) continue;
      std::vector<std::string> frames;
      zmq::message_t frame;
      do {
        if (!socket_.recv(frame)) return;
        frames.push_back(frame.to_string());
      } while (frame.more());
      std::uint64_t from = 0;
      for (const char byte : frames.back()) from = from << 8 | static_cast<std::uint8_t>(byte);
      asked_from = from;
      ++requests;
      for (std::uint64_t number = from; number < std::min<std::uint64_t>(kept, from + 1000); ++number)
        answer(frames[0], sequence(number), "replayed " + std::to_string(number));
      answer(frames[0], std::string(8, '\xff'), "");
    }
  }
  void answer(const std::string& client, const std::string& number, const std::string& payload) {
    std::vector<std::string> parts{client, ""};
    if (with_topic_) parts.emplace_back("");
    parts.push_back(number);
    parts.push_back(payload);
    for (std::size_t i = 0; i < parts.size(); ++i)
      socket_.send(zmq::buffer(parts[i]), i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }

  bool with_topic_;
  zmq::context_t context_;
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class ReplayTest : public ::testing::TestWithParam<bool> {
 protected:
  ReplayTest() {
    socket.set(zmq::sockopt::linger, 0);
    socket.bind("tcp://127.0.0.1:*");
  }
  void send(std::uint64_t number) {
    socket.send(zmq::str_buffer("topic"), zmq::send_flags::sndmore);
    socket.send(zmq::buffer(ReplayServer::sequence(number)), zmq::send_flags::sndmore);
    socket.send(zmq::buffer("live " + std::to_string(number)), zmq::send_flags::none);
  }
  // A subscription takes effect some time after it was requested. Returns the last number.
  std::uint64_t send_until_received() {
    std::uint64_t number = 3;
    send(number);
    while (!inbox.wait([](const auto& messages) { return !messages.empty(); }, std::chrono::milliseconds{20}))
      send(++number);
    wait_for(number);
    return number;
  }
  void wait_for(std::uint64_t number) {
    ASSERT_TRUE(inbox.wait([payload = "live " + std::to_string(number)](const auto& messages) {
      return messages.back().payload == payload;
    }));
  }

  zmq::context_t context;
  zmq::socket_t socket{context, zmq::socket_type::pub};
  Inbox inbox;
};

TEST_P(ReplayTest, MessagesMissingInAGapAreRequestedAgain) {
  ReplayServer server{1'000'000, GetParam()};
  auto to = *Subscriber::start({}, inbox.handler());
  ASSERT_TRUE(to->add(socket.get(zmq::sockopt::last_endpoint), server.endpoint));
  const std::uint64_t last = send_until_received();
  send(last + 6);
  wait_for(last + 6);
  EXPECT_EQ(server.asked_from, last + 1);
  const std::vector<Received> messages = inbox.all();
  ASSERT_EQ(messages.size(), last + 7);
  for (std::size_t i = 0; i < messages.size(); ++i) EXPECT_EQ(messages[i].sequence, i);
  EXPECT_EQ(messages[last + 1].payload, "replayed " + std::to_string(last + 1));
  EXPECT_TRUE(messages[last + 1].replayed);
  EXPECT_FALSE(messages[last + 6].replayed);
  EXPECT_EQ(to->counts().lost, 0U);
}

TEST_P(ReplayTest, WhatIsNotReplayedIsLost) {
  ReplayServer server{0, GetParam()};
  auto to = *Subscriber::start({}, inbox.handler());
  ASSERT_TRUE(to->add(socket.get(zmq::sockopt::last_endpoint)));
  const std::uint64_t last = send_until_received();
  ASSERT_TRUE(to->add(socket.get(zmq::sockopt::last_endpoint), server.endpoint));
  server.kept = last + 4;
  // The endpoint takes effect some time after it was given.
  std::uint64_t number = last;
  while (server.requests == 0) {
    send(number += 2);
    wait_for(number);
  }
  const std::uint64_t lost = to->counts().lost;
  EXPECT_EQ(lost + inbox.all().size(), number - inbox.all().front().sequence.value() + 1);
}

TEST_P(ReplayTest, AServerThatDoesNotAnswerCostsOneWait) {
  auto to = *Subscriber::start({}, inbox.handler());
  ASSERT_TRUE(to->add(socket.get(zmq::sockopt::last_endpoint), "tcp://127.0.0.1:1"));
  const std::uint64_t last = send_until_received();
  for (const std::uint64_t step : {2, 4, 6}) send(last + step);
  wait_for(last + 6);
  EXPECT_EQ(to->counts().lost, 3U);
}

INSTANTIATE_TEST_SUITE_P(Zmq, ReplayTest, testing::Bool(),
                         [](const auto& with) { return with.param ? "WithTopic" : "WithoutTopic"; });

}  // namespace
}  // namespace penstock::connect
