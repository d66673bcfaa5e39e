#include "net/takeover.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace penstock::net {
namespace {

constexpr char kYes = 'y', kNo = 'n', kListening = 'l';
constexpr time_t kAnswerSeconds = 2;

struct Name {
  sockaddr_un address{};
  socklen_t length = 0;
};

// A name that starts with NUL is in no file system, and ends with the process.
Name abstract_name(const std::string& name) {
  Name made;
  made.address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof made.address.sun_path - 1);
  std::copy_n(name.begin(), size, made.address.sun_path + 1);
  made.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return made;
}

const sockaddr* system(const Name& name) { return reinterpret_cast<const sockaddr*>(&name.address); }

bool is_same_user(int descriptor) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == ::geteuid();
}

bool send_word(int descriptor, char word) { return ::send(descriptor, &word, 1, MSG_NOSIGNAL) == 1; }

}  // namespace

struct TakeoverOffer::State final : Watcher {
  // The connection of the process that takes over.
  struct Successor final : Watcher {
    explicit Successor(State& owner) : offer(owner) {}
    void on_ready(std::uint32_t) override { offer.receive(); }
    State& offer;
  };

  State(Loop& event_loop, std::string text, Allows may, std::function<void()> done)
      : loop{event_loop}, name{std::move(text)}, allows{std::move(may)}, on_successor{std::move(done)} {
    open();
  }
  ~State() {
    close_listening();
    close_successor();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void open() {
    const Name address = abstract_name(name);
    listening = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listening >= 0 && ::bind(listening, system(address), address.length) == 0 && ::listen(listening, 8) == 0)
      return loop.watch(listening, EPOLLIN, *this);
    if (listening >= 0) ::close(std::exchange(listening, -1));
  }

  void on_ready(std::uint32_t) override {
    const int descriptor = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0) return;
    if (connected >= 0 || !is_same_user(descriptor)) {
      ::close(descriptor);
      return;
    }
    connected = descriptor;
    loop.watch(connected, EPOLLIN, successor);
  }

  void receive() {
    char word = 0;
    const ssize_t size = ::recv(connected, &word, 1, 0);
    if (size == 1 && word == kListening && granted) {
      close_successor();
      if (const auto done = std::exchange(on_successor, nullptr)) done();
      return;
    }
    const bool asks = size == 1 && (word == static_cast<char>(Condition::kIfDraining) ||
                                    word == static_cast<char>(Condition::kAlways));
    if (asks && !granted) {
      granted = allows(static_cast<Condition>(word));
      // The next process offers the name itself.
      if (granted) close_listening();
      if (send_word(connected, granted ? kYes : kNo) && granted) return;
    }
    // The other process has ended, or was refused.
    close_successor();
    if (listening < 0) open();
  }

  void close_listening() {
    if (listening < 0) return;
    loop.unwatch(listening, *this);
    ::close(std::exchange(listening, -1));
  }

  void close_successor() {
    granted = false;
    if (connected < 0) return;
    loop.unwatch(connected, successor);
    ::close(std::exchange(connected, -1));
  }

  Loop& loop;
  std::string name;
  Allows allows;
  std::function<void()> on_successor;
  Successor successor{*this};
  int listening = -1, connected = -1;
  bool granted = false;
};

TakeoverOffer::TakeoverOffer(Loop& loop, std::string name, Allows allows, std::function<void()> on_successor)
    : state_{std::make_unique<State>(loop, std::move(name), std::move(allows), std::move(on_successor))} {}
TakeoverOffer::~TakeoverOffer() = default;

std::optional<Takeover> Takeover::request(const std::string& name, TakeoverOffer::Condition condition) {
  const Name address = abstract_name(name);
  const int descriptor = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return std::nullopt;
  Takeover made{descriptor};
  const timeval limit{kAnswerSeconds, 0};
  char answer = 0;
  const bool granted = ::setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
                       ::connect(descriptor, system(address), address.length) == 0 && is_same_user(descriptor) &&
                       send_word(descriptor, static_cast<char>(condition)) && ::recv(descriptor, &answer, 1, 0) == 1 &&
                       answer == kYes;
  if (!granted) return std::nullopt;
  return made;
}

Takeover::~Takeover() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Takeover::Takeover(Takeover&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Takeover& Takeover::operator=(Takeover&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Takeover::report_listening() { static_cast<void>(send_word(descriptor_, kListening)); }

}  // namespace penstock::net
