#include "engine_server/kv_pull.h"

#include <fmt/format.h>

#include <utility>

namespace penstock::engine_server {

KvPull::KvPull(net::Client& client, const net::Address& address, std::uint64_t block, std::string_view api_key,
               std::function<void(bool)> done)
    : done_(std::move(done)) {
  head_ = fmt::format("GET {}{} HTTP/1.1\r\nHost: {}\r\n", kKvPath, block, address.text());
  if (!api_key.empty()) head_ += fmt::format("Authorization: Bearer {}\r\n", api_key);
  head_ += "\r\n";
  net::CallOptions options;
  options.address = address;
  options.head_time = std::chrono::seconds{10};
  options.silence = std::chrono::seconds{30};
  call_ = &client.call(options, head_, {}, *this);
}

KvPull::~KvPull() {
  if (call_ != nullptr) call_->cancel();
}

void KvPull::end(bool good) {
  call_ = nullptr;
  const auto done = std::move(done_);  // A copy that outlives this object.
  done(good);
}

core::Result<net::Address> kv_address(const api::KvTransfer& transfer) {
  if (transfer.remote_block_ids.empty())
    return core::invalid_input("kv_transfer_params.remote_block_ids", "is missing");
  if (transfer.remote_port == 0 || transfer.remote_port > UINT16_MAX)
    return core::invalid_input("kv_transfer_params.remote_port", "must be from 1 to 65535");
  return net::Address::parse(transfer.remote_host, static_cast<std::uint16_t>(transfer.remote_port));
}

}  // namespace penstock::engine_server
