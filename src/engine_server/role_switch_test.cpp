// POST /pd_role_switch: an idle engine takes the other role and discards its KV cache.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine_server/server_testing.h"

namespace penstock::engine_server {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using nlohmann::json;

ServerOptions with_role(signals::Role role) {
  ServerOptions options = quick_options();
  options.role = role;
  return options;
}

std::string role_of(std::uint16_t port) {
  return json::parse(get(port, "/penstock/v1/info").body)["role"].get<std::string>();
}

Answer switch_to(std::uint16_t port, const std::string& role) {
  return post(port, "/pd_role_switch", json{{"new_role", role}}.dump());
}

TEST(RoleSwitch, AnIdleEngineTakesTheOtherRoleAsSglangDoes) {
  RunningServer server{with_role(signals::Role::kPrefill)};
  const Answer answer = switch_to(server.port, "decode");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(json::parse(answer.body),
            (json{{"success", true}, {"message", "ok"}, {"old_role", "prefill"}, {"new_role", "decode"}}));
  EXPECT_EQ(role_of(server.port), "decode");
  // A decode engine keeps no blocks of requests that have ended.
  EXPECT_EQ(post(server.port, kChat, chat_body("hi", 5)).status, 200);
  EXPECT_EQ(server.on_loop([](EngineServer& one) { return one.engine_state().active_kv_tokens; }), 0U);
  EXPECT_EQ(json::parse(switch_to(server.port, "decode").body)["message"], "already in target role");
  EXPECT_EQ(switch_to(server.port, "prefill").status, 200);
  EXPECT_EQ(role_of(server.port), "prefill");
}

TEST(RoleSwitch, TakesTheSwitchTimeAndServesNothingMeanwhile) {
  ServerOptions options = with_role(signals::Role::kDecode);
  options.switch_time = 300ms;
  RunningServer server{options};
  const auto before = std::chrono::steady_clock::now();
  Connection switching{server.port};
  switching.send("POST", "/pd_role_switch", R"({"new_role":"prefill"})");
  server.wait_for([&] { return post(server.port, kChat, chat_body("hi", 5)).status == 503; });
  EXPECT_EQ(role_of(server.port), "decode");
  EXPECT_EQ(json::parse(switch_to(server.port, "prefill").body)["message"], "a role switch is in progress");
  EXPECT_EQ(switching.read_answer().status, 200);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 300ms);
  EXPECT_EQ(role_of(server.port), "prefill");
}

TEST(RoleSwitch, RefusesWithARequestInFlightAndWithoutARole) {
  RunningServer server{with_role(signals::Role::kDecode)};
  Connection client{server.port};
  client.send("POST", kChat, chat_body("hi", 2000, R"("stream":true)"));
  server.wait_for([&] { return server.on_loop([](EngineServer& one) { return one.requests_open(); }) == 1; });
  const Answer busy = switch_to(server.port, "prefill");
  EXPECT_EQ(busy.status, 400);
  EXPECT_EQ(json::parse(busy.body), (json{{"success", false}, {"message", "the engine is not idle"}}));
  EXPECT_EQ(role_of(server.port), "decode");

  RunningServer aggregated;
  EXPECT_EQ(switch_to(aggregated.port, "prefill").status, 400);
}

TEST(RoleSwitch, BadBodiesAndMethodsAreRefused) {
  RunningServer server{with_role(signals::Role::kDecode)};
  for (const char* body : {"", "{", "[]", "{}", R"({"new_role":1})", R"({"new_role":"both"})"}) {
    const Answer answer = post(server.port, "/pd_role_switch", body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_EQ(json::parse(answer.body)["message"], "new_role: must be prefill or decode") << body;
  }
  EXPECT_EQ(get(server.port, "/pd_role_switch").status, 405);
}

}  // namespace
}  // namespace penstock::engine_server
