#include "net/client.h"

#include "net/client_pool.h"

namespace penstock::net {

const char* to_string(ClientFault fault) {
  switch (fault) {
    case ClientFault::kConnect: return "no connection";
    case ClientFault::kTimeout: return "timeout";
    case ClientFault::kClosed: return "closed before the response was complete";
    case ClientFault::kMalformed: return "malformed response";
  }
  return "";
}

struct Client::State {
  ClientPool pool;
};

Client::Client(Loop& loop, const ClientLimits& limits) : state_{new State{{loop, limits}}} {}
Client::~Client() = default;

Call& Client::call(const CallOptions& options, std::string_view head, std::string_view body,
                   ResponseListener& listener) {
  ClientConnection& connection = state_->pool.take(options);
  connection.start(options, head, body, listener);
  return connection;
}

std::uint32_t Client::open_connections() const { return state_->pool.count(); }
void Client::close_idle(const Address& address) { state_->pool.close_idle(address); }

}  // namespace penstock::net
