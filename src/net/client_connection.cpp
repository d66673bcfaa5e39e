#include "net/client_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/result.h"
#include "net/client_pool.h"

namespace penstock::net {
namespace {

constexpr std::uint32_t kReading = EPOLLIN | EPOLLRDHUP;
constexpr std::string_view kHttp = "HTTP/1.";

core::Instant later(core::Instant now, core::Duration delay) {
  return delay >= core::kNever - now ? core::kNever : now + delay;
}

// Where bytes had piled up, the server's system sends more of them as soon as there is room, but not at once.
bool is_readable_soon(int descriptor) {
  constexpr int kMilliseconds = 2;
  pollfd waiting{descriptor, POLLIN, 0};
  return ::poll(&waiting, 1, kMilliseconds) > 0;
}

}  // namespace

ClientConnection::ClientConnection(ClientPool& pool, ServerBucket& bucket, const CallOptions& options)
    : pool_{pool}, bucket_{bucket}, tls_{options.tls}, host_{options.tls != nullptr ? options.host : std::string{}} {}

ClientConnection::~ClientConnection() {
  disconnect();
  if (is_gone_ != nullptr) *is_gone_ = true;
}

bool ClientConnection::serves(const CallOptions& options) const {
  return tls_ == options.tls && (tls_ == nullptr || host_ == options.host);
}

void ClientConnection::rest_until(core::Instant deadline) {
  phase_ = Phase::kIdle;
  listener_ = nullptr;
  deadline_ = deadline;
}

void ClientConnection::start(const CallOptions& options, std::string_view head, std::string_view body,
                             ResponseListener& listener) {
  PENSTOCK_ASSERT(!head.empty(), "a request has a head");
  listener_ = &listener;
  head_ = head;
  body_ = body;
  sent_ = 0;
  has_answer_ = is_paused_ = false;
  is_raw_ = options.raw;
  to_head_ = head.starts_with("HEAD ");
  silence_ = options.silence;
  is_begun_ = !options.waits_for_begun;
  stale_until_ = later(pool_.loop().now(), pool_.limits().stale_time);
  deadline_ = head_deadline_ = later(pool_.loop().now(), options.head_time);
  is_reused_ = transport_.has_value();
  if (!is_reused_) return connect();
  phase_ = Phase::kHead;
  send();
  if (is_broken_) pool_.defer(*this);
}

// An immediate failure is reported from the loop, because call() never calls the listener.
void ClientConnection::connect() {
  // Leaves the list of deferred turns of the previous connection.
  static_cast<ListHook<InBucket>*>(this)->unlink();
  phase_ = Phase::kConnecting;
  is_established_ = is_broken_ = wants_out_ = false;
  deadline_ = std::min(head_deadline_, later(pool_.loop().now(), pool_.limits().connect_time));
  const auto* system = static_cast<const sockaddr*>(bucket_.address.data());
  const int descriptor = ::socket(system->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  connect_error_ = 0;
  if (descriptor < 0) return defer_failure();
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  transport_.emplace(descriptor, tls_, host_);
  if (::connect(descriptor, system, bucket_.address.length()) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return defer_failure();
  }
  reads_ = is_watched_ = true;
  if (tls_ == nullptr) send_at_once();
  if (!transport_) return defer_failure();
  interest_ = kReading | (phase_ == Phase::kConnecting || wants_out_ ? std::uint32_t{EPOLLOUT} : 0U);
  pool_.loop().watch(descriptor, interest_, *this);
}

void ClientConnection::defer_failure() {
  connect_error_ = errno;
  transport_.reset();
  pool_.defer(*this);
}

// A local connection is often established at once; sending now saves one round of the loop.
void ClientConnection::send_at_once() {
  const Transport::Transfer transfer = transport_->write(head_, body_);
  if (transfer.closed || transfer.failed) {
    is_watched_ = false;
    transport_.reset();
  } else if (transfer.bytes > 0) {
    phase_ = Phase::kHead;
    is_established_ = true;
    deadline_ = head_deadline_;
    sent_ = transfer.bytes;
    wants_out_ = transfer.wants_write;
  }
}

void ClientConnection::disconnect() {
  if (is_watched_) pool_.loop().unwatch(transport_->descriptor(), *this);
  is_watched_ = false;
  transport_.reset();
}

void ClientConnection::cancel() { pool_.drop(*this); }

void ClientConnection::begun() {
  is_begun_ = true;
  if (phase_ == Phase::kBody && !is_paused_) update_deadline();
}

void ClientConnection::update_deadline() {
  deadline_ = is_begun_ ? later(pool_.loop().now(), silence_) : head_deadline_;
}

bool ClientConnection::release_request() {
  if (phase_ == Phase::kConnecting || has_unsent()) return false;
  head_ = body_ = {};
  sent_ = 0;
  is_reused_ = false;
  return true;
}

void ClientConnection::take_rest(const std::function<void(std::string_view)>& take, std::size_t bytes_max) {
  constexpr std::size_t kBacklogBytes = 256 * 1024;
  int waits = 5;
  auto& scratch = pool_.scratch();
  std::size_t taken = 0;
  while (phase_ == Phase::kBody && transport_ && taken < bytes_max) {
    const Transport::Transfer transfer = transport_->read(scratch.data(), scratch.size());
    std::string_view bytes{scratch.data(), transfer.bytes};
    if (bytes.empty()) {
      const bool has_more = !transfer.closed && !transfer.failed && taken >= kBacklogBytes && waits-- > 0;
      if (!has_more || !is_readable_soon(transport_->descriptor())) return;
      continue;
    }
    taken += bytes.size();
    while (!bytes.empty()) {
      const ChunkReader::Step step = framing_.take(bytes);
      if (!step.payload.empty()) take(step.payload);
      bytes.remove_prefix(step.consumed);
      if (step.state == ChunkReader::State::kDone || step.state == ChunkReader::State::kMalformed) return;
    }
  }
}

void ClientConnection::pause() {
  is_paused_ = true;
  if (phase_ == Phase::kBody) deadline_ = core::kNever;  // The silence was caused by the pause.
}

void ClientConnection::resume() {
  if (!is_paused_) return;
  is_paused_ = false;
  if (phase_ == Phase::kBody) update_deadline();
  if (!transport_) return;
  reads_ = true;
  if (is_watched_) {
    update_interest();
  } else {
    is_watched_ = true;
    interest_ = kReading;
    pool_.loop().watch(transport_->descriptor(), interest_, *this);
  }
  if (transport_->has_pending()) pool_.defer(*this);
}

void ClientConnection::on_ready(std::uint32_t events) {
  // The only event of an idle connection is that the server closed it.
  if (phase_ == Phase::kIdle) return pool_.drop(*this);
  if (phase_ == Phase::kConnecting && !finish_connect()) return;
  // TLS may need to read in order to write, and may have read more than it needed.
  const bool is_tls = transport_->is_tls();
  if (has_unsent() && !is_broken_ && (is_tls || (events & EPOLLOUT) != 0)) send();
  if (is_tls || is_broken_ || (events & ~std::uint32_t{EPOLLOUT}) != 0) receive(events);
}

void ClientConnection::take_turn() {
  if (!transport_) return fault(ClientFault::kConnect);
  receive(0);
}

bool ClientConnection::finish_connect() {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(transport_->descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    connect_error_ = error;
    fault(ClientFault::kConnect);
    return false;
  }
  phase_ = Phase::kHead;
  return true;
}

// The next read reports a failed write, because it may still find a response: a server that rejects a large body
// answers and closes.
void ClientConnection::send() {
  const std::size_t of_head = std::min(sent_, head_.size());
  const std::string_view first = head_.substr(of_head), second = body_.substr(sent_ - of_head);
  const Transport::Transfer transfer = first.empty() ? transport_->write(second) : transport_->write(first, second);
  sent_ += transfer.bytes;
  if (transfer.bytes > 0 && !is_established_) {
    is_established_ = true;
    deadline_ = head_deadline_;
  }
  is_broken_ = transfer.closed || transfer.failed;
  wants_out_ = transfer.wants_write;
  update_interest();
}

void ClientConnection::update_interest() {
  const std::uint32_t wanted = (reads_ ? kReading : 0U) | (wants_out_ ? std::uint32_t{EPOLLOUT} : 0U);
  if (wanted == interest_ || !is_watched_) return;
  interest_ = wanted;
  pool_.loop().change(transport_->descriptor(), wanted, *this);
}

// While paused, errors and hang-ups cannot be masked and would be reported repeatedly.
void ClientConnection::hold_back(std::uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    if (is_watched_) pool_.loop().unwatch(transport_->descriptor(), *this);
    is_watched_ = false;
    return;
  }
  reads_ = false;
  update_interest();
}

void ClientConnection::receive(std::uint32_t events) {
  if (is_paused_) return hold_back(events);
  auto& scratch = pool_.scratch();
  const Transport::Transfer transfer = transport_->read(scratch.data(), scratch.size());
  if (transfer.bytes > 0) {
    // The peer has sent its last bytes, so the connection cannot be reused.
    const bool is_last = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (take({scratch.data(), transfer.bytes}, is_last) && transport_->has_pending()) pool_.defer(*this);
    return;
  }
  if (transfer.closed || transfer.failed) return end_of_stream(transfer.closed);
  // This read may have ended the handshake that a write had waited for.
  wants_out_ = transfer.wants_write || (has_unsent() && !is_broken_ && transport_->may_send());
  update_interest();
}

// Returns false if the call has ended; this object may be destroyed then.
bool ClientConnection::take(std::string_view bytes, bool is_last) {
  has_answer_ = true;
  std::string owner;  // Owns the bytes if the head arrived in pieces.
  if (phase_ == Phase::kHead) {
    if (!take_head(bytes, owner)) return false;
    if (phase_ == Phase::kHead) return true;
  }
  if (!is_paused_) update_deadline();
  return take_body(bytes, is_last);
}

HeadState ClientConnection::parse_head(std::string_view& bytes, std::string& owner) {
  std::size_t searched = 0;
  if (!held_.empty()) {
    owner.swap(held_);
    searched = owner.size();
    owner.append(bytes);
    bytes = owner;
  }
  ResponseHead& head = pool_.head();
  for (;;) {
    const HeadResult result = parse_response_head(bytes, head, searched);
    const std::size_t size = result.state == HeadState::kComplete ? result.bytes : bytes.size();
    const bool is_http = bytes.substr(0, kHttp.size()) == kHttp.substr(0, std::min(bytes.size(), kHttp.size()));
    if (!is_http || size > pool_.limits().head_bytes) return HeadState::kMalformed;
    if (result.state == HeadState::kIncomplete) held_.assign(bytes);
    if (result.state != HeadState::kComplete) return result.state;
    bytes.remove_prefix(result.bytes);
    searched = 0;
    if (head.status >= 200) return HeadState::kComplete;
    if (head.status == 101) return HeadState::kMalformed;  // The request did not ask for another protocol.
  }
}

bool ClientConnection::take_head(std::string_view& bytes, std::string& owner) {
  ClientFault found = ClientFault::kMalformed;
  HeadState state = HeadState::kMalformed;
  try {
    state = parse_head(bytes, owner);
  } catch (const std::bad_alloc&) {
    found = ClientFault::kClosed;
  }
  if (state == HeadState::kMalformed) {
    fault(found);
    return false;
  }
  if (state == HeadState::kIncomplete) return true;
  ResponseHead& head = pool_.head();
  bool is_gone = false;
  begin_body(head);
  is_gone_ = &is_gone;
  listener_->on_head(head);
  if (!is_gone) is_gone_ = nullptr;
  return !is_gone;
}

void ClientConnection::begin_body(const ResponseHead& head) {
  phase_ = Phase::kBody;
  framing_.begin(head, to_head_, is_raw_);
  keeps_alive_ = head.keep_alive && !has_unsent() && !is_broken_ && !framing_.ends_with_connection();
  // The listener may free the request now, so the rest of it is not sent.
  head_ = body_ = {};
  sent_ = 0;
  if (wants_out_) {
    wants_out_ = false;
    update_interest();
  }
}

bool ClientConnection::take_body(std::string_view bytes, bool is_last) {
  bool is_gone = false;
  for (;;) {
    const ChunkReader::Step step = framing_.take(bytes);
    if (step.state == ChunkReader::State::kMalformed) {
      fault(ClientFault::kMalformed);
      return false;
    }
    if (!step.payload.empty()) {
      is_gone_ = &is_gone;
      listener_->on_body(step.payload);
      if (is_gone) return false;
      is_gone_ = nullptr;
    }
    bytes.remove_prefix(step.consumed);
    if (step.state == ChunkReader::State::kDone) {
      finish(bytes.empty() && !is_last);
      return false;
    }
    if (bytes.empty()) return true;
  }
}

bool ClientConnection::is_stale() const { return is_reused_ && !has_answer_ && pool_.loop().now() <= stale_until_; }

void ClientConnection::end_of_stream(bool is_clean) {
  if (is_stale()) {
    disconnect();
    is_reused_ = false;
    sent_ = 0;
    return connect();
  }
  if (is_clean && phase_ == Phase::kBody && framing_.ends_with_connection()) return finish(false);
  fault(is_established_ ? ClientFault::kClosed : ClientFault::kConnect);
}

// The listener may start another call at once on this connection.
void ClientConnection::finish(bool may_keep) {
  ResponseListener& listener = *listener_;
  if (may_keep && keeps_alive_ && is_watched_ && !transport_->has_pending()) {
    reads_ = true;
    update_interest();
    pool_.keep(*this);
  } else {
    pool_.drop(*this);
  }
  listener.on_end();
}

void ClientConnection::fault(ClientFault fault) {
  ResponseListener& listener = *listener_;
  const bool has_answer = has_answer_;
  pool_.failure().clear();
  if (transport_ && !transport_->tls_failure().empty())
    pool_.failure() = "TLS: " + transport_->tls_failure();
  else if (fault == ClientFault::kConnect && connect_error_ != 0)
    pool_.failure() = std::strerror(connect_error_);
  pool_.drop(*this);
  listener.on_fault(fault, has_answer);
}

}  // namespace penstock::net
