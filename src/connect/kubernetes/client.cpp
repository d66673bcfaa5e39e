#include "connect/kubernetes/client.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace penstock::connect {
namespace {

constexpr std::size_t kObjectBytesMax = 64 * 1024 * 1024, kRefusalBytesMax = 64 * 1024;
constexpr std::string_view kUserAgent = "penstock";

bool is_success(int status) { return status >= 200 && status < 300; }

}  // namespace

struct KubernetesClient::Pending {
  ApiCall call;
  Done done;
  Backoff backoff;
  std::uint32_t attempts = 0;
  bool has_new_credentials = false;
};

// A request whose body comes in pieces.
class OpenStream final : public ApiStream, public net::ResponseListener {
 public:
  OpenStream(KubernetesClient& client, ApiCall call, core::Duration silence, ApiStreamListener& listener)
      : client_{client}, call_{std::move(call)}, silence_{silence}, listener_{listener} {}
  ~OpenStream() override {
    if (open_ != nullptr) open_->cancel();
  }
  OpenStream(const OpenStream&) = delete;
  OpenStream& operator=(const OpenStream&) = delete;

  void begin() {
    client_.prepare(call_, [this, alive = std::weak_ptr<int>{alive_}](auto request) {
      if (alive.expired()) return;
      if (!request) return listener_.on_error(request.error());
      request->call.silence = silence_;
      head_ = net::head_of(*request);
      open_ = &client_.client_.call(request->call, head_, {}, *this);
    });
  }

 private:
  void on_head(const net::ResponseHead& head) override {
    status_ = head.status;
    retry_after_ = head.field("retry-after");
    if (is_success(status_)) listener_.on_open();
  }
  void on_body(std::string_view bytes) override {
    if (is_success(status_)) return listener_.on_bytes(bytes);
    refusal_.append(bytes.substr(0, kRefusalBytesMax - std::min(refusal_.size(), kRefusalBytesMax)));
  }
  void on_end() override {
    open_ = nullptr;
    if (is_success(status_)) return listener_.on_end();
    if (status_ == 401) static_cast<void>(client_.reload_credentials());
    const ApiError error = api_error_of(call_, status_, refusal_, retry_after_);
    listener_.on_error(error);
  }
  void on_fault(net::ClientFault fault, bool) override {
    open_ = nullptr;
    std::string what = to_string(fault);
    if (!client_.client_.failure().empty()) what += ": " + client_.client_.failure();
    client_.report_unreachable();
    const ApiError error = api_error(call_, ApiReason::kUnreachable, std::move(what));
    listener_.on_error(error);
  }

