#include "engine_server/role_switch.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "engine_server/live_answer.h"

namespace penstock::engine_server {
namespace {

void refuse_switch(net::Exchange& exchange, std::string_view why) {
  respond_json(exchange, 400, exchange.head().field("x-request-id"),
               nlohmann::json{{"success", false}, {"message", why}}.dump());
}

std::string switched(signals::Role from, signals::Role to, std::string_view message) {
  return fmt::format(R"({{"success":true,"message":"{}","old_role":"{}","new_role":"{}"}})", message,
                     signals::to_string(from), signals::to_string(to));
}

}  // namespace

class RoleSwitch::PendingAnswer final : public net::ExchangeListener {
 public:
  PendingAnswer(net::Exchange& exchange, std::string body) : exchange_(&exchange), body_(std::move(body)) {
    exchange.listen(this);
  }
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;

  void send() {
    if (auto* exchange = std::exchange(exchange_, nullptr))
      respond_json(*exchange, 200, exchange->head().field("x-request-id"), body_);
  }
  void on_writable() override {}
  void on_client_gone() override { exchange_ = nullptr; }

 private:
  net::Exchange* exchange_;  // Null: the client has left, or has its response.
  std::string body_;
};

RoleSwitch::RoleSwitch(net::Loop& loop, RoleHooks hooks) : loop_(loop), hooks_(std::move(hooks)) {}

RoleSwitch::~RoleSwitch() { loop_.cancel(timer_); }

void RoleSwitch::answer(net::Exchange& exchange) {
  const auto body = nlohmann::json::parse(exchange.body(), nullptr, false);
  const std::string name = body.is_object() && body.contains("new_role") && body["new_role"].is_string()
                               ? body["new_role"].get<std::string>()
                               : std::string{};
  if (name != "prefill" && name != "decode") return refuse_switch(exchange, "new_role: must be prefill or decode");
  const signals::Role role = name == "prefill" ? signals::Role::kPrefill : signals::Role::kDecode;
  const signals::Role from = hooks_.role();
  if (from == signals::Role::kAggregated)
    return refuse_switch(exchange, "the engine is neither a prefill nor a decode engine");
  if (is_switching()) return refuse_switch(exchange, "a role switch is in progress");
  if (role == from)
    return respond_json(exchange, 200, exchange.head().field("x-request-id"),
                        switched(from, role, "already in target role"));
  if (!hooks_.is_idle()) return refuse_switch(exchange, "the engine is not idle");
  pending_ = std::make_unique<PendingAnswer>(exchange, switched(from, role, "ok"));
  timer_ = loop_.after(hooks_.switch_time(), [this, role] { finish(role); });
}

void RoleSwitch::finish(signals::Role role) {
  timer_ = 0;
  hooks_.set_role(role);
  std::exchange(pending_, nullptr)->send();
}

}  // namespace penstock::engine_server
