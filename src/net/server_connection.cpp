#include "net/server_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "core/result.h"
#include "net/containment.h"

namespace penstock::net {

namespace {

constexpr std::size_t kWaitingBytesMax = 64 * 1024;  // Maximum size of pipelined requests.
// Idle time after which a drain closes a connection.
constexpr core::Duration kDrainIdleTime = std::chrono::seconds{1};
// Times after which a client that ended its output during a request is sent an interim response, which the system of a
// client that has left answers with a reset.
constexpr core::Duration kFirstProbe = std::chrono::milliseconds{100}, kLaterProbes = std::chrono::seconds{5};

// A copy of `rest`, which is the end of `held` unless that is empty, in the memory of `held` where little would be
// wasted.
std::string kept(std::string_view rest, std::string& held) {
  if (rest.size() * 2 < held.capacity() || held.empty()) return std::string{rest};
  held.erase(0, held.size() - rest.size());
  return std::move(held);
}

}  // namespace

ServerConnection::ServerConnection(ServerCore& core, int descriptor, const Address& peer, std::uint32_t slot)
    : ServerSocket{core, descriptor, slot}, exchange_{*this, peer}, idle_since_{core.loop.now()} {}

void ServerConnection::begin() {
  const int on = 1;
  setsockopt(transport_->descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  watch(EPOLLIN | EPOLLRDHUP);
  set_phase_deadline(core_.loop.now() + (core_.tls != nullptr ? core_.limits.head_time : core_.limits.idle_time));
}

void ServerConnection::detach() {
  core_.loop.unwatch(transport_->descriptor(), *this);
  transport_.reset();
  phase_ = Phase::kClosed;
}

void ServerConnection::close() {
  if (phase_ == Phase::kClosed) return;
  if (exchange_.request() != nullptr) release_request();
  detach();
  std::string{}.swap(in_);
  drop_output();
  core_.descriptors.refill();
  core_.retire(*this);
}

void ServerConnection::on_ready(std::uint32_t events) {
  contain([&] { handle(events); }, [this] { on_no_memory(); });
}

void ServerConnection::handle(std::uint32_t events) {
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) return on_lost();
  const bool readable = (events & (EPOLLIN | EPOLLRDHUP)) != 0, writable = (events & EPOLLOUT) != 0;
  if (!all_sent() && (writable || (readable && write_wants_read_))) send_waiting();
  const bool ended = (events & EPOLLRDHUP) != 0;
  // A client that ends its output once the answer has begun has left.
  if (phase_ == Phase::kBusy && ended && exchange_.answer().started() && !is_half_closed_) return on_lost();
  if (phase_ == Phase::kBusy && ended) begin_half_closed();
  if (phase_ == Phase::kHead && ended && !all_sent()) {
    // The client has requested to close after this response.
    begin_closing();
  } else if (readable || (writable && read_wants_write_)) {
    read_input();
  }
  if (phase_ != Phase::kClosed) update_watch();
}

void ServerConnection::read_input() {
  bool has_more = true;
  while (has_more && phase_ != Phase::kClosed && phase_ != Phase::kClosing) {
    const bool direct = phase_ == Phase::kBody && exchange_.request()->reads_directly();
    Transport::Transfer got;
    if (direct) {
      const std::size_t room = exchange_.request()->make_room();
      if (room == 0) return refuse_for_memory();
      got = transport_->read(exchange_.request()->body.end(), room);
    } else {
      const std::size_t waiting = std::min(kWaitingBytesMax, in_.size());
      const std::size_t room = must_wait() ? kWaitingBytesMax - waiting : ServerCore::kScratchBytes;
      if (room == 0) return;
      got = transport_->read(core_.scratch.get(), room);
    }
    read_wants_write_ = got.wants_write;
    if (got.bytes > 0 && direct) {
      exchange_.request()->body.added(got.bytes);
      after_body_bytes(got.bytes);
    } else if (got.bytes > 0) {
      take_input({core_.scratch.get(), got.bytes});
    }
    if (phase_ == Phase::kClosed) return;
    if (got.failed) return on_lost();
    if (got.closed) return on_input_end();
    has_more = got.bytes > 0 && transport_->has_pending();
  }
}

void ServerConnection::on_input_end() {
  if (phase_ == Phase::kClosing || (phase_ == Phase::kHead && !all_sent())) return begin_closing();
  if (phase_ != Phase::kBusy) return on_lost();
  begin_half_closed();
  input_is_over_ = true;
}

// The end of the client's output does not tell whether the client still reads.
void ServerConnection::begin_half_closed() {
  if (!std::exchange(is_half_closed_, true)) set_phase_deadline(core_.loop.now() + kFirstProbe);
}

// Ends the connection if it waits for input that will never come.
void ServerConnection::end_without_input() {
  if (!input_is_over_ || must_wait()) return;
  if (phase_ == Phase::kHead) return begin_closing();
  if (phase_ == Phase::kBody) on_lost();
}

bool ServerConnection::must_wait() const { return phase_ == Phase::kBusy || (phase_ == Phase::kHead && !all_sent()); }

void ServerConnection::take_input(std::string_view bytes) {
  if (phase_ == Phase::kClosing || phase_ == Phase::kLinger) return;
  if (must_wait()) {
    if (in_.empty()) read_at_ = core_.loop.now();
    in_.append(bytes);
    return;
  }
  std::string held = std::exchange(in_, {});
  std::string_view rest = bytes;
  if (held.empty()) {
    read_at_ = core_.loop.now();
  } else {
    held.append(bytes);
    rest = held;
  }
  while (!rest.empty() && !must_wait() && (phase_ == Phase::kHead || phase_ == Phase::kBody))
    if (!(phase_ == Phase::kHead ? advance_head(rest) : advance_body(rest))) break;
  if (!rest.empty() && (phase_ == Phase::kHead || phase_ == Phase::kBusy)) in_ = kept(rest, held);
}

// Takes what belongs to the head off the front. False: it needs more than there is.
bool ServerConnection::advance_head(std::string_view& rest) {
  if (!head_begun_) {
    head_begun_ = true;
    searched_ = 0;
    set_phase_deadline(core_.loop.now() + core_.limits.head_time);
  }
  auto request = core_.take_request();
  const HeadResult result = parse_request_head(rest, request->head, searched_);
  const bool too_long = (result.state == HeadState::kComplete ? result.bytes : rest.size()) > core_.limits.head_bytes;
  if (result.state == HeadState::kMalformed || too_long) {
    core_.give_back(std::move(request));
    ++core_.counters.malformed;
    if (result.state == HeadState::kMalformed)
      refuse(result.status, result.fault);
    else
      refuse(431, "the request head is too large");
    return false;
  }
  if (result.state == HeadState::kIncomplete) {
    core_.give_back(std::move(request));
    searched_ = rest.size();
    return false;
  }
  head_begun_ = false;
  exchange_.set_request(std::move(request));
  exchange_.request()->received_at = read_at_;
  read_at_ = core_.loop.now();
  exchange_.request()->keep_head(rest.substr(0, result.bytes));
  rest.remove_prefix(result.bytes);
  begin_body(rest);
  return true;
}

void ServerConnection::begin_body(std::string_view rest) {
  const RequestHead& head = exchange_.request()->head;
  const std::uint64_t length = head.content_length.value_or(0);
  if (length > core_.limits.body_bytes) {
    ++core_.counters.malformed;
    return refuse(413, "the request body is too large");
  }
  if (length == 0 && !head.chunked) return begin_exchange();
  phase_ = Phase::kBody;
  set_phase_deadline(core_.loop.now() + core_.limits.body_time);
  if (!admit_body(length)) return;
  if (head.expect_continue && (head.chunked ? rest.empty() : rest.size() < length))
    send("HTTP/1.1 100 Continue\r\n\r\n");
}

bool ServerConnection::admit_body(std::uint64_t bytes) {
  const BodyAdmission admission = exchange_.request()->admit(core_.handler, *core_.memory, bytes);
  if (admission.refusal_status == 0) return true;
  std::vector<Field> fields;
  for (const auto& [name, value] : admission.refusal_fields) fields.push_back({name, value});
  if (admission.refusal_body.empty())
    refuse_for_memory();
  else
    refuse(admission.refusal_status, admission.refusal_body, std::move(fields));
  return false;
}

bool ServerConnection::advance_body(std::string_view& rest) {
  const Request::Taken taken = exchange_.request()->take_body(rest, core_.limits.body_bytes);
  if (taken.fault_status == 503) {
    refuse_for_memory();
    return false;
  }
  if (taken.fault_status != 0) {
    ++core_.counters.malformed;
    refuse(taken.fault_status, taken.fault);
    return false;
  }
  return after_body_bytes(taken.bytes);
}

bool ServerConnection::after_body_bytes(std::size_t bytes) {
  const Request& request = *exchange_.request();
  const std::size_t size = request.body.size();
  if (request.head.chunked && !admit_body(size)) return false;
  if (request.is_complete()) {
    begin_exchange();
  } else if (size / Request::kStepBytes != (size - bytes) / Request::kStepBytes) {
    // Each received MiB extends the deadline.
    set_phase_deadline(phase_deadline_ + core_.limits.body_time);
  }
  return true;
}

void ServerConnection::begin_exchange() {
  phase_ = Phase::kBusy;
  set_phase_deadline(core::kNever);
  exchange_.begin();
  lingers_ = exchange_.request()->head.keep_alive;
  ++core_.counters.requests;
  ++core_.counters.busy;
  core_.handler.on_request(exchange_);
}

void ServerConnection::end_exchange() {
  const bool closes = exchange_.answer().closes();
  release_request();
  if (closes) {
    phase_ = Phase::kClosing;
    return begin_closing();
  }
  phase_ = Phase::kHead;
  all_sent() ? begin_idle() : set_phase_deadline(core::kNever);
  if (!in_.empty() || input_is_over_ || transport_->has_pending()) resume_soon();
}

void ServerConnection::begin_idle() {
  idle_since_ = core_.loop.now();
  // The head of the last answer may have been sent before the drain, so that the client sends its next request.
  set_phase_deadline(idle_since_ + (core_.draining ? kDrainIdleTime : core_.limits.idle_time));
}

void ServerConnection::release_request() {
  if (phase_ == Phase::kBusy) --core_.counters.busy;
  core_.give_back(exchange_.reset());
}

void ServerConnection::resume() {
  resumes_ = false;
  if (phase_ == Phase::kClosed) return;
  if (is_broken_) return on_lost();
  if (!in_.empty() && !must_wait()) take_input({});
  if (phase_ != Phase::kClosed && !must_wait() && transport_->has_pending()) read_input();
  end_without_input();
  if (phase_ != Phase::kClosed) update_watch();
}

void ServerConnection::drain() {
  const auto is_idle = [this] { return phase_ == Phase::kHead && !head_begun_ && all_sent() && in_.empty(); };
  if (!is_idle()) return;
  read_input();
  if (phase_ == Phase::kClosed) return;
  // A request may be in transit, because a client that has connected or received an answer expects to be served.
  is_idle() ? set_phase_deadline(idle_since_ + kDrainIdleTime) : update_watch();
}

void ServerConnection::on_lost() {
  ExchangeListener* const listener = phase_ == Phase::kBusy ? exchange_.listener() : nullptr;
  if (phase_ == Phase::kBusy) ++core_.counters.clients_gone;
  close();
  if (listener != nullptr) listener->on_client_gone();
}

void ServerConnection::on_deadline() {
  if (write_deadline_ <= core_.loop.now()) {
    ++core_.counters.timed_out;
    return on_lost();
  }
  switch (phase_) {
    case Phase::kHead:
      if (!head_begun_) return close();
      ++core_.counters.timed_out;
      refuse(408, "the request head did not arrive in time");
      break;
    case Phase::kBody:
      ++core_.counters.timed_out;
      refuse(408, "the request body did not arrive in time");
      break;
    case Phase::kLinger: return close();
    case Phase::kBusy: {
      const bool may_probe = all_sent() && !exchange_.answer().started() && !exchange_.request()->head.http_1_0;
      set_phase_deadline(core_.loop.now() + kLaterProbes);
      if (may_probe) send("HTTP/1.1 100 Continue\r\n\r\n");
      break;
    }
    case Phase::kClosing:
    case Phase::kClosed: break;
  }
  if (phase_ != Phase::kClosed) update_watch();
}

void ServerConnection::update_watch() {
  count_buffers(in_.capacity(), exchange_.request() != nullptr ? exchange_.request()->payer : nullptr);
  std::uint32_t wanted = 0;
  const bool is_full = must_wait() && in_.size() >= kWaitingBytesMax;
  if (phase_ != Phase::kClosing && !is_half_closed_) wanted = EPOLLRDHUP;
  if (phase_ != Phase::kClosing && !is_full && !input_is_over_) wanted |= EPOLLIN;
  if (write_wants_read_) wanted |= EPOLLIN;
  if ((!all_sent() && !write_wants_read_) || read_wants_write_) wanted |= EPOLLOUT;
  set_interest(wanted);
}

void ServerConnection::on_no_memory() {
  ++core_.counters.out_of_memory;
  if (phase_ != Phase::kClosed) on_lost();
}

void ServerConnection::break_off() {
  is_broken_ = true;
  resume_soon();
}

void ServerConnection::resume_soon() {
  if (!std::exchange(resumes_, true)) core_.resume_later(*this);
}

}  // namespace penstock::net
