#include "connect/nats/session.h"

#include <fmt/format.h>
#include <nats/nats.h>
#include <openssl/crypto.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "net/address.h"

namespace penstock::connect {
namespace {

// A thread may still be in a TLS handshake when the process exits, so OpenSSL must not free its state at exit. This is
// effective only before anything else initialises it.
const bool kKeepsState = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;

using OptionsPointer = std::unique_ptr<natsOptions, decltype(&natsOptions_Destroy)>;

std::int64_t in_ms(core::Duration duration) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// What the server or libnats reports, and what the user can do.
std::string cause_of(natsStatus status, std::string_view text) {
  if (text.empty()) text = natsStatus_GetText(status);
  // With TLS 1.3 a server refuses a certificate after the handshake. libnats reads an empty line then.
  if (status == NATS_PROTOCOL_ERROR && text.ends_with("got ''"))
    return "the server ended the connection after the TLS handshake, as for a missing or unknown client certificate; "
           "check "
           "planner.nats.certificate and planner.nats.key";
  switch (status) {
    case NATS_NO_SERVER: return "no server answers; check the address, and that NATS runs there";
    case NATS_TIMEOUT: return "the server does not answer in time; check that it is a NATS server";
    case NATS_PROTOCOL_ERROR: return "the answer is not of the protocol of NATS; check the address";
    case NATS_CONNECTION_AUTH_FAILED:
      return fmt::format(
          "the server refused the credentials ({}); check user, token, creds_file or nkey of planner.nats", text);
    case NATS_SECURE_CONNECTION_WANTED: return "the server has no TLS; use the scheme nats://";
    case NATS_CONNECTION_CLOSED: return "the server closed the connection";
    case NATS_STALE_CONNECTION: return "the server does not answer";
    case NATS_NOT_PERMITTED:
      return fmt::format("the server refuses a subject ({}); permit it to the user of planner.nats", text);
    default: break;
  }
  if (has(text, "certificate required") || has(text, "bad certificate") || has(text, "unknown ca"))
    return fmt::format(
        "the server refused the client certificate ({}); check planner.nats.certificate and planner.nats.key", text);
  if (has(text, "trusted certificates")) return fmt::format("{}; check planner.nats.ca_file", text);
  if (status == NATS_SSL_ERROR)
    return fmt::format("TLS failed ({}); check planner.nats.ca_file and the name in the certificate", text);
  return std::string{text};
}

// Of the last call of libnats on this thread.
std::string last_cause() {
  natsStatus status = NATS_OK;
  const char* text = nats_GetLastError(&status);
  return cause_of(status, text == nullptr ? "" : text);
}

}  // namespace

class NatsSession::Worker : public std::enable_shared_from_this<Worker> {
 public:
  Worker(net::Loop& loop, NatsEndpoint server, NatsSessionOptions options, std::set<std::string> subjects,
         Listener listener)
      : server_(std::move(server)),
        options_(std::move(options)),
        listener_(std::move(listener)),
        loop_(&loop),
        subjects_(std::move(subjects)) {}

  void start() {
    try {
      std::thread{[self = shared_from_this()] { self->run(); }}.detach();
    } catch (const std::system_error& error) {
      post_end(fmt::format("no thread can be started: {}", error.what()));
    }
  }

  void stop() {
    is_stopped_ = true;
    std::unique_lock lock{mutex_};
    loop_ = nullptr;
    stopping_ = true;
    waiting_ = {};
    changed_.notify_all();
    if (is_open_) changed_.wait_for(lock, kEndWait, [this] { return !is_open_; });
  }

  void set_subjects(std::set<std::string> subjects) {
    const std::lock_guard lock{mutex_};
    subjects_ = std::move(subjects);
    has_changed_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] std::uint64_t dropped() {
    const std::lock_guard lock{mutex_};
    return dropped_;
  }

 private:
  struct Subscription {
    std::shared_ptr<Worker> worker;
    std::string subject;
  };
  struct Message {
    std::string subject;
    std::string payload;
  };

  // ---- the session's thread -----------------------------------------------------------------------------------------

  void run() {
    std::string cause = connect();
    if (connection_ != nullptr) {
      cause = serve();
      natsConnection_Close(connection_);
      for (const auto& [subject, subscription] : subscriptions_) natsSubscription_Destroy(subscription);
      natsConnection_Destroy(connection_);
    }
    post_end(std::move(cause));
    nats_ReleaseThreadMemory();
  }

  // Returns why there is no connection.
  std::string connect() {
    std::vector<net::Address> addresses;
    if (const auto numeric = net::Address::parse(server_.host, server_.port)) {
      addresses = {*numeric};
    } else {
      auto found = options_.resolve(server_.host, server_.port);
      if (!found) return found.error().message();
      addresses = *std::move(found);
    }
    std::string cause;
    for (const net::Address& address : addresses) {
      if (has_stopped()) break;
      cause = connect_to(address);
      if (connection_ != nullptr) break;
    }
    return cause;
  }

