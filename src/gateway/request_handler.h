// One request on its way through the gateway: authenticate, estimate, admit, route, relay, account.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/answer.h"
#include "api/answer_collector.h"
#include "api/request.h"
#include "core/random.h"
#include "gateway/keys.h"
#include "gateway/refusal.h"
#include "gateway/shared_dispatcher.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/server.h"

namespace penstock::gateway {

class RequestHandler;

// What the handlers of one thread share. `scratch` and `keys` hold what the request that is being read has; nothing in
// them outlives the call.
struct WorkerContext {
  const GatewayOptions& options;
  const KeyRing& key_ring;
  std::uint32_t anonymous_tenant;
  SharedDispatcher& dispatcher;
  dispatch::GrantListener& listener;
  net::Loop& loop;
  net::Client& client;
  core::RandomStream random;
  api::RequestReader reader{};
  api::InferenceRequest scratch{};
  std::vector<std::uint64_t> keys{};
  std::unordered_map<dispatch::Ticket, RequestHandler*> waiting{};
  std::vector<RequestHandler*> free{};
};

// Sessions are used again and again; all they hold between requests is their own size. One thread.
class RequestHandler final : private net::ExchangeListener, private net::ResponseListener {
 public:
  explicit RequestHandler(WorkerContext& context) : context_(context) {}

  void begin(net::Exchange& exchange, api::Endpoint endpoint);
  // What the dispatcher says of one that waited.
  void granted(RoutedGrant grant);
  void refused(const Refusal& refusal);

 private:
  enum class Leg : std::uint8_t { kWhole, kPrefill, kDecode };

  void on_writable() override;
  void on_client_gone() override;
  void on_head(const net::ResponseHead& head) override;
  void on_body(std::string_view bytes) override;
  void on_end() override;
  void on_fault(net::ClientFault fault, bool answered) override;

  [[nodiscard]] std::optional<Refusal> admit();
  [[nodiscard]] std::optional<std::uint32_t> authenticate() const;
  void go(RoutedGrant grant);
  void call();
  void write_request_head(std::string_view body);
  bool go_again(dispatch::Attempt attempt);  // false: there is nowhere to go
  bool call_elsewhere();                     // at the replica's next address; false: it has none left
  void take_response_head(const net::ResponseHead& head);
  void begin_answer();
  void end_prefill_leg();
  // An answer that is not streamed is collected from a stream where a time budget may cut it: request_handler_collect.cpp.
  void collect(std::string_view bytes);
  void end_collected();
  void answer_collected(ledger::Outcome outcome);
  void give_up(int status, std::string_view code, std::string message);
  void out_of_time();
  void end(ledger::Outcome outcome);  // the dispatcher's part
  net::Exchange& release();           // back to the others; what is left to say goes to the exchange
  void forget_call();

  WorkerContext& context_;
  net::Exchange* exchange_ = nullptr;
  net::Call* call_ = nullptr;
  dispatch::Ticket ticket_ = 0;
  net::Loop::Timer budget_ = 0;
  api::Endpoint endpoint_ = api::Endpoint::kChatCompletions;
  Leg leg_ = Leg::kWhole;
  bool stream_ = false;
  bool raw_ = true;            // the answer's framing is passed on
  bool raw_call_ = true;       // and comes with the bytes of this attempt
  bool answer_begun_ = false;  // bytes of it went to the client, or text of it is collected
  bool attempt_open_ = false;  // the dispatcher does not know yet how it went
  bool close_after_ = false;
  bool paused_ = false;
  bool overdue_ = false;  // its time is up, and the end of an event is waited for
  std::optional<std::uint64_t> content_length_;
  std::uint32_t address_ = 0;          // that is called, as the target counts
  std::uint32_t addresses_tried_ = 0;  // by this attempt
  int status_ = 0;
  core::Instant last_token_at_;
  RoutedGrant grant_;
  std::string request_id_;
  std::string body_;         // the client's; let go with the first byte of the answer
  std::string upstream_;     // head of the request to the replica …
  std::string leg_body_;     // … and its body where that is not the client's
  std::string_view sent_;    // of the two bodies the one that goes
  std::string answer_head_;  // until the first byte of the body; then let go
  api::AnswerWatch watch_;
  std::unique_ptr<api::AnswerCollector> collector_;  // null: what comes is passed on
};

// {"error":…} as the whole answer, with Retry-After and x-request-id.
void refuse(net::Exchange& exchange, const Refusal& refusal, std::string_view request_id);

}  // namespace penstock::gateway
