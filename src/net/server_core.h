// State that the connections of one server share: limits, scratch memory, deferred calls and deferred destruction.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"
#include "net/descriptors.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/server.h"
#include "net/server_request.h"

namespace penstock::net {

class ServerConnection;
class Address;

class ServerCore {
 public:
  static constexpr std::size_t kScratchBytes = 64 * 1024;

  ServerCore(Loop& event_loop, ExchangeHandler& request_handler, const ServerLimits& server_limits,
             std::shared_ptr<TlsContext> tls_context);
  ~ServerCore();
  ServerCore(const ServerCore&) = delete;
  ServerCore& operator=(const ServerCore&) = delete;

  void add(int descriptor, const Address& peer);
  void set_deadline(std::uint32_t slot, core::Instant deadline) { entries_[slot].deadline = deadline; }
  // Removes the connection. Its memory is freed once no handler of it can be on the stack.
  void retire(ServerConnection& connection);
  // Schedules resume() on the loop, where no handler is on the stack.
  void resume_later(ServerConnection& connection);
  // Each idle connection either serves a request that waits in its socket, or closes.
  void drain();

  [[nodiscard]] std::unique_ptr<Request> take_request();
  void give_back(std::unique_ptr<Request> request);
  void empty_frame();
  [[nodiscard]] std::string_view date_line();  // "Date: …\r\n"

  Loop& loop;
  ExchangeHandler& handler;
  const ServerLimits limits;
  std::shared_ptr<TlsContext> tls;  // Of connections that are accepted later.
  ServerCounters counters;
  bool draining = false;
  const std::shared_ptr<MemoryBudget> memory;
  DescriptorReserve descriptors;
  const std::unique_ptr<char[]> scratch;
  std::string frame;       // Assembly buffer for one send; empty between calls.
  std::string spare_head;  // Memory for the next response head.

 private:
  struct Entry {
    core::Instant deadline = core::kNever;  // Stored side by side, so that a sweep reads nothing else.
    std::unique_ptr<ServerConnection> connection;
  };

  void sweep();
  void defer();
  void run_deferred();

  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<ServerConnection>> retired_;
  std::vector<ServerConnection*> resumes_;
  std::vector<std::unique_ptr<Request>> spare_;
  Loop::Timer sweep_timer_ = 0, deferred_timer_ = 0;
  bool drains_idle_ = false;
  std::string date_line_;
  std::int64_t date_second_ = -1;
};

}  // namespace penstock::net
