#include "connect/nats/client.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace penstock::connect {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kReadsMax = 16;  // Of one turn of the loop, so that a busy server does not keep it.
constexpr std::string_view kConnect =
    R"(CONNECT {"verbose":false,"pedantic":false,"tls_required":false,"name":"penstock","lang":"c++","version":"1",)"
    R"("protocol":1,"echo":false,"headers":true,"no_responders":false})"
    "\r\n";
constexpr std::string_view kPing = "PING\r\n", kPong = "PONG\r\n";
constexpr std::size_t kServerErrorBytesMax = 200;

std::string system_text(int error) { return std::error_code{error, std::generic_category()}.message(); }

std::string subscribe_line(const std::string& subject, std::uint64_t number) {
  return fmt::format("SUB {} {}\r\n", subject, number);
}

}  // namespace

NatsClient::NatsClient(net::Loop& loop, NatsEndpoint server, Listener listener, NatsOptions options)
    : loop_(loop),
      server_(std::move(server)),
      listener_(std::move(listener)),
      options_(std::move(options)),
      backoff_(options_.backoff) {
  timer_ = loop_.after(core::Duration{}, [this] { open(); });
}

NatsClient::~NatsClient() { close(); }

core::Result<void> NatsClient::subscribe(const std::string& subject) {
  if (!is_nats_subject(subject)) return core::invalid_input(subject, "is not a subject of NATS");
  if (subscriptions_.contains(subject)) return {};
  if (subscriptions_.size() >= kSubjectsMax)
    return core::invalid_input(subject, fmt::format("is one subject too many, of at most {}", kSubjectsMax));
  const std::uint64_t number = next_number_++;
  subscriptions_.emplace(subject, number);
  subjects_.emplace(number, subject);
  if (phase_ >= Phase::kPing) send(subscribe_line(subject, number));
  return {};
}

void NatsClient::unsubscribe(const std::string& subject) {
  const auto found = subscriptions_.find(subject);
  if (found == subscriptions_.end()) return;
  const std::uint64_t number = found->second;
  subjects_.erase(number);
  subscriptions_.erase(found);
  if (phase_ >= Phase::kPing) send(fmt::format("UNSUB {}\r\n", number));
}

// ---- the connection -------------------------------------------------------------------------------------------------

void NatsClient::open() {
  timer_ = 0;
  if (next_address_ < addresses_.size()) return connect();
  next_address_ = 0;
  if (const auto numeric = net::Address::parse(server_.host, server_.port)) {
    addresses_ = {*numeric};
    return connect();
  }
  phase_ = Phase::kResolving;
  if (!resolver_) resolver_.emplace(loop_, options_.resolve);
  resolver_->resolve(server_.host, server_.port, [this](const net::Resolver::Addresses& found) {
    if (!found) {
      addresses_.clear();
      return fail(found.error().message());
    }
    addresses_ = *found;
    connect();
  });
}

void NatsClient::connect() {
  const net::Address& address = addresses_[next_address_++];
  const auto* system = static_cast<const sockaddr*>(address.data());
  descriptor_ = ::socket(system->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (descriptor_ < 0) return fail(system_text(errno));
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  phase_ = Phase::kConnecting;
  wants_out_ = true;
  loop_.watch(descriptor_, EPOLLIN | EPOLLOUT, *this);
  if (::connect(descriptor_, system, address.length()) != 0 && errno != EINPROGRESS && errno != EINTR)
    return fail(system_text(errno));
  timer_ = loop_.after(options_.connect_time, [this] {
    timer_ = 0;
    fail("the server does not answer in time");
  });
}

bool NatsClient::finish_connect() {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    fail(system_text(error));
    return false;
  }
  phase_ = Phase::kInfo;
  return true;
}

void NatsClient::on_ready(std::uint32_t events) {
  if (phase_ == Phase::kConnecting && !finish_connect()) return;
  if ((events & EPOLLOUT) != 0) flush();
  if (descriptor_ >= 0 && (events & ~std::uint32_t{EPOLLOUT}) != 0) receive();
}