  std::string connect_to(const net::Address& address) {
    const auto secrets = read_nats_secrets(options_.access);
    if (!secrets) return secrets.error().message();
    natsOptions* made = nullptr;
    if (natsOptions_Create(&made) != NATS_OK) return last_cause();
    const OptionsPointer owner{made, natsOptions_Destroy};
    // libnats owns the closure of a connection until it calls `on_closed`, which is once if it was established.
    auto closure = std::make_unique<std::shared_ptr<Worker>>(shared_from_this());
    const bool is_good = set_connection(made, address, closure.get()) && set_tls(made) && set_identity(made, *secrets);
    if (!is_good || natsConnection_Connect(&connection_, made) != NATS_OK) {
      connection_ = nullptr;
      return last_cause();
    }
    static_cast<void>(closure.release());
    return {};
  }

  bool set_connection(natsOptions* made, const net::Address& address, void* closure) const {
    return natsOptions_SetURL(made, fmt::format("nats://{}", address.text()).c_str()) == NATS_OK &&
           natsOptions_SetName(made, "penstock") == NATS_OK &&
           natsOptions_SetTimeout(made, in_ms(options_.connect_time)) == NATS_OK &&
           natsOptions_SetWriteDeadline(made, in_ms(options_.connect_time)) == NATS_OK &&
           natsOptions_SetPingInterval(made, in_ms(options_.ping_interval)) == NATS_OK &&
           natsOptions_SetMaxPingsOut(made, 1) == NATS_OK && natsOptions_SetAllowReconnect(made, false) == NATS_OK &&
           natsOptions_SetIgnoreDiscoveredServers(made, true) == NATS_OK &&
           natsOptions_SetSendAsap(made, true) == NATS_OK &&
           // Otherwise each subscription would have a thread.
           natsOptions_UseGlobalMessageDelivery(made, true) == NATS_OK &&
           natsOptions_SetErrorHandler(made, on_error, closure) == NATS_OK &&
           natsOptions_SetClosedCB(made, on_closed, closure) == NATS_OK;
  }

  // Also for nats://, because a server may require TLS.
  bool set_tls(natsOptions* made) const {
    const NatsAccess& access = options_.access;
    return natsOptions_SetExpectedHostname(made, server_.host.c_str()) == NATS_OK &&
           (access.ca_file.empty() || natsOptions_LoadCATrustedCertificates(made, access.ca_file.c_str()) == NATS_OK) &&
           (access.certificate.empty() ||
            natsOptions_LoadCertificatesChain(made, access.certificate.c_str(), access.key_file.c_str()) == NATS_OK) &&
           (!server_.tls || natsOptions_SetSecure(made, true) == NATS_OK);
  }

  bool set_identity(natsOptions* made, const NatsSecrets& secrets) const {
    const NatsAccess& access = options_.access;
    return (access.user.empty() ||
            natsOptions_SetUserInfo(made, access.user.c_str(), secrets.password.c_str()) == NATS_OK) &&
           (secrets.token.empty() || natsOptions_SetToken(made, secrets.token.c_str()) == NATS_OK) &&
           (access.creds_file.empty() ||
            natsOptions_SetUserCredentialsFromFiles(made, access.creds_file.c_str(), nullptr) == NATS_OK) &&
           (access.nkey.empty() ||
            natsOptions_SetNKeyFromSeed(made, access.nkey.c_str(), access.seed_file.c_str()) == NATS_OK);
  }

  // Subscribes until the connection ends, and returns why it did.
  std::string serve() {
    std::unique_lock lock{mutex_};
    is_open_ = true;
    has_changed_ = true;
    for (bool is_first = true;; is_first = false) {
      changed_.wait(lock, [this] { return stopping_ || is_closed_ || has_changed_; });
      if (stopping_ || is_closed_) break;
      has_changed_ = false;
      const std::set<std::string> wanted = subjects_;
      lock.unlock();
      const bool is_good = subscribe(wanted) && (!is_first || flush());
      std::string cause = is_good ? std::string{} : last_cause();
      lock.lock();
      if (is_good && is_first) post_connected();
      if (!is_good && !is_closed_) return cause;
    }
    return closed_cause_;
  }

  bool flush() { return natsConnection_FlushTimeout(connection_, in_ms(options_.connect_time)) == NATS_OK; }

  bool subscribe(const std::set<std::string>& wanted) {
    std::erase_if(subscriptions_, [&](const auto& each) {
      if (wanted.contains(each.first)) return false;
      natsSubscription_Destroy(each.second);
      return true;
    });
    for (const std::string& subject : wanted) {
      if (subscriptions_.contains(subject)) continue;
      auto closure = std::make_unique<Subscription>(Subscription{shared_from_this(), subject});
      natsSubscription* made = nullptr;
      if (natsConnection_Subscribe(&made, connection_, subject.c_str(), on_message, closure.get()) != NATS_OK)
        return false;
      subscriptions_.emplace(subject, made);
      // libnats owns the closure until it calls `on_complete`. A connection that has just closed may never do so; the
      // closure is not freed then, because a message may still use it.
      natsSubscription_SetOnCompleteCB(made, on_complete, closure.release());
    }
    return true;
  }

