// Real processes: a few lines of Python stand for an engine.
#include "controller/local_fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "controller/live_testing.h"
#include "logging/log_testing.h"

namespace penstock::controller {
namespace {

using namespace std::chrono_literals;
using actuation::Stage;

constexpr const char* kEngine = R"py(#!/usr/bin/env python3
import http.server, json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
port = int(sys.argv[sys.argv.index("--port") + 1])
sleeping = False
role = sys.argv[sys.argv.index("--role") + 1] if "--role" in sys.argv else "aggregated"
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        info = open(os.path.join(folder, "info.json"), "rb").read()
        info = info.replace(b"{", b'{"is_sleeping":true,' if sleeping else b'{"is_sleeping":false,', 1)
        info = info.replace(b"{", b'{"role":"' + role.encode() + b'",', 1)
        self.answer(info if "info" in self.path else b"")
    def do_POST(self):
        global sleeping, role
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.path.startswith("/sleep") and os.path.exists(os.path.join(folder, "refuses")):
            return self.send_error(500)
        if self.path.startswith("/sleep") or self.path == "/wake_up":
            sleeping = self.path.startswith("/sleep")
        if self.path == "/pd_role_switch" and os.path.exists(os.path.join(folder, "refuses")):
            return self.send_error(400)
        if self.path == "/pd_role_switch":
            role = json.loads(body)["new_role"]
        with open(os.path.join(folder, "prompts"), "ab") as file:
            file.write(self.path.encode() + b" " + body + b"\n")
        self.answer(b"{}")
    def log_message(self, *_):
        pass
print("engine", " ".join(sys.argv[1:]), flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
)py";
constexpr const char* kReady =
    R"({"state":"ready","requests_open":0,"transfers_open":0,"fpm_endpoint":null,"kv_events_endpoint":"tcp://e:1",)"
    R"("block_tokens":16,"kv_blocks":500})";

class LocalFleetTest : public ::testing::Test {
 protected:
  LocalFleetTest() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-fleet-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    write("engine.py", kEngine);
    std::filesystem::permissions(folder / "engine.py", std::filesystem::perms::owner_all);
    write("info.json", kReady);
    options.program = folder / "engine.py";
    options.state_file = folder / "fleet.json";
    options.replicas_file = folder / "replicas.json";
    options.log_folder = folder;
    options.dies_with_us = true;  // what a test leaves behind ends with the program
    // Somewhere that is likely to be free; ports that are not are passed over.
    const int listening = *net::listen_on(net::Address{}, false);
    const std::uint16_t port = std::min<std::uint16_t>(net::local_address(listening).port(), 65'000);
    ::close(listening);
    options.ports = {port, static_cast<std::uint16_t>(port + 300)};
    options.limits.backoff_first = 100ms;
    options.pools.resize(1);
    options.pools[0].name = "chat";
    options.pools[0].arguments = {"--speed", "2"};
    // A gateway that does what the file says.
    loop.every(50ms, [this] {
      if (!fleet) return;
      GatewayState state;
      if (const auto entries = connect::load_replicas(options.replicas_file))
        for (const connect::ReplicaEntry& entry : *entries) {
          GatewayReplica& replica = state.replicas[entry.id];
          replica.eligible = entry.state == connect::ReplicaTraffic::kServing;
          replica.open_requests = open_requests;
        }
      fleet->update_gateway(state, loop.now());
    });
  }
  ~LocalFleetTest() override {
    fleet.reset();
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  }
  void write(const char* name, const char* text) const { std::ofstream{folder / name} << text; }
  [[nodiscard]] std::string read(const char* name) const {
    std::ifstream file{folder / name};
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void open() {
    auto opened = LocalFleet::open(loop, client, log, options);
    ASSERT_TRUE(opened) << opened.error().message();
    fleet = *std::move(opened);
  }
  // Until a replica is in that stage; its number, or 0.
  std::uint32_t run_until_some(Stage stage) {
    std::uint32_t found = 0;
    EXPECT_TRUE(run_until(loop, [&] {
      for (const actuation::Replica& replica : fleet->state().replicas)
        if (replica.stage == stage) found = replica.id;
      return found != 0;
    })) << event_text();
    return found;
  }
  void run_for(core::Duration time) {
    loop.after(time, [this] { loop.stop(); });
    loop.run();
  }
  [[nodiscard]] std::string event_text() const {
    std::string text;
    for (const FleetEvent& event : fleet->events()) text += (event.warning ? "! " : "  ") + event.text + "\n";
    return text;
  }
  [[nodiscard]] bool has_event(std::string_view part) const { return event_text().find(part) != std::string::npos; }

  std::filesystem::path folder;
  LocalFleetOptions options;
  logging::testing::CapturedLog log;
  net::Loop loop;
  net::Client client{loop};
  std::unique_ptr<LocalFleet> fleet;
  std::uint32_t open_requests = 0;
};

TEST_F(LocalFleetTest, HotPrefixesOfItsModelAreSentAfterTheOtherPromptsAndBeforeItServes) {
  options.warm_up.representative = 1;
  open();
  fleet->recent_prompts({100});
  fleet->hot_prefixes({{"other", "/v1/completions", R"({"prompt":"none of ours"})", 300, 9},
                       {options.pools[0].model, "/v1/chat/completions", R"({"messages":"shared"})", 300, 9}});
  fleet->set_target(0, 1);
  run_until_some(Stage::kServing);
  const std::string prompts = read("prompts");
  EXPECT_EQ(prompts.find("none of ours"), std::string::npos);
  EXPECT_NE(prompts.find("\n/v1/chat/completions {\"messages\":\"shared\"}\n"), std::string::npos) << prompts;
  EXPECT_LT(prompts.find("warm-up"), prompts.find("shared"));
}

TEST_F(LocalFleetTest, AReplicaAsleepIsWokenBeforeAnotherIsStarted) {
  open();
  fleet->set_target(0, 1);
  fleet->set_asleep(0, 1);
  const std::uint32_t sleeper = run_until_some(Stage::kAsleep);
  EXPECT_TRUE(run_until(loop, [&] { return read("prompts").find("/sleep?level=1&mode=wait") != std::string::npos; }));
  run_until_some(Stage::kServing);
  signals::PoolObservation seen;
  fleet->fill(0, seen);
  EXPECT_EQ(seen.ready, 1U);
  EXPECT_EQ(seen.asleep, 1U);
  EXPECT_EQ(seen.asleep_target, 1U);
  // The gateway does not know a replica that is asleep.
  const auto listed = connect::load_replicas(options.replicas_file);
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 1U);
  EXPECT_NE((*listed)[0].id, "chat-" + std::to_string(sleeper));

