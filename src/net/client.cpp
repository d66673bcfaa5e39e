#include "net/client.h"

#include <new>
#include <unordered_map>
#include <utility>

#include "core/enum_names.h"
#include "net/client_pool.h"

namespace penstock::net {

const char* to_string(ClientFault fault) {
  return core::name_of<ClientFault::kMalformed>(
      fault, {"no connection", "timeout", "closed before the response was complete", "malformed response"});
}

struct Client::State {
  std::unordered_map<const ResponseListener*, std::shared_ptr<ResponseListener>> kept;  // Outlive their calls.
  ClientPool pool;
};

Client::Client(Loop& loop, const ClientLimits& limits) : state_{new State{{}, {loop, limits}}} {}
Client::~Client() = default;

Call& Client::call(const CallOptions& options, std::string_view head, std::string_view body,
                   ResponseListener& listener) {
  ClientConnection& connection = state_->pool.take(options);
  try {
    connection.start(options, head, body, listener);
  } catch (const std::bad_alloc&) {
    state_->pool.drop(connection);
    throw;
  }
  return connection;
}

void Client::keep(std::shared_ptr<ResponseListener> listener) {
  const ResponseListener* key = listener.get();
  state_->kept.emplace(key, std::move(listener));
}

std::shared_ptr<ResponseListener> Client::release(const ResponseListener& listener) {
  const auto found = state_->kept.find(&listener);
  if (found == state_->kept.end()) return nullptr;
  auto released = std::move(found->second);
  state_->kept.erase(found);
  return released;
}

const std::string& Client::failure() const { return state_->pool.failure(); }

std::uint32_t Client::open_connections() const { return state_->pool.count(); }
void Client::close_idle(const Address& address) { state_->pool.close_idle(address); }

}  // namespace penstock::net
