#include "gateway/replica_client.h"

#include <utility>

#include "net/address.h"

namespace penstock::gateway {

void ReplicaClient::send(const ReplicaEndpoint& replica, std::size_t address, const std::string& target,
                         std::string body, core::Duration timeout, Done done) {
  net::FetchRequest request =
      net::request_to(*net::parse_url(replica.url), replica.addresses[address % replica.addresses.size()], target,
                      timeout, replica.credentials ? replica.credentials->tls : nullptr);
  if (replica.credentials) request.field_lines = replica.credentials->fields;
  if (!body.empty()) {
    request.method = "POST";
    request.fields.push_back({"Content-Type", "application/json"});
    request.body = std::move(body);
  }
  net::fetch(client_, std::move(request), std::move(done));
}

}  // namespace penstock::gateway
