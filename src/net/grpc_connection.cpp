#include "net/grpc_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <new>
#include <utility>

#include "net/grpc_framing.h"

namespace penstock::net {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kOutputBytes = 64 * 1024;  // The session is asked for more output below this size.
constexpr std::size_t kFrameHeadBytes = 9;       // Of HTTP/2.
constexpr std::size_t kFieldBytes = 1024;        // Of a header field that is kept.
constexpr std::uint64_t kWindowMax = 0x7fffffff;
constexpr core::Duration kNoticeTime = std::chrono::seconds{1};  // For a client to answer the announcement of the end.
constexpr std::string_view kContentType = "application/grpc";

// Envoy and other proxies reset each call that has ended; the library's own limit of 33 a second would close their
// connections. Calls on one connection are limited, and a reset costs a lookup.
constexpr std::uint64_t kResetsBurst = 100'000, kResetsPerSecond = 100'000;

nghttp2_nv field(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

struct OptionDelete {
  void operator()(nghttp2_option* option) const { nghttp2_option_del(option); }
};

}  // namespace

class GrpcConnection::Call final : public GrpcCall {
 public:
  Call(GrpcConnection& connection, std::int32_t stream)
      : connection_{connection}, stream_{stream}, reader_{connection.shared_.limits.message_bytes} {}
  ~Call() { connection_.stored_ -= unsent(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  [[nodiscard]] std::string_view path() const override { return path_; }
  [[nodiscard]] std::size_t unsent() const override { return out_.size() - sent_; }

  void send(std::string_view message) override {
    if (finished_) return;
    if (sent_ > unsent()) out_.erase(0, std::exchange(sent_, 0));
    connection_.stored_ += kGrpcPrefixBytes + message.size();
    append_grpc_message(out_, message);
    if (!started_) start();
    resume();
  }

  void finish(GrpcStatus status, std::string_view text = {}) override {
    if (finished_) return;
    finished_ = true;
    status_ = std::to_string(static_cast<int>(status));
    text_ = encode_grpc_text(text);
    return_window();
    if (started_) return resume();
    const nghttp2_nv fields[] = {field(":status", "200"), field("content-type", kContentType),
                                 field("grpc-status", status_), field("grpc-message", text_)};
    submit_only(fields, text_.empty() ? 3 : 4);
  }

  // Refuses what is no gRPC request.
  void refuse(const char* http_status) {
    finished_ = true;
    const nghttp2_nv fields[] = {field(":status", http_status)};
    submit_only(fields, 1);
  }

  void take_field(std::string_view name, std::string_view value) {
    if (value.size() > kFieldBytes) value = {};
    if (name == ":path") path_ = value;
    if (name == ":method") is_post_ = value == "POST";
    if (name == "content-type")
      is_grpc_ =
          value.starts_with(kContentType) && (value.size() == kContentType.size() ||
                                              value[kContentType.size()] == '+' || value[kContentType.size()] == ';');
    if (name == "grpc-encoding") is_encoded_ = value != "identity";
  }

  void on_head() {
    if (!is_post_) return refuse("405");
    if (!is_grpc_) return refuse("415");
    if (is_encoded_) finish(GrpcStatus::kUnimplemented, "messages must not be compressed");
  }

  void take_data(std::string_view bytes) {
    withheld_ += bytes.size();
    for (bool has_more = true; has_more && !finished_;) {
      switch (reader_.next(bytes)) {
        case GrpcMessageReader::State::kMore: has_more = false; break;
        case GrpcMessageReader::State::kMessage:
          shared().handler.on_message(*this, reader_.message(), !std::exchange(has_message_, true));
          break;
        case GrpcMessageReader::State::kCompressed:
          finish_gone(GrpcStatus::kUnimplemented, "messages must not be compressed");
          break;
        case GrpcMessageReader::State::kTooLarge:
          finish_gone(GrpcStatus::kResourceExhausted,
                      "the message is larger than " + std::to_string(shared().limits.message_bytes) + " bytes");
          break;
      }
    }
    return_window();
  }

  void on_input_end() {
    remote_closed_ = true;
    if (!finished_ && reader_.has_part()) return finish_gone(GrpcStatus::kInternal, "the last message is incomplete");
    if (!finished_ && !has_message_) finish(GrpcStatus::kInternal, "the request has no message");
    if (!finished_) shared().handler.on_half_closed(*this);
  }

  void on_closed() {
    if (!std::exchange(finished_, true) && has_message_) shared().handler.on_gone(*this);
  }

  [[nodiscard]] bool remote_closed() const { return remote_closed_; }

  // Moves bytes to the output.
  void take_out(std::size_t size) {
    connection_.out_.append(out_, sent_, size);
    connection_.stored_ -= size;
    sent_ += size;
    if (unsent() == 0) {
      clear_grpc_buffer(out_);
      sent_ = 0;
    }
    return_window();
  }

 private:
  [[nodiscard]] GrpcShared& shared() const { return connection_.shared_; }

  // Lets the client send more, unless it has to read first.
  void return_window() {
    if (withheld_ == 0 || (!finished_ && unsent() > shared().limits.call_unsent_bytes)) return;
    nghttp2_session_consume_stream(connection_.session_, stream_, std::exchange(withheld_, 0));
  }

  // Ends a call that the handler knows, without its doing.
  void finish_gone(GrpcStatus status, std::string_view text) {
    if (has_message_) shared().handler.on_gone(*this);
    finish(status, text);
  }

  void start() {
    started_ = true;
    const nghttp2_nv fields[] = {field(":status", "200"), field("content-type", kContentType)};
    nghttp2_data_provider source{};
    source.source.ptr = this;
    source.read_callback = [](nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t size, std::uint32_t* flags,
                              nghttp2_data_source* self,
                              void*) { return static_cast<Call*>(self->ptr)->provide(size, *flags); };
    nghttp2_submit_response(connection_.session_, stream_, fields, std::size(fields), &source);
  }

  void submit_only(const nghttp2_nv* fields, std::size_t count) {
    nghttp2_submit_response(connection_.session_, stream_, fields, count, nullptr);
    connection_.flush_soon();
  }

  void resume() {
    nghttp2_session_resume_data(connection_.session_, stream_);
    connection_.flush_soon();
  }

  // States how many bytes the next frame takes; take_out() follows.
  ssize_t provide(std::size_t size, std::uint32_t& flags) {
    const std::size_t count = std::min(size, unsent());
    if (count == 0 && !finished_) return NGHTTP2_ERR_DEFERRED;
    if (count > 0) flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (finished_ && count == unsent()) {
      flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const nghttp2_nv fields[] = {field("grpc-status", status_), field("grpc-message", text_)};
      if (nghttp2_submit_trailer(connection_.session_, stream_, fields, text_.empty() ? 1 : 2) != 0)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return static_cast<ssize_t>(count);
  }

  GrpcConnection& connection_;
  const std::int32_t stream_;
  std::string path_, out_, status_, text_;
  GrpcMessageReader reader_;
  std::size_t sent_ = 0;      // Of out_.
  std::size_t withheld_ = 0;  // Bytes received, for which the client has no new window yet.
  bool is_post_ = false, is_grpc_ = false, is_encoded_ = false;
  bool has_message_ = false, started_ = false, finished_ = false, remote_closed_ = false;
};

nghttp2_session_callbacks* GrpcConnection::callbacks() {
  static nghttp2_session_callbacks* const shared = [] {
    nghttp2_session_callbacks* made = nullptr;
    if (nghttp2_session_callbacks_new(&made) != 0) throw std::bad_alloc{};
    static constexpr auto of = [](void* data) -> GrpcConnection& { return *static_cast<GrpcConnection*>(data); };
    nghttp2_session_callbacks_set_on_begin_headers_callback(
        made,
        [](nghttp2_session*, const nghttp2_frame* frame, void* data) { return of(data).on_begin_headers(*frame); });
    nghttp2_session_callbacks_set_on_header_callback(
        made, [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                 const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* data) {
          return of(data).on_header(*frame, {reinterpret_cast<const char*>(name), name_size},
                                    {reinterpret_cast<const char*>(value), value_size});
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        made, [](nghttp2_session*, const nghttp2_frame* frame, void* data) { return of(data).on_frame(*frame); });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        made, [](nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes, std::size_t size,
                 void* data) {
          return of(data).on_data(stream, {reinterpret_cast<const char*>(bytes), size});
        });
    nghttp2_session_callbacks_set_send_data_callback(
        made,
        [](nghttp2_session*, nghttp2_frame*, const std::uint8_t* head, std::size_t size, nghttp2_data_source* source,
           void* data) { return of(data).on_send_data(head, size, *static_cast<Call*>(source->ptr)); });
    nghttp2_session_callbacks_set_on_frame_send_callback(
        made, [](nghttp2_session*, const nghttp2_frame* frame, void* data) { return of(data).on_sent(*frame); });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        made,
        [](nghttp2_session*, std::int32_t stream, std::uint32_t, void* data) { return of(data).on_closed(stream); });
    return made;
  }();
  return shared;
}

GrpcConnection::GrpcConnection(GrpcShared& shared, int descriptor, std::function<void(const GrpcConnection&)> retire)
    : shared_{shared},
      transport_{descriptor, shared.tls},
      retire_{std::move(retire)},
      interest_{EPOLLIN},
      deadline_{shared.loop.now() + shared.limits.start_time} {
  nghttp2_option* made = nullptr;
  if (nghttp2_option_new(&made) != 0) throw std::bad_alloc{};
  const std::unique_ptr<nghttp2_option, OptionDelete> option{made};
  nghttp2_option_set_stream_reset_rate_limit(option.get(), kResetsBurst, kResetsPerSecond);
  nghttp2_option_set_no_closed_streams(option.get(), 1);
  nghttp2_option_set_no_auto_window_update(option.get(), 1);
  if (nghttp2_session_server_new2(&session_, callbacks(), this, option.get()) != 0) throw std::bad_alloc{};
  const auto window = static_cast<std::uint32_t>(std::min<std::uint64_t>(shared_.limits.window_bytes, kWindowMax));
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, shared_.limits.calls},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, 16 * 1024}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  // The window of the connection is returned at once, so that it needs to bridge a round trip only.
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<std::int32_t>(std::min(std::uint64_t{window} * 4, kWindowMax)));
  const int on = 1;
  setsockopt(transport_.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  shared_.loop.watch(transport_.descriptor(), interest_, *this);
  ++shared_.counters.open;
}

GrpcConnection::~GrpcConnection() {
  if (!closed_) {
    shared_.loop.cancel(flush_timer_);
    shared_.loop.unwatch(transport_.descriptor(), *this);
    --shared_.counters.open;
  }
  calls_.clear();  // They use the other members.
  nghttp2_session_del(session_);
}

GrpcConnection::Call* GrpcConnection::find(std::int32_t stream) {
  const auto found = calls_.find(stream);
  return found == calls_.end() ? nullptr : found->second.get();
}

int GrpcConnection::on_begin_headers(const nghttp2_frame& frame) {
  if (frame.hd.type != NGHTTP2_HEADERS || frame.headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  calls_.emplace(frame.hd.stream_id, std::make_unique<Call>(*this, frame.hd.stream_id));
  ++shared_.counters.calls;
  return 0;
}

int GrpcConnection::on_header(const nghttp2_frame& frame, std::string_view name, std::string_view value) {
  if (frame.headers.cat != NGHTTP2_HCAT_REQUEST) return 0;  // A client's trailers mean nothing.
  if (Call* const call = find(frame.hd.stream_id)) call->take_field(name, value);
  return 0;
}

int GrpcConnection::on_frame(const nghttp2_frame& frame) {
  started_ = true;
  if (frame.hd.type == NGHTTP2_PING && (frame.hd.flags & NGHTTP2_FLAG_ACK) != 0 && notice_deadline_) refuse_calls();
  Call* const call = find(frame.hd.stream_id);
  if (call == nullptr) return 0;
  if (frame.hd.type == NGHTTP2_HEADERS && frame.headers.cat == NGHTTP2_HCAT_REQUEST) call->on_head();
  if ((frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA) &&
      (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
    call->on_input_end();
  return 0;
}

int GrpcConnection::on_data(std::int32_t stream, std::string_view bytes) {
  nghttp2_session_consume_connection(session_, bytes.size());
  if (Call* const call = find(stream)) call->take_data(bytes);
  return 0;
}

int GrpcConnection::on_send_data(const std::uint8_t* head, std::size_t size, Call& call) {
  if (out_.size() >= kOutputBytes) return NGHTTP2_ERR_WOULDBLOCK;
  out_.append(reinterpret_cast<const char*>(head), kFrameHeadBytes);
  call.take_out(size);
  return 0;
}

int GrpcConnection::on_sent(const nghttp2_frame& frame) {
  // The client has not ended its part, which is not read any more.
  if (frame.hd.type == NGHTTP2_HEADERS && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
    if (const Call* const call = find(frame.hd.stream_id); call != nullptr && !call->remote_closed())
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_NO_ERROR);
  return 0;
}

int GrpcConnection::on_closed(std::int32_t stream) {
  if (const auto found = calls_.find(stream); found != calls_.end()) {
    const std::unique_ptr<Call> call = std::move(found->second);
    calls_.erase(found);
    call->on_closed();
  }
  return 0;
}

void GrpcConnection::on_ready(std::uint32_t events) {
  if (closed_) return;
  try {
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read();
    if (!closed_) flush();
  } catch (const std::bad_alloc&) {
    close();
  }
}

void GrpcConnection::read() {
  char bytes[kReadBytes];
  do {
    const Transport::Transfer transfer = transport_.read(bytes, sizeof bytes);
    read_wants_write_ = transfer.wants_write;
    if (transfer.bytes > 0) {
      in_read_ = true;
      const ssize_t taken =
          nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(bytes), transfer.bytes);
      in_read_ = false;
      if (taken < 0) {
        ++shared_.counters.malformed;
        return close();
      }
    }
    if (transfer.closed || transfer.failed) return close();
  } while (transport_.has_pending());
}

void GrpcConnection::flush_soon() {
  if (in_read_ || closed_ || flush_timer_ != 0) return;
  flush_timer_ = shared_.loop.after(core::Duration{}, [this] {
    flush_timer_ = 0;
    on_ready(0);
  });
}

void GrpcConnection::flush() {
  const bool was_empty = out_.empty();
  bool is_blocked = false;
  while (!is_blocked) {
    while (out_.size() < kOutputBytes) {
      const std::uint8_t* bytes = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
      if (size < 0) return close();
      if (size == 0) break;
      out_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
    }
    if (out_.empty()) break;
    const Transport::Transfer transfer = transport_.write(out_);
    if (transfer.failed || transfer.closed) return close();
    is_blocked = transfer.bytes < out_.size();
    out_.erase(0, transfer.bytes);
    if (started_ && (was_empty || transfer.bytes > 0)) deadline_ = shared_.loop.now() + shared_.limits.write_time;
  }
  if (out_.size() + stored_ > shared_.limits.unsent_bytes) return close();
  const bool is_over = nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0;
  if (out_.empty() && (is_over || (ends_ && calls_.empty()))) return close();
  const std::uint32_t wanted = EPOLLIN | (out_.empty() && !read_wants_write_ ? 0U : EPOLLOUT);
  if (std::exchange(interest_, wanted) != wanted) shared_.loop.change(transport_.descriptor(), wanted, *this);
}

// A call that a client starts before it receives GOAWAY would be lost if that named the last call (RFC 9113, 6.8). So a
// first one names none, and what the client sends before it answers the ping is served.
void GrpcConnection::drain() {
  if (ends_ || notice_deadline_ || closed_) return;
  // A client that connects has a request for it.
  if (!started_) return shared_.draining ? refuse_calls() : void();
  notice_deadline_ = shared_.loop.now() + kNoticeTime;
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  flush_soon();
}

void GrpcConnection::refuse_calls() {
  notice_deadline_.reset();
  ends_ = true;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_),
                        NGHTTP2_NO_ERROR, nullptr, 0);
  flush_soon();
}

void GrpcConnection::check_deadlines() {
  if (closed_) return;
  if (notice_deadline_ && shared_.loop.now() >= *notice_deadline_) refuse_calls();
  if ((started_ && out_.empty()) || shared_.loop.now() < deadline_) return;
  ++shared_.counters.timed_out;
  close();
}

void GrpcConnection::close() {
  if (std::exchange(closed_, true)) return;
  shared_.loop.cancel(flush_timer_);
  shared_.loop.unwatch(transport_.descriptor(), *this);
  --shared_.counters.open;
  for (auto calls = std::exchange(calls_, {}); const auto& [stream, call] : calls) call->on_closed();
  retire_(*this);
}

}  // namespace penstock::net
