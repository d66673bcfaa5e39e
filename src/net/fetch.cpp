#include "net/fetch.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace penstock::net {
namespace {

core::ErrorCode code_of(ClientFault fault, std::string_view failure) {
  if (fault == ClientFault::kTimeout) return core::ErrorCode::kTimeout;
  const bool is_refused = failure == std::strerror(ECONNREFUSED) || failure == std::strerror(ENETUNREACH);
  return fault == ClientFault::kConnect && is_refused ? core::ErrorCode::kRefused : core::ErrorCode::kEnvironment;
}

// Lives from the call to its last callback; the client keeps it.
class Fetching final : public ResponseListener {
 public:
  Fetching(FetchRequest request, std::function<void(core::Result<FetchAnswer>)> done)
      : request_(std::move(request)), done_(std::move(done)) {}

  void begin(Client& client) {
    head_ = head_of(request_);
    request_.call.raw = false;
    client_ = &client;
    call_ = &client.call(request_.call, head_, request_.body, *this);
  }

 private:
  void on_head(const ResponseHead& head) override {
    answer_.status = head.status;
    for (const Field& field : head.fields) answer_.fields.emplace_back(field.name, field.value);
  }
  void on_body(std::string_view bytes) override {
    if (answer_.body.size() + bytes.size() > request_.answer_bytes_max) {
      call_->cancel();
      return end(core::environment_error(request_.host_field + request_.target,
                                         fmt::format("the response exceeds {} bytes", request_.answer_bytes_max)));
    }
    answer_.body.append(bytes);
  }
  void on_end() override { end(std::move(answer_)); }
  void on_fault(ClientFault fault, bool) override {
    std::string what = to_string(fault);
    if (!client_->failure().empty()) what += ": " + client_->failure();
    end(tl::make_unexpected(
        core::Error{code_of(fault, client_->failure()), request_.host_field + request_.target, std::move(what), {}}));
  }
  void end(core::Result<FetchAnswer> result) {
    const auto self = client_->release(*this);
    done_(std::move(result));
  }

  FetchRequest request_;
  std::function<void(core::Result<FetchAnswer>)> done_;
  std::string head_;
  FetchAnswer answer_;
  Client* client_ = nullptr;
  Call* call_ = nullptr;
};

}  // namespace

std::string head_of(const FetchRequest& request) {
  std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.target, request.host_field);
  for (const Field& field : request.fields)
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", field.name, field.value);
  head += request.field_lines;
  if (!request.body.empty() || request.method != "GET")
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", request.body.size());
  return head += "\r\n";
}

std::string_view FetchAnswer::field(std::string_view name) const {
  for (const auto& [known, value] : fields)
    if (equal_fold(known, name)) return value;
  return {};
}

FetchRequest request_to(const Url& url, const Address& address, std::string_view path, core::Duration timeout,
                        const std::shared_ptr<TlsContext>& tls) {
  FetchRequest request = request_to(address, url.path + std::string{path}, timeout);
  if (url.tls) request.call.tls = tls;
  request.call.host = url.host;
  request.host_field = url.host_field();
  return request;
}

FetchRequest request_to(const Address& address, std::string path, core::Duration timeout) {
  FetchRequest request;
  request.call.address = address;
  request.call.head_time = request.call.silence = timeout;
  request.host_field = address.text();
  request.target = std::move(path);
  return request;
}

void fetch(Client& client, FetchRequest request, std::function<void(core::Result<FetchAnswer>)> done) {
  // A client that is destroyed first drops its calls without a callback.
  auto fetching = std::make_shared<Fetching>(std::move(request), std::move(done));
  client.keep(fetching);
  fetching->begin(client);
}

}  // namespace penstock::net
