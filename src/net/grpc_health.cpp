#include "net/grpc_health.h"

#include <cstdint>
#include <utility>

#include "core/protobuf.h"

namespace penstock::net {
namespace {

constexpr std::string_view kHealthService = "/grpc.health.v1.Health/";
constexpr core::Duration kPublishInterval = std::chrono::seconds{1};

// HealthCheckResponse.ServingStatus.
enum ServingStatus : std::uint8_t { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

std::optional<std::string> read_service(std::string_view message) {
  std::string service;
  core::protobuf::Reader reader{message};
  while (const auto field = reader.next())
    if (field->number == 1) service = field->bytes;
  if (!reader.is_valid()) return std::nullopt;
  return service;
}

std::string health_response(int status) {
  core::protobuf::Writer response;
  response.varint(1, static_cast<std::uint64_t>(status));
  return std::move(response).message();
}

}  // namespace

GrpcHealth::GrpcHealth(Loop& loop, IsServing is_serving)
    : loop_{loop}, is_serving_{std::move(is_serving)}, timer_{loop.every(kPublishInterval, [this] { publish(); })} {}

GrpcHealth::~GrpcHealth() { loop_.cancel(timer_); }

bool GrpcHealth::serves(const GrpcCall& call) { return call.path().starts_with(kHealthService); }

int GrpcHealth::status_of(std::string_view service) const {
  const std::optional<bool> is_serving = is_serving_(service);
  if (!is_serving) return kServiceUnknown;
  return *is_serving ? kServing : kNotServing;
}

void GrpcHealth::on_message(GrpcCall& call, std::string_view message, bool is_first) {
  const std::string_view method = serves(call) ? call.path().substr(kHealthService.size()) : std::string_view{};
  if (method != "Check" && method != "Watch")
    return call.finish(GrpcStatus::kUnimplemented, "no method " + std::string{call.path()});
  if (!is_first) {
    watches_.erase(&call);
    return call.finish(GrpcStatus::kInvalidArgument, "the call takes one message");
  }
  auto service = read_service(message);
  if (!service) return call.finish(GrpcStatus::kInvalidArgument, "the message is malformed");
  const int status = status_of(*service);
  if (method == "Watch") return send(call, watches_[&call] = {std::move(*service)}, status);
  if (status == kServiceUnknown) return call.finish(GrpcStatus::kNotFound, "no service " + *service);
  call.send(health_response(status));
  call.finish(GrpcStatus::kOk);
}

void GrpcHealth::on_gone(GrpcCall& call) { watches_.erase(&call); }

void GrpcHealth::send(GrpcCall& call, Watch& watch, int status) {
  watch.sent = status;
  call.send(health_response(status));
}

void GrpcHealth::publish() {
  for (auto& [call, watch] : watches_) {
    if (call->unsent() > 0) continue;  // The client does not read; it gets the newest status later.
    if (const int status = status_of(watch.service); status != watch.sent) send(*call, watch, status);
  }
}

void GrpcHealth::end_watches() {
  for (const auto& [call, watch] : std::exchange(watches_, {}))
    call->finish(GrpcStatus::kUnavailable, "the server ends");
}

}  // namespace penstock::net
