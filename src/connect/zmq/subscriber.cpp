#include "connect/zmq/subscriber.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "connect/zmq/frames.h"

namespace penstock::connect {
namespace {

constexpr int kReconnectMs = 100;
constexpr int kReconnectMsMax = 5'000;
// A publisher's host that is gone without a word is noticed after a minute, also if nothing is sent.
constexpr int kKeepaliveIdleS = 30;
constexpr int kKeepaliveIntervalS = 10;
constexpr int kKeepaliveProbes = 3;
constexpr std::size_t kPublishersMax = 4'096;  // Of one endpoint; sequence numbers are forgotten beyond it.
constexpr std::size_t kReplayedMax = 100'000;  // Messages of one replay.
constexpr std::chrono::milliseconds kReplaySlice{50};
constexpr std::uint32_t kReplayPause = 10'000;  // Messages after a replay without answer until the next request.
constexpr int kBatch = 256;                     // Messages read from one endpoint before the next one is read.
constexpr std::size_t kReadyMax = 256;          // Endpoints of one wait.

// The socket of one endpoint, used only on the subscriber's thread.
struct Source {
  std::string endpoint;
  zmq::socket_t socket;
  std::map<std::optional<std::uint64_t>, std::uint64_t> last;  // Sequence numbers by publisher.
  std::string replay;                                          // Endpoint of earlier messages; empty: none.
  std::uint32_t replay_pause = 0;                              // Messages until it is requested again.
  bool is_pending = true;  // It may have messages that ZeroMQ does not announce again.
};

struct Replayed {
  std::uint64_t sequence = 0;
  std::string payload;
};

class ZmqSubscriber final : public Subscriber {
 public:
  ZmqSubscriber(SubscriberOptions options, Handler handler)
      : options_(std::move(options)), handler_(std::move(handler)) {}

  ~ZmqSubscriber() override {
    if (thread_.joinable()) {
      stopping_ = true;
      wake();
      thread_.join();
    }
    if (wake_ >= 0) ::close(wake_);
    if (epoll_ >= 0) ::close(epoll_);
  }
  ZmqSubscriber(const ZmqSubscriber&) = delete;
  ZmqSubscriber& operator=(const ZmqSubscriber&) = delete;

  core::Result<void> open() {
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{EPOLLIN, {nullptr}};
    if (wake_ < 0 || epoll_ < 0 || ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event) != 0)
      return core::environment_error("subscriber", "no descriptor is left to wake it by");
    try {
      context_.set(zmq::ctxopt::max_sockets, static_cast<int>(kEndpointsMax) + 16);
    } catch (const zmq::error_t& error) {
      return core::environment_error("subscriber", fmt::format("ZeroMQ does not start: {}", error.what()));
    }
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error& error) {
      return core::environment_error("subscriber", fmt::format("its thread does not start: {}", error.what()));
    }
    return {};
  }

  core::Result<void> add(const std::string& endpoint, const std::string& replay) override {
    const bool has_form = is_tcp_endpoint(endpoint);
    if (!has_form || (!replay.empty() && !is_tcp_endpoint(replay)))
      return core::invalid_input(has_form ? replay : endpoint, "is not a ZeroMQ endpoint",
                                 "use a form like tcp://127.0.0.1:5557");
    const std::lock_guard lock(mutex_);
    if (wanted_.size() >= kEndpointsMax && wanted_.count(endpoint) == 0)
      return core::invalid_input(endpoint, fmt::format("is one endpoint too many, of at most {}", kEndpointsMax));
    const auto [at, is_new] = wanted_.try_emplace(endpoint, replay);
    if (!is_new && at->second == replay) return {};
    at->second = replay;
    changed();
    return {};
  }

  void remove(const std::string& endpoint) override {
    const std::lock_guard lock(mutex_);
    if (wanted_.erase(endpoint) > 0) changed();
  }