void NatsClient::receive() {
  std::array<char, kReadBytes> bytes;
  for (int reads = 0; reads < kReadsMax; ++reads) {
    const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) return fail(system_text(errno));
    if (count == 0) return fail("the server closed the connection");
    parser_.add({bytes.data(), static_cast<std::size_t>(count)});
    for (;;) {
      const auto received = parser_.next();
      if (!received) return fail(received.error().message());
      if (!*received) break;
      if (!take(**received)) return;
    }
  }
}

bool NatsClient::take(const NatsReceived& received) {
  switch (received.operation) {
    case NatsOperation::kInfo: return take_info(received.text);
    case NatsOperation::kPing: send(kPong); break;
    case NatsOperation::kPong:
      has_pong_ = true;
      if (phase_ != Phase::kPing) break;
      phase_ = Phase::kReady;
      backoff_ = options_.backoff;
      next_address_ = 0;
      loop_.cancel(timer_);
      timer_ = loop_.every(options_.ping_interval, [this] { tick(); });
      report({});
      break;
    case NatsOperation::kError:
      // The server closes the connection after most errors; one about a subject keeps it.
      if (received.text.find("Permissions Violation") != std::string_view::npos) {
        report(std::string{received.text.substr(0, kServerErrorBytesMax)});
        break;
      }
      fail(std::string{received.text.substr(0, kServerErrorBytesMax)});
      break;
    case NatsOperation::kMessage:
      if (const auto found = subjects_.find(received.subscription); found != subjects_.end()) {
        // The handler may unsubscribe.
        const std::string subject = found->second;
        listener_.message(subject, received.payload);
      }
      break;
    case NatsOperation::kOk: break;
  }
  return descriptor_ >= 0;
}

// The server sends it first, and again when its cluster changes.
bool NatsClient::take_info(std::string_view json) {
  if (phase_ != Phase::kInfo) return true;
  const auto info = nlohmann::json::parse(json, nullptr, false);
  const auto requires_it = [&](const char* name) {
    const auto found = info.find(name);
    return found != info.end() && found->is_boolean() && found->get<bool>();
  };
  if (!info.is_object())
    fail("NATS: sent a greeting that is not a JSON object");
  else if (requires_it("tls_required"))
    fail("the server requires TLS, which is not supported");
  else if (requires_it("auth_required"))
    fail("the server requires authentication, which is not supported");
  if (descriptor_ < 0) return false;
  phase_ = Phase::kPing;
  std::string lines{kConnect};
  for (const auto& [subject, number] : subscriptions_) lines += subscribe_line(subject, number);
  send(lines.append(kPing));
  return descriptor_ >= 0;
}

void NatsClient::send(std::string_view bytes) {
  if (descriptor_ < 0) return;
  unsent_ += bytes;
  flush();
}

// A failed write is reported by the next read.
void NatsClient::flush() {
  if (phase_ == Phase::kConnecting) return;
  while (!unsent_.empty()) {
    const ssize_t count = ::send(descriptor_, unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    unsent_.erase(0, static_cast<std::size_t>(count));
  }
  const bool wants_out = !unsent_.empty();
  if (std::exchange(wants_out_, wants_out) != wants_out)
    loop_.change(descriptor_, wants_out ? EPOLLIN | EPOLLOUT : std::uint32_t{EPOLLIN}, *this);
}

void NatsClient::tick() {
  if (!std::exchange(has_pong_, false)) return fail("the server does not answer");
  send(kPing);
}

void NatsClient::fail(const std::string& cause) {
  close();
  report(cause);
  timer_ = loop_.after(backoff_, [this] { open(); });
  backoff_ = std::min(options_.backoff_max, 2 * backoff_);
}

void NatsClient::close() {
  loop_.cancel(std::exchange(timer_, 0));
  if (descriptor_ >= 0) {
    loop_.unwatch(descriptor_, *this);
    ::close(descriptor_);
  }
  descriptor_ = -1;
  phase_ = Phase::kClosed;
  parser_.reset();
  unsent_ = {};
  has_pong_ = true;
}

void NatsClient::report(const std::string& cause) {
  if (reported_ == cause) return;
  reported_ = cause;
  if (listener_.report) listener_.report(cause);
}

}  // namespace penstock::connect
