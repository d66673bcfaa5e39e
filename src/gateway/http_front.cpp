#include "gateway/http_front.h"

namespace penstock::gateway {

HttpFront::HttpFront(net::Loop& loop, int listening, net::ExchangeHandler& handler, const GatewayOptions& options)
    : client_{loop, options.client}, server_{loop, listening, handler, options.server, options.tls} {}

net::Call& HttpFront::call(net::Exchange&, const Target&, const net::CallOptions& options, std::string_view head,
                           std::string_view body, net::ResponseListener& listener) {
  return client_.call(options, head, body, listener);
}

}  // namespace penstock::gateway
