// What the gateway does for a request beside reading and writing sockets: its body is read and its prefixes are hashed,
// the dispatcher lets it in, chooses a replica and accounts for it in the end.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "api/prompt_keys.h"
#include "api/request.h"
#include "core/random.h"
#include "gateway/shared_dispatcher.h"

namespace {

using namespace penstock;
using gateway::SharedDispatcher;

constexpr std::uint32_t kPrompts = 64;

struct NoListener final : dispatch::GrantListener {
  void deliver(dispatch::Ticket, const dispatch::Grant&) override {}
  void deliver(dispatch::Ticket, const dispatch::Refusal&) override {}
};

// The first half of each prompt is the same.
std::vector<std::string> chats(std::size_t bytes) {
  constexpr std::string_view kProse = "The quick brown fox jumps over the lazy dog, and then it goes back home. ";
  std::string shared;
  while (shared.size() < bytes / 2) shared += kProse;
  std::vector<std::string> made;
  for (std::uint32_t prompt = 0; prompt < kPrompts; ++prompt) {
    std::string content = shared + "prompt " + std::to_string(prompt) + ": ";
    while (content.size() < bytes) content += kProse;
    made.push_back(R"({"model":"m","messages":[{"role":"user","content":")" + content + R"("}],"max_tokens":10})");
  }
  return made;
}

gateway::GatewayOptions options_with_tenant() {
  gateway::GatewayOptions options;
  options.dispatch.tenants.resize(2);
  options.dispatch.tenants[0].name = "bench";
  options.dispatch.tenants[0].budget = {1e12, 0.0};
  options.dispatch.tenants[0].concurrent = 100'000;
  options.dispatch.tenants[1].name = "anonymous";
  options.dispatch.models = {{"m", {1.0, 0.5, 2.0}, 131'072}};
  options.dispatch.pressure.prefill_tokens_per_replica = 100'000'000;
  options.dispatch.picker.slow_start = core::Duration{};
  return options;
}

std::vector<gateway::ReplicaEndpoint> replicas(std::int64_t count) {
  std::vector<gateway::ReplicaEndpoint> specs;
  for (std::int64_t i = 0; i < count; ++i) {
    gateway::ReplicaEndpoint spec;
    spec.url = "http://127.0.0.1:" + std::to_string(20'000 + i);
    spec.id = spec.url;
    spec.model = "m";
    spec.addresses = {net::Address{}};
    specs.push_back(spec);
  }
  return specs;
}

void request_read_routed_and_accounted(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::string> bodies = chats(bytes);
  const gateway::GatewayOptions options = options_with_tenant();
  SharedDispatcher dispatcher{options, nullptr};
  core::Instant now = core::kStart;
  dispatcher.set_replicas(replicas(state.range(1)), now);
  NoListener listener;
  api::RequestReader reader;
  api::InferenceRequest request;
  std::vector<std::uint64_t> keys;
  std::size_t next = 0;
  for (auto _ : state) {
    const bool read = reader.read(api::Endpoint::kChatCompletions, bodies[next++ % kPrompts], request).has_value();
    api::prompt_keys(request.text, options.dispatch.key_tokens * api::kBytesPerToken, keys);
    dispatch::RequestInfo info;
    info.request_id = "req-0123456789abcdef";
    info.model = request.model;
    info.text_bytes = request.text.size();
    info.max_tokens = request.max_tokens;
    info.keys = keys;
    info.received_at = now;
    const gateway::RoutedArrival answer = dispatcher.arrive(info, listener, now);
    if (!read || !answer.grant) {
      state.SkipWithError("a request is not let in");
      break;
    }
    now += std::chrono::microseconds{100};
    dispatcher.attempt_ended(answer.ticket, dispatch::Attempt::kAnswered, now);
    dispatch::RequestOutcome ending;
    ending.usage = dispatch::TokenUsage{static_cast<std::uint32_t>(bytes / 4), 10, 0};
    dispatcher.ended(answer.ticket, ending, now);
    if (next % 512 == 0) static_cast<void>(dispatcher.tick(now));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(request_read_routed_and_accounted)
    ->ArgsProduct({{1000, 220'000}, {2, 256}})
    ->ArgNames({"bytes", "replicas"})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
