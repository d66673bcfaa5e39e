// Client of an API server of Kubernetes: one set of credentials, one rate limit, retries.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/backoff.h"
#include "connect/kubernetes/credentials.h"
#include "core/result.h"
#include "core/time.h"
#include "net/client.h"
#include "net/fetch.h"
#include "net/loop.h"
#include "net/resolver.h"

namespace penstock::connect {

struct KubernetesOptions {
  KubernetesAccess access;
  double requests_per_s = 20.0;  // All requests of the client together, watches included.
  std::uint32_t burst = 40;
  core::Duration queue_time = std::chrono::seconds{30};  // Longest wait for the rate limit.
  core::Duration timeout = std::chrono::seconds{10};     // For the head of an answer, and between pieces of its body.
  BackoffOptions backoff;
  std::uint32_t attempts = 4;  // Of one request.
  std::uint64_t seed = 1;      // Of the random part of delays.
  core::Duration files_interval = std::chrono::seconds{1};
  // Asked right before a request that changes something is sent, however long it has waited or been repeated. Where it
  // returns false, the request fails with kRejected. Empty: all requests may be sent.
  std::function<bool()> may_write{};
};

// A body that comes in pieces. One of the two last calls ends it.
class ApiStreamListener {
 public:
  virtual void on_open() = 0;  // The server accepted the request.
  virtual void on_bytes(std::string_view bytes) = 0;
  virtual void on_end() = 0;  // The server has ended the body.
  virtual void on_error(const ApiError& error) = 0;

 protected:
  ~ApiStreamListener() = default;
};

// Destroying it cancels the request. It may be destroyed within a call of its listener.
class ApiStream {
 public:
  virtual ~ApiStream() = default;
};

// Lives on one loop. Callbacks come later, never within the call, and not after the client was destroyed.
//
// It repeats, with a delay, any request that the server refuses with 429 and Retry-After before it has acted, and reads
// that failed because of the server or the connection. The caller decides about writes that failed otherwise. A request
// with expired credentials is repeated once if their files have changed.
class KubernetesClient {
 public:
  using Done = std::function<void(ApiAnswer)>;
  // Gets why files of credentials cannot be read again; once until it is another cause.
  using Report = std::function<void(const std::string& cause)>;

  [[nodiscard]] static core::Result<std::unique_ptr<KubernetesClient>> start(net::Loop& loop, net::Client& client,
                                                                             KubernetesOptions options, Report report);
  ~KubernetesClient();
  KubernetesClient(const KubernetesClient&) = delete;
  KubernetesClient& operator=(const KubernetesClient&) = delete;

  void request(ApiCall call, Done done);
  // `silence`: longest time between two pieces.
  [[nodiscard]] std::unique_ptr<ApiStream> stream(ApiCall call, core::Duration silence, ApiStreamListener& listener);

  [[nodiscard]] const KubernetesAccess& access() const { return credentials_.access(); }
  [[nodiscard]] core::RandomStream random() const { return random_; }
  [[nodiscard]] const KubernetesOptions& options() const { return options_; }

 private:
  friend class OpenStream;
  struct Pending;
  using Ready = std::function<void(tl::expected<net::FetchRequest, ApiError>)>;

  KubernetesClient(net::Loop& loop, net::Client& client, KubernetesOptions options, KubernetesCredentials credentials,
                   Report report);
  // Calls `ready` with the request once the rate limit lets it go and the address is known.
  void prepare(const ApiCall& call, Ready ready);
  void resolve(const ApiCall& call, Ready ready);
  [[nodiscard]] net::FetchRequest request_for(const ApiCall& call) const;
  void attempt(const std::shared_ptr<Pending>& pending);
  void take(const std::shared_ptr<Pending>& pending, core::Result<net::FetchAnswer> answer);
  void fail(const std::shared_ptr<Pending>& pending, ApiError error);
  void refresh();
  void after(core::Duration delay, std::function<void()> task);
  void report_unreachable() { address_.reset(); }  // The name may have another address by now.
  [[nodiscard]] bool reload_credentials();

  net::Loop& loop_;
  net::Client& client_;
  const KubernetesOptions options_;
  KubernetesCredentials credentials_;
  const Report report_;
  const core::RandomStream random_;
  RequestRate rate_;
  std::optional<net::Address> address_;
  std::size_t addresses_tried_ = 0;
  std::uint64_t requests_ = 0;
  std::string reported_;
  net::Loop::Timer timer_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();  // Tasks may come after the end.
  net::Resolver resolver_;
};

}  // namespace penstock::connect
