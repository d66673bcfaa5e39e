#include "net/server_core.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <utility>

#include "net/containment.h"
#include "net/server_connection.h"

namespace penstock::net {

namespace {

constexpr std::size_t kSparesMax = 64;
constexpr std::size_t kSpareBytesMax = 8 * 1024;  // Maximum string size that a spare request keeps.
constexpr std::size_t kOwnMemoryBytes = 512 * 1024 * 1024;
constexpr std::size_t kFrameBytesMax = 256 * 1024;  // Maximum size that is kept between calls.

core::Duration sweep_interval(const ServerLimits& limits) {
  const core::Duration shortest =
      std::min({limits.head_time, limits.body_time, limits.idle_time, limits.write_time}) / 4;
  return std::clamp<core::Duration>(shortest, std::chrono::milliseconds{5}, std::chrono::milliseconds{200});
}

// RFC 9110, §5.6.7. strftime() depends on the locale.
std::string format_date(std::time_t time) {
  static constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                          "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 64> line{};
  const int length = std::snprintf(line.data(), line.size(), "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n",
                                   kDays[static_cast<std::size_t>(parts.tm_wday)], parts.tm_mday,
                                   kMonths[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900, parts.tm_hour,
                                   parts.tm_min, parts.tm_sec);
  return {line.data(), static_cast<std::size_t>(length)};
}

void empty(std::string& text, std::size_t kept_bytes_max) {
  text.clear();
  if (text.capacity() > kept_bytes_max) text.shrink_to_fit();
}

}  // namespace

ServerCore::ServerCore(Loop& event_loop, ExchangeHandler& request_handler, const ServerLimits& server_limits,
                       std::shared_ptr<TlsContext> tls_context)
    : loop{event_loop},
      handler{request_handler},
      limits{server_limits},
      tls{std::move(tls_context)},
      memory{limits.memory != nullptr ? limits.memory
                                      : std::make_shared<MemoryBudget>(kOwnMemoryBytes, kOwnMemoryBytes)},
      descriptors{limits.reserved_descriptors},
      scratch{std::make_unique<char[]>(kScratchBytes)} {
  sweep_timer_ = loop.every(sweep_interval(limits), [this] { sweep(); });
}

ServerCore::~ServerCore() {
  loop.cancel(sweep_timer_);
  loop.cancel(deferred_timer_);
  for (Entry& entry : entries_) entry.connection->detach();
}

void ServerCore::add(int descriptor, const Address& peer) {
  const auto slot = static_cast<std::uint32_t>(entries_.size());
  auto connection = std::make_unique<ServerConnection>(*this, descriptor, peer, slot);
  entries_.push_back({core::kNever, std::move(connection)});
  ++counters.accepted;
  ++counters.open;
  entries_.back().connection->begin();
}

void ServerCore::retire(ServerConnection& connection) {
  const std::uint32_t slot = connection.slot();
  retired_.push_back(std::move(entries_[slot].connection));
  if (slot + 1 != entries_.size()) {
    entries_[slot] = std::move(entries_.back());
    entries_[slot].connection->set_slot(slot);
  }
  entries_.pop_back();
  --counters.open;
  defer();
}

void ServerCore::resume_later(ServerConnection& connection) {
  resumes_.push_back(&connection);
  defer();
}

void ServerCore::drain() {
  // Deferred, because reading needs the scratch buffer, which the caller may be using.
  drains_idle_ = true;
  defer();
}

void ServerCore::defer() {
  if (deferred_timer_ == 0) deferred_timer_ = loop.after(core::Duration{0}, [this] { run_deferred(); });
}

void ServerCore::run_deferred() {
  deferred_timer_ = 0;
  const auto gone = std::exchange(retired_, {});
  if (std::exchange(drains_idle_, false)) {
    for (std::size_t i = entries_.size(); i-- > 0;)
      if (i < entries_.size()) entries_[i].connection->drain();
  }
  // Connections that are destroyed meanwhile stay until the next round, so that these pointers are valid.
  for (ServerConnection* connection : std::exchange(resumes_, {}))
    contain([&] { connection->resume(); }, [&] { connection->on_no_memory(); });
}

void ServerCore::sweep() {
  const core::Instant now = loop.now();
  // In reverse order, because a connection that closes is replaced by the last one. A handler may close others, too.
  for (std::size_t i = entries_.size(); i-- > 0;)
    if (i < entries_.size() && entries_[i].deadline <= now) {
      ServerConnection& connection = *entries_[i].connection;
      contain([&] { connection.on_deadline(); }, [&] { connection.on_no_memory(); });
    }
}

std::unique_ptr<Request> ServerCore::take_request() {
  if (spare_.empty()) return std::make_unique<Request>();
  std::unique_ptr<Request> request = std::move(spare_.back());
  spare_.pop_back();
  return request;
}

void ServerCore::give_back(std::unique_ptr<Request> request) {
  if (spare_.size() >= kSparesMax) return;
  empty(request->head_bytes, kSpareBytesMax);
  request->body.clear(kSpareBytesMax);
  request->admitted_bytes = 0;
  request->payer = nullptr;
  request->chunks.reset();
  request->last_chunk_read = false;
  spare_.push_back(std::move(request));
}

void ServerCore::empty_frame() { empty(frame, kFrameBytesMax); }

std::string_view ServerCore::date_line() {
  const auto second = std::chrono::duration_cast<std::chrono::seconds>(loop.now().time_since_epoch()).count();
  if (second != date_second_) {
    date_second_ = second;
    date_line_ = format_date(std::time(nullptr));
  }
  return date_line_;
}

}  // namespace penstock::net