  [[nodiscard]] bool has_stopped() {
    const std::lock_guard lock{mutex_};
    return stopping_;
  }

  // ---- threads of libnats -------------------------------------------------------------------------------------------

  static void on_message(natsConnection*, natsSubscription*, natsMsg* message, void* closure) {
    const auto& subscription = *static_cast<Subscription*>(closure);
    subscription.worker->take(subscription.subject,
                              {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))});
    natsMsg_Destroy(message);
  }
  static void on_complete(void* closure) { delete static_cast<Subscription*>(closure); }

  static void on_error(natsConnection* connection, natsSubscription*, natsStatus status, void* closure) {
    if (status != NATS_NOT_PERMITTED) return;  // The end of the connection names all others.
    const char* text = nullptr;
    natsConnection_GetLastError(connection, &text);
    Worker& self = **static_cast<std::shared_ptr<Worker>*>(closure);
    const std::lock_guard lock{self.mutex_};
    self.refusal_ = cause_of(status, text == nullptr ? "" : text);
    if (self.is_connected_) self.post_refusal();
  }

  static void on_closed(natsConnection* connection, void* closure) {
    const std::unique_ptr<std::shared_ptr<Worker>> owner{static_cast<std::shared_ptr<Worker>*>(closure)};
    const char* text = nullptr;
    natsStatus status = natsConnection_GetLastError(connection, &text);
    if (status == NATS_OK) status = NATS_CONNECTION_CLOSED;
    Worker& self = **owner;
    const std::lock_guard lock{self.mutex_};
    self.is_closed_ = true;
    self.closed_cause_ = cause_of(status, text == nullptr ? "" : text);
    self.changed_.notify_all();
  }

  void take(const std::string& subject, std::string_view payload) {
    const std::lock_guard lock{mutex_};
    if (loop_ == nullptr) return;
    if (waiting_.size() >= options_.waiting_max || waiting_bytes_ + payload.size() > options_.waiting_bytes_max) {
      ++dropped_;
      return;
    }
    waiting_bytes_ += payload.size();
    waiting_.push_back({subject, std::string{payload}});
    // One task hands over all messages that wait.
    if (waiting_.size() == 1) loop_->post([self = shared_from_this()] { self->deliver(); });
  }

  // ---- any thread, under the mutex ----------------------------------------------------------------------------------

  void post_connected() {
    is_connected_ = true;
    post([](Worker& self) { self.listener_.connected(); });
    if (!refusal_.empty()) post_refusal();
  }
  void post_refusal() {
    post([cause = refusal_](Worker& self) { self.listener_.refused(cause); });
  }
  void post(std::function<void(Worker&)> task) {
    if (loop_ == nullptr) return;
    loop_->post([self = shared_from_this(), task = std::move(task)] {
      if (!self->is_stopped_) task(*self);
    });
  }
  void post_end(std::string cause) {
    const std::lock_guard lock{mutex_};
    is_open_ = false;
    changed_.notify_all();
    post([cause = std::move(cause)](Worker& self) { self.listener_.ended(cause); });
  }

  // ---- the loop's thread --------------------------------------------------------------------------------------------

  void deliver() {
    std::vector<Message> messages;
    {
      const std::lock_guard lock{mutex_};
      messages.swap(waiting_);
      waiting_bytes_ = 0;
    }
    for (const Message& message : messages)
      if (!is_stopped_) listener_.message(message.subject, message.payload);
  }

  const NatsEndpoint server_;
  const NatsSessionOptions options_;
  const Listener listener_;
  bool is_stopped_ = false;  // Belongs to the loop's thread.

  // These belong to the session's thread.
  natsConnection* connection_ = nullptr;
  std::map<std::string, natsSubscription*> subscriptions_;

  std::mutex mutex_;  // Guards what follows.
  std::condition_variable changed_;
  net::Loop* loop_;  // Null: nothing is posted any more.
  std::set<std::string> subjects_;
  bool has_changed_ = false, stopping_ = false;
  bool is_open_ = false, is_closed_ = false;
  std::string closed_cause_;
  bool is_connected_ = false;  // The listener knows it.
  std::string refusal_;        // The last one.
  std::vector<Message> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t dropped_ = 0;
};

NatsSession::NatsSession(net::Loop& loop, NatsEndpoint server, NatsSessionOptions options,
                         std::set<std::string> subjects, Listener listener)
    : worker_(std::make_shared<Worker>(loop, std::move(server), std::move(options), std::move(subjects),
                                       std::move(listener))) {
  worker_->start();
}

NatsSession::~NatsSession() { worker_->stop(); }

void NatsSession::set_subjects(std::set<std::string> subjects) { worker_->set_subjects(std::move(subjects)); }

std::uint64_t NatsSession::dropped() const { return worker_->dropped(); }

std::weak_ptr<const void> NatsSession::thread() const { return worker_; }

}  // namespace penstock::connect
