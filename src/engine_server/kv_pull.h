// A decode engine's fetch of the KV that a prefill engine holds for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "api/request.h"
#include "core/result.h"
#include "net/client.h"

namespace penstock::engine_server {

inline constexpr std::string_view kKvPath = "/penstock/v1/kv/";

class KvPull final : public net::ResponseListener {
 public:
  // `done(good)` comes once, later; it may destroy the pull. Destroyed earlier, it never comes.
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

// Where the KV is; an error if the parameters do not say, or say it by a name, which a network thread cannot look up.
[[nodiscard]] core::Result<net::Address> kv_address(const api::KvTransfer& transfer);

}  // namespace penstock::engine_server