  [[nodiscard]] SubscriberCounts counts() const override {
    return {received_.load(), malformed_.load(), lost_.load(), restarts_.load()};
  }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    // Fails only if the thread is already awake.
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  }
  void changed() {
    has_changed_ = true;
    wake();
  }

  void run() {
    while (!stopping_) {
      try {
        update_sources();
        wait_and_read();
      } catch (const zmq::error_t&) {
        // A signal or a lack of memory; the call is repeated.
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
      }
    }
    sources_.clear();
  }

  // Opens and closes sockets to match the requested endpoints. An endpoint whose connection fails is tried again with
  // the next change; add() has checked its form.
  void update_sources() {
    std::map<std::string, std::string> wanted;
    {
      const std::lock_guard lock(mutex_);
      if (!std::exchange(has_changed_, false)) return;
      wanted = wanted_;
    }
    pending_.clear();
    std::erase_if(sources_, [&](const auto& source) {
      if (wanted.count(source.first) != 0) return false;
      ::epoll_ctl(epoll_, EPOLL_CTL_DEL, source.second.socket.get(zmq::sockopt::fd), nullptr);
      return true;
    });
    for (const auto& [endpoint, replay] : wanted) {
      try {
        if (sources_.count(endpoint) == 0) add_source(endpoint);
      } catch (const zmq::error_t&) {
        continue;
      }
      if (const auto source = sources_.find(endpoint); source != sources_.end()) source->second.replay = replay;
    }
    for (auto& [endpoint, source] : sources_)
      if (source.is_pending) pending_.push_back(&source);
  }

  void add_source(const std::string& endpoint) {
    Source source = connected(endpoint);
    const int descriptor = source.socket.get(zmq::sockopt::fd);
    const auto added = sources_.emplace(endpoint, std::move(source)).first;
    epoll_event event{EPOLLIN, {&added->second}};
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) sources_.erase(added);
  }

  Source connected(const std::string& endpoint) {
    Source source{endpoint, zmq::socket_t(context_, zmq::socket_type::sub), {}, {}, 0};
    source.socket.set(zmq::sockopt::rcvhwm, options_.high_water_mark);
    source.socket.set(zmq::sockopt::maxmsgsize, options_.message_bytes_max);
    source.socket.set(zmq::sockopt::linger, 0);
    source.socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
    source.socket.set(zmq::sockopt::reconnect_ivl_max, kReconnectMsMax);
    source.socket.set(zmq::sockopt::tcp_keepalive, 1);
    source.socket.set(zmq::sockopt::tcp_keepalive_idle, kKeepaliveIdleS);
    source.socket.set(zmq::sockopt::tcp_keepalive_intvl, kKeepaliveIntervalS);
    source.socket.set(zmq::sockopt::tcp_keepalive_cnt, kKeepaliveProbes);
    source.socket.set(zmq::sockopt::subscribe, options_.topic);
    source.socket.set(zmq::sockopt::ipv6, has_ipv6_address(endpoint));
    source.socket.connect(endpoint);
    return source;
  }

  // A wait costs as much as there are sockets with messages; zmq::poll() visits every socket. The descriptor of a
  // socket becomes readable once a message arrives after the socket was found empty, so each one is read until it is.
  void wait_and_read() {
    const int count = ::epoll_wait(epoll_, ready_.data(), static_cast<int>(kReadyMax), pending_.empty() ? -1 : 0);
    for (int i = 0; i < count; ++i) {
      auto* source = static_cast<Source*>(ready_[static_cast<std::size_t>(i)].data.ptr);
      if (source == nullptr) {
        std::uint64_t wakes = 0;
        [[maybe_unused]] const ssize_t taken = ::read(wake_, &wakes, sizeof wakes);
      } else if (!std::exchange(source->is_pending, true)) {
        pending_.push_back(source);
      }
    }
    std::erase_if(pending_, [this](Source* source) {
      source->is_pending = read_some(*source);
      return !source->is_pending;
    });
  }

  // Returns whether there may be more.
  bool read_some(Source& source) {
    for (int i = 0; i < kBatch && !stopping_; ++i) {
      std::size_t frames = 0;
      bool more = true;
      while (more) {
        zmq::message_t frame;
        // A message arrives complete or not at all.
        if (!source.socket.recv(frame, zmq::recv_flags::dontwait)) return false;
        more = frame.more();
        if (frames < kFramesMax) parts_[frames] = frame.to_string();
        ++frames;
      }
      hand_on(source, frames);
    }
    return true;
  }

  void hand_on(Source& source, std::size_t frames) {
    SubscriberMessage message;
    message.endpoint = source.endpoint;
    const auto framed = read_frames({parts_.data(), std::min(frames, kFramesMax)});
    if (frames > kFramesMax || !framed) {
      ++malformed_;
      message.malformed = true;
      return handler_(message);
    }
    if (framed->sequence && !framed->publisher) replay_missing(source, framed->topic, *framed->sequence);
    deliver(source, *framed);
  }

  void deliver(Source& source, const Framed& framed, bool replayed = false) {
    SubscriberMessage message;
    message.endpoint = source.endpoint;
    message.topic = framed.topic;
    message.publisher = framed.publisher;
    message.sequence = framed.sequence;
    message.payload = framed.payload;
    message.replayed = replayed;
    if (framed.sequence) {
      if (source.last.size() > kPublishersMax) source.last.clear();
      const auto before = source.last.find(framed.publisher);
      const SequenceStep step =
          step_between(before == source.last.end() ? std::nullopt : std::optional{before->second}, *framed.sequence);
      message.lost = step.lost;
      message.restarted = step.restarted;
      source.last[framed.publisher] = *framed.sequence;
      lost_ += step.lost;
      restarts_ += step.restarted ? 1 : 0;
    }
    ++received_;
    handler_(message);
  }

  // Requests the messages before `next` that have not been received.
  void replay_missing(Source& source, std::string_view topic, std::uint64_t next) {
    if (source.replay_pause > 0) --source.replay_pause;
    if (source.replay.empty() || source.replay_pause > 0) return;
    const auto last = source.last.find(std::nullopt);
    const bool goes_on = last != source.last.end() && last->second < next;
    const std::uint64_t from = goes_on ? last->second + 1 : 0;
    if (from >= next) return;
    const std::vector<Replayed> replayed = request_replay(source.replay, from, next);
    if (replayed.empty()) source.replay_pause = kReplayPause;
    for (const Replayed& each : replayed) deliver(source, {topic, each.payload, std::nullopt, each.sequence}, true);
  }

  // Messages of the range [from, until) that the publisher still has, in order.
  std::vector<Replayed> request_replay(const std::string& endpoint, std::uint64_t from, std::uint64_t until) {
    std::vector<Replayed> all;
    zmq::socket_t socket(context_, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::maxmsgsize, options_.message_bytes_max);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::ipv6, has_ipv6_address(endpoint));
    socket.connect(endpoint);
    std::string start(8, '\0');
    for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<char>(from >> (8 * (7 - i)));
    socket.send(zmq::message_t{}, zmq::send_flags::sndmore);
    socket.send(zmq::buffer(start), zmq::send_flags::none);
    for (auto waited = std::chrono::milliseconds{0}; waited < kReplayWait && !stopping_ && all.size() < kReplayedMax;) {
      zmq::pollitem_t item{socket.handle(), 0, ZMQ_POLLIN, 0};
      if (zmq::poll(&item, 1, kReplaySlice) == 0) {
        waited += kReplaySlice;
        continue;
      }
      std::vector<std::string> frames;
      zmq::message_t frame;
      do {
        if (!socket.recv(frame, zmq::recv_flags::dontwait)) return all;
        frames.push_back(frame.to_string());
      } while (frame.more());
      // An empty frame, in vLLM also the topic, sequence and payload. The end has an empty payload.
      const std::size_t first = frames.size() > 2 && frames[0].empty() ? 1 : 0;
      const auto framed = read_frames(std::span{frames}.subspan(first));
      if (!framed || !framed->sequence || framed->payload.empty() || *framed->sequence >= until) return all;
      if (*framed->sequence < from) continue;
      from = *framed->sequence + 1;
      all.push_back({*framed->sequence, std::string{framed->payload}});
    }
    return all;
  }

  const SubscriberOptions options_;
  const Handler handler_;
  int wake_ = -1, epoll_ = -1;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> received_ = 0, malformed_ = 0, lost_ = 0, restarts_ = 0;

  mutable std::mutex mutex_;
  std::map<std::string, std::string> wanted_;  // Replay endpoints by endpoint.
  bool has_changed_ = false;

  zmq::context_t context_;
  std::map<std::string, Source> sources_;  // These members belong to the thread.
  std::array<epoll_event, kReadyMax> ready_{};
  std::vector<Source*> pending_;  // Of `sources_`.
  std::array<std::string, kFramesMax> parts_;
  std::thread thread_;
};

}  // namespace

core::Result<std::unique_ptr<Subscriber>> Subscriber::start(const SubscriberOptions& options, Handler handler) {
  auto subscriber = std::make_unique<ZmqSubscriber>(options, std::move(handler));
  if (const auto opened = subscriber->open(); !opened) return tl::make_unexpected(opened.error());
  return subscriber;
}

}  // namespace penstock::connect