  KubernetesClient& client_;
  const ApiCall call_;
  const core::Duration silence_;
  ApiStreamListener& listener_;
  net::Call* open_ = nullptr;
  std::string head_, refusal_, retry_after_;
  int status_ = 0;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

core::Result<std::unique_ptr<KubernetesClient>> KubernetesClient::start(net::Loop& loop, net::Client& client,
                                                                        KubernetesOptions options, Report report) {
  auto credentials = KubernetesCredentials::load(options.access);
  if (!credentials) return tl::make_unexpected(credentials.error());
  return std::unique_ptr<KubernetesClient>{
      new KubernetesClient{loop, client, std::move(options), *std::move(credentials), std::move(report)}};
}

KubernetesClient::KubernetesClient(net::Loop& loop, net::Client& client, KubernetesOptions options,
                                   KubernetesCredentials credentials, Report report)
    : loop_(loop),
      client_(client),
      options_(std::move(options)),
      credentials_(std::move(credentials)),
      report_(std::move(report)),
      random_(core::RandomStream{options_.seed}.fork("kubernetes")),
      rate_(options_.requests_per_s, options_.burst),
      resolver_(loop) {
  timer_ = loop_.every(options_.files_interval, [this] { refresh(); });
}

KubernetesClient::~KubernetesClient() { loop_.cancel(timer_); }

void KubernetesClient::after(core::Duration delay, std::function<void()> task) {
  loop_.after(delay, [alive = std::weak_ptr<int>{alive_}, task = std::move(task)] {
    if (!alive.expired()) task();
  });
}

void KubernetesClient::refresh() {
  const auto read = credentials_.refresh();
  const std::string cause = read ? std::string{} : read.error().message();
  if (std::exchange(reported_, cause) != cause && !cause.empty() && report_) report_(cause);
}

bool KubernetesClient::reload_credentials() {
  const auto read = credentials_.reload();
  return read && *read;
}

void KubernetesClient::request(ApiCall call, Done done) {
  attempt(std::make_shared<Pending>(
      Pending{std::move(call), std::move(done), Backoff{options_.backoff, random_.fork(++requests_)}}));
}

std::unique_ptr<ApiStream> KubernetesClient::stream(ApiCall call, core::Duration silence, ApiStreamListener& listener) {
  auto opened = std::make_unique<OpenStream>(*this, std::move(call), silence, listener);
  opened->begin();
  return opened;
}

void KubernetesClient::prepare(const ApiCall& call, Ready ready) {
  const auto wait = rate_.take(loop_.now(), options_.queue_time);
  // The delay of 0 keeps callbacks out of the caller's call.
  after(wait.value_or(core::Duration{0}), [this, call, is_over = !wait, ready = std::move(ready)] {
    if (is_over)
      return ready(tl::make_unexpected(
          api_error(call, ApiReason::kTooManyRequests,
                    fmt::format("more than {:g} requests per second are waiting", options_.requests_per_s))));
    resolve(call, ready);
  });
}

void KubernetesClient::resolve(const ApiCall& call, Ready ready) {
  if (address_) return ready(request_for(call));
  const net::Url& server = credentials_.access().server;
  resolver_.resolve(
      server.host, server.port, [this, call, ready = std::move(ready)](const net::Resolver::Addresses& addresses) {
        if (!addresses)
          return ready(tl::make_unexpected(api_error(call, ApiReason::kUnreachable, addresses.error().message())));
        // After a failure the next address has its turn.
        if (!address_) address_ = (*addresses)[addresses_tried_++ % addresses->size()];
        ready(request_for(call));
      });
}

net::FetchRequest KubernetesClient::request_for(const ApiCall& call) const {
  const KubernetesAccess& access = credentials_.access();
  net::FetchRequest request =
      net::request_to(access.server, *address_, target_of(call), options_.timeout, credentials_.tls());
  if (!access.server_name.empty()) request.call.host = access.server_name;
  request.method = method_of(call);
  request.field_lines = fmt::format("Accept: application/json\r\nUser-Agent: {}\r\n", kUserAgent);
  request.field_lines += credentials_.fields();
  if (!call.content_type.empty()) request.field_lines += "Content-Type: " + call.content_type + "\r\n";
  request.body = call.body;
  request.answer_bytes_max = kObjectBytesMax;
  return request;
}

void KubernetesClient::attempt(const std::shared_ptr<Pending>& pending) {
  ++pending->attempts;
  prepare(pending->call, [this, pending](auto request) {
    if (!request) return fail(pending, std::move(request.error()));
    if (method_of(pending->call) != "GET" && options_.may_write && !options_.may_write())
      return pending->done(tl::make_unexpected(
          api_error(pending->call, ApiReason::kRejected, "this planner does not lead; nothing was sent")));
    net::fetch(client_, *std::move(request),
               [this, pending, alive = std::weak_ptr<int>{alive_}](core::Result<net::FetchAnswer> answer) {
                 if (!alive.expired()) take(pending, std::move(answer));
               });
  });
}

void KubernetesClient::take(const std::shared_ptr<Pending>& pending, core::Result<net::FetchAnswer> answer) {
  const ApiCall& call = pending->call;
  if (!answer) {
    report_unreachable();
    return fail(pending, api_error(call, ApiReason::kUnreachable, answer.error().what));
  }
  if (answer->status == 401 && !pending->has_new_credentials && reload_credentials()) {
    pending->has_new_credentials = true;
    return attempt(pending);
  }
  if (!is_success(answer->status))
    return fail(pending, api_error_of(call, answer->status, answer->body, answer->field("retry-after")));
  auto object = nlohmann::json::parse(answer->body, nullptr, false);
  if (!object.is_object())
    return fail(pending, api_error(call, ApiReason::kMalformed, "the answer is not a JSON object"));
  pending->done(std::move(object));
}

void KubernetesClient::fail(const std::shared_ptr<Pending>& pending, ApiError error) {
  const bool is_read = method_of(pending->call) == "GET";
  const bool is_refused = error.reason == ApiReason::kTooManyRequests && error.retry_after.has_value();
  const bool is_broken = error.reason == ApiReason::kUnreachable || error.reason == ApiReason::kServerError ||
                         error.reason == ApiReason::kTooManyRequests;
  const bool is_safe = is_refused || (is_read && is_broken);
  if (!pending->call.is_retried || !is_safe || pending->attempts >= options_.attempts)
    return pending->done(tl::make_unexpected(std::move(error)));
  after(pending->backoff.next(error.retry_after), [this, pending] { attempt(pending); });
}

}  // namespace penstock::connect
