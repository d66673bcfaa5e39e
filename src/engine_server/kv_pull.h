// Transfer of KV from a prefill engine to a decode engine, decode side.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "api/kv_transfer.h"
#include "core/result.h"
#include "net/client.h"

namespace penstock::engine_server {

inline constexpr std::string_view kKvPath = "/penstock/v1/kv/";

class KvPull final : public net::ResponseListener {
 public:
  // `done(good)` is called once, later, and may destroy the pull. A pull that is destroyed earlier never calls it.
  KvPull(net::Client& client, const net::Address& address, std::uint64_t block, std::string_view api_key,
         std::function<void(bool)> done);
  ~KvPull();
  KvPull(const KvPull&) = delete;
  KvPull& operator=(const KvPull&) = delete;

  void on_head(const net::ResponseHead& head) override { good_ = head.status == 200; }
  void on_body(std::string_view) override {}
  void on_end() override { end(good_); }
  void on_fault(net::ClientFault, bool) override { end(false); }

 private:
  void end(bool good);

  std::string head_;
  std::function<void(bool)> done_;
  net::Call* call_ = nullptr;
  bool good_ = false;
};

// Location of the KV. Missing parameters are errors, and so are host names, which a network thread cannot resolve.
[[nodiscard]] core::Result<net::Address> kv_address(const api::KvTransfer& transfer);

}  // namespace penstock::engine_server
