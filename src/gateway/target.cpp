#include "gateway/target.h"

#include "core/result.h"

namespace penstock::gateway {

std::shared_ptr<const Target> make_target(const ReplicaEndpoint& replica) {
  auto target = std::make_shared<Target>();
  target->id = replica.id;
  target->model = replica.model;
  target->addresses = replica.addresses;
  const auto url = net::parse_url(replica.url);
  PENSTOCK_ASSERT(url.has_value(), "discovery hands over readable URLs only");
  target->tls = url->tls;
  target->credentials = replica.credentials;
  target->host = url->host;
  target->host_field = url->host_field();
  target->path_prefix = url->path;
  return target;
}

}  // namespace penstock::gateway