  fleet->set_target(0, 2);
  fleet->set_asleep(0, 0);
  EXPECT_TRUE(run_until(loop, [&] { return fleet->state().find(sleeper)->stage == Stage::kServing; })) << event_text();
  EXPECT_NE(read("prompts").find("/wake_up"), std::string::npos);
  EXPECT_EQ(fleet->state().replicas.size(), 2U);  // None was started.
}

TEST_F(LocalFleetTest, AReplicaThatIsNotNeededSleepsOnlyWhenItsRequestsHaveEnded) {
  open();
  fleet->set_target(0, 1);
  const std::uint32_t id = run_until_some(Stage::kServing);
  open_requests = 2;
  run_for(300ms);
  fleet->set_target(0, 0);
  fleet->set_asleep(0, 1);
  run_until_some(Stage::kDraining);
  run_for(1s);
  EXPECT_EQ(fleet->state().find(id)->stage, Stage::kDraining);
  EXPECT_EQ(read("prompts").find("/sleep"), std::string::npos);
  open_requests = 0;
  EXPECT_EQ(run_until_some(Stage::kAsleep), id);
}

TEST_F(LocalFleetTest, ARestartedPlannerKnowsTheReplicasAsleepAndWakesThem) {
  open();
  fleet->set_target(0, 1);
  fleet->set_asleep(0, 1);
  const std::uint32_t sleeper = run_until_some(Stage::kAsleep);
  run_until_some(Stage::kServing);
  fleet.reset();
  open();
  run_for(500ms);
  EXPECT_EQ(fleet->state().find(sleeper)->stage, Stage::kAsleep);
  fleet->set_target(0, 2);
  fleet->set_asleep(0, 0);
  EXPECT_TRUE(run_until(loop, [&] { return fleet->state().find(sleeper)->stage == Stage::kServing; })) << event_text();
  EXPECT_EQ(fleet->state().replicas.size(), 2U);
}

TEST_F(LocalFleetTest, AReplicaThatOnePoolDoesNotNeedServesInTheOtherOneWithItsNewRole) {
  options.pools.resize(2);
  const signals::Role roles[] = {signals::Role::kPrefill, signals::Role::kDecode};
  for (std::size_t i = 0; i < 2; ++i) {
    options.pools[i].role = roles[i];
    options.pools[i].name = to_string(roles[i]);
    options.pools[i].arguments = {"--role", to_string(roles[i])};
    options.pools[i].role_switch = actuation::RoleSwitch{to_string(roles[1 - i]), 1s, 60s};
  }
  open();
  fleet->set_target(0, 2);
  fleet->set_target(1, 1);
  const auto serving = [&](const std::string& pool) {
    return std::count_if(fleet->state().replicas.begin(), fleet->state().replicas.end(),
                         [&](const auto& replica) { return replica.pool == pool && replica.stage == Stage::kServing; });
  };
  EXPECT_TRUE(run_until(loop, [&] { return serving("prefill") == 2 && serving("decode") == 1; })) << event_text();
  write("refuses", "");
  fleet->set_target(0, 1);
  fleet->set_target(1, 2);
  const std::uint32_t drains = run_until_some(Stage::kDraining);
  const auto leaving = fleet->replicas(0);
  const auto view =
      std::find_if(leaving.begin(), leaving.end(), [&](const auto& each) { return each.seen.replica == drains; });
  ASSERT_NE(view, leaving.end());
  EXPECT_EQ(view->switch_to, "decode");
  const std::uint32_t id = run_until_some(Stage::kSwitching);
  EXPECT_EQ(fleet->role_switches(1), 0U) << "it has not its new role yet";
  EXPECT_TRUE(run_until(loop, [&] { return has_event("could not change its role: status 400"); })) << event_text();
  EXPECT_EQ(fleet->state().find(id)->pool, "decode");
  std::filesystem::remove(folder / "refuses");
  EXPECT_TRUE(run_until(loop, [&] { return serving("decode") == 2; })) << event_text();
  EXPECT_NE(read("prompts").find("/pd_role_switch {\"new_role\":\"decode\"}"), std::string::npos);
  EXPECT_EQ(fleet->state().replicas.size(), 3U);  // None was started.
  EXPECT_EQ(fleet->role_switches(1), 1U);
  EXPECT_EQ(fleet->role_switches(0), 0U);
  const auto listed = connect::load_replicas(options.replicas_file);
  ASSERT_TRUE(listed);
  for (const connect::ReplicaEntry& entry : *listed)
    if (entry.id == "decode-" + std::to_string(id)) {
      EXPECT_EQ(entry.role, signals::Role::kDecode);
    }
}

TEST_F(LocalFleetTest, ARequestToSleepThatFailsIsReportedAndRepeated) {
  write("refuses", "");
  open();
  fleet->set_asleep(0, 1);
  run_until_some(Stage::kAsleep);
  EXPECT_TRUE(run_until(loop, [&] { return has_event("could not be put to sleep: status 500"); })) << event_text();
  std::filesystem::remove(folder / "refuses");
  EXPECT_TRUE(run_until(loop, [&] { return read("prompts").find("/sleep") != std::string::npos; })) << event_text();
}

TEST_F(LocalFleetTest, AReplicaStartsWarmsUpServesDrainsAndEnds) {
  open();
  fleet->recent_prompts({100, 200, 3000});
  fleet->set_target(0, 1);
  const std::uint32_t id = run_until_some(Stage::kServing);
  const actuation::Replica serving = *fleet->state().find(id);
  EXPECT_NE(read("chat-1.log").find("engine engine --speed 2 --id chat-1 --port " + std::to_string(serving.ports[0])),
            std::string::npos)
      << read("chat-1.log");
  EXPECT_NE(read("prompts").find(R"("max_tokens":8)"), std::string::npos) << "it was warmed up before it served";
  const auto entries = connect::load_replicas(options.replicas_file);
  ASSERT_TRUE(entries) << entries.error().message();
  ASSERT_EQ(entries->size(), 1U);
  EXPECT_EQ(entries->front().id, "chat-1");
  EXPECT_EQ(entries->front().state, connect::ReplicaTraffic::kServing);
  EXPECT_EQ(entries->front().kv_events, "tcp://e:1");
  signals::PoolObservation seen;
  fleet->fill(0, seen);
  EXPECT_EQ(seen.ready, 1U);
  EXPECT_EQ(seen.target_replicas, 1U);
  EXPECT_FALSE(seen.replicas.at(0).sample) << "an engine without metrics says nothing";

  open_requests = 1;
  bool ended = false;
  fleet->stop_all([&] { ended = true; });
  EXPECT_EQ(run_until_some(Stage::kDraining), id);
  EXPECT_FALSE(run_until(loop, [&, looks = 0]() mutable { return ended || ++looks > 100; }) && ended)
      << "it is not stopped while a request is open";
  open_requests = 0;
  EXPECT_TRUE(run_until(loop, [&] { return ended; })) << event_text();
  EXPECT_TRUE(connect::load_replicas(options.replicas_file)->empty());
  fleet->set_target(0, 5);
  EXPECT_EQ(fleet->target(0), 0U) << "a fleet that stops takes no more targets";
  EXPECT_EQ(log.count(logging::Event::kProcessStarted), 1U);
  EXPECT_EQ(log.count(logging::Event::kProcessEnded), 1U);
  std::vector<std::string> stages;
  for (const std::string& line : log.lines(logging::Event::kReplicaState))
    stages.push_back(line.substr(line.find(" to=") + 4));
  EXPECT_EQ(stages, (std::vector<std::string>{"starting", "warming", "serving", "draining", "stopping", "stopped"}));
}

TEST_F(LocalFleetTest, ADrainEndsAtTheDeadlineOfItsPool) {
  options.pools.push_back(options.pools[0]);
  options.pools[0].name = "mail";
  options.pools[0].drain_deadline = 200ms;
  open();
  fleet->set_target(0, 1);
  fleet->set_target(1, 1);
  EXPECT_TRUE(run_until(loop, [&] {
    return std::count_if(fleet->state().replicas.begin(), fleet->state().replicas.end(),
                         [](const actuation::Replica& replica) { return replica.stage == Stage::kServing; }) == 2;
  })) << event_text();
  open_requests = 1;
  run_for(300ms);
  fleet->set_target(0, 0);
  fleet->set_target(1, 0);
  run_until_some(Stage::kStopped);
  for (const actuation::Replica& replica : fleet->state().replicas)
    EXPECT_EQ(replica.stage, replica.pool == "mail" ? Stage::kStopped : Stage::kDraining);
  EXPECT_TRUE(has_event("is stopped although it did not drain in")) << event_text();
}

TEST_F(LocalFleetTest, ANewPlannerGoesOnWithTheProcessesOfTheLast) {
  open();
  fleet->set_target(0, 1);
  const actuation::Replica before = *fleet->state().find(run_until_some(Stage::kServing));
  fleet.reset();
  open();
  EXPECT_EQ(fleet->target(0), 1U);
  EXPECT_TRUE(has_event("continues under this planner"));
  EXPECT_EQ(log.lines(logging::Event::kReplicaAdopted).at(0),
            "replica_adopted pool=chat replica=chat-1 pid=" + std::to_string(before.process->pid));
  const actuation::Replica after = *fleet->state().find(run_until_some(Stage::kServing));
  EXPECT_EQ(after.id, before.id);
  EXPECT_EQ(after.process, before.process);
  bool ended = false;
  fleet->stop_all([&] { ended = true; });
  EXPECT_TRUE(run_until(loop, [&] { return ended; })) << event_text();
}

TEST_F(LocalFleetTest, AProgramThatEndsAtOnceIsReportedWithItsLastLogLine) {
  write("engine.py", "#!/bin/sh\necho out of luck\nexit 7\n");
  open();
  fleet->set_target(0, 1);
  EXPECT_TRUE(run_until(loop, [&] { return fleet->actions_failed(0) >= 2; })) << event_text();
  EXPECT_TRUE(has_event("exit code 7: out of luck")) << event_text();
  const std::string line = log.lines(logging::Event::kProcessEnded).at(0);
  EXPECT_TRUE(line.ends_with("cause=\"exit code 7\" last_line=\"out of luck\"")) << line;
  EXPECT_GE(log.count(logging::Event::kActuationWarning), 1U);
  signals::PoolObservation seen;
  fleet->fill(0, seen);
  EXPECT_GE(seen.actions_failed_total, 2U);
}

TEST_F(LocalFleetTest, AMissingProgramIsReported) {
  options.program = folder / "nothing";
  open();
  fleet->set_target(0, 1);
  EXPECT_TRUE(run_until(loop, [&] { return fleet->actions_failed(0) >= 1; })) << event_text();
  EXPECT_TRUE(has_event("nothing")) << event_text();
}

TEST_F(LocalFleetTest, AnEngineWithInvalidResponsesNeverServes) {
  write("info.json", R"({"state":["ready"],"requests_open":"many","fpm_endpoint":7,"kv_blocks":-1})");
  options.limits.start_deadline = 2s;
  open();
  fleet->set_target(0, 1);
  EXPECT_TRUE(run_until(loop, [&] { return has_event("before the start deadline"); })) << event_text();
  for (const actuation::Replica& replica : fleet->state().replicas) EXPECT_NE(replica.stage, Stage::kServing);
  EXPECT_FALSE(has_event("receives requests")) << event_text();
}

TEST_F(LocalFleetTest, AnEngineThatIsKilledIsReplaced) {
  open();
  fleet->set_target(0, 1);
  const std::uint32_t first = run_until_some(Stage::kServing);
  ::kill(static_cast<pid_t>(fleet->state().find(first)->process->pid), SIGKILL);
  EXPECT_TRUE(run_until(loop, [&] {
    for (const actuation::Replica& replica : fleet->state().replicas)
      if (replica.id != first && replica.stage == Stage::kServing) return true;
    return false;
  })) << event_text();
  EXPECT_TRUE(has_event("signal 9")) << event_text();
}

}  // namespace
}  // namespace penstock::controller
