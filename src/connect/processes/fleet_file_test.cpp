#include "connect/processes/fleet_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace penstock::connect {
namespace {

using actuation::FleetState;
using actuation::Process;
using actuation::Replica;
using actuation::Stage;
using core::Instant;
using namespace std::chrono_literals;

constexpr Instant at(core::Duration time) { return core::kStart + time; }

FleetState some_fleet() {
  FleetState fleet;
  fleet.next_id = 9;
  fleet.next_port = 9004;
  fleet.pools.push_back({"prefill", 3, at(70s), true});
  fleet.pools.push_back({"decode"});
  std::uint32_t id = 1;
  for (const Stage stage : {Stage::kRequested, Stage::kStarting, Stage::kWarming, Stage::kServing, Stage::kDraining,
                            Stage::kStopping, Stage::kStopped, Stage::kFailed}) {
    Replica replica{id, "prefill", "r1", stage, at(10s), at(20s + id * 1ms)};
    replica.ports = {static_cast<std::uint16_t>(9000 + 2 * id), static_cast<std::uint16_t>(9001 + 2 * id)};
    if (stage != Stage::kRequested) replica.process = Process{4000 + id, 123456789};
    if (stage == Stage::kServing) replica.unhealthy_since = at(50s);
    if (stage == Stage::kDraining) replica.quiet_since = at(51s);
    if (stage == Stage::kStopping) replica.given_up = replica.killed = true;
    fleet.replicas.push_back(replica);
    ++id;
  }
  return fleet;
}

std::string error_of(const std::string& text) {
  const auto read = read_fleet(text, "fleet.json", {at(0s), 0s, "b"});
  return read ? "none" : read.error().message();
}

// `text` with the first `from` in it replaced.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  return text.replace(found, from.size(), to);
}

TEST(FleetFile, ReadsBackWhatItWrites) {
  const Moment moment{at(60s), 1000s, "b"};
  EXPECT_EQ(read_fleet(fleet_text(some_fleet(), moment), "f", moment), some_fleet());
  EXPECT_EQ(read_fleet(fleet_text({}, moment), "f", moment), FleetState{});
}

TEST(FleetFile, KeepsWhatSleepsAndWhatIsGoingToSleep) {
  FleetState fleet;
  for (const Stage stage : {Stage::kAsleep, Stage::kWaking, Stage::kWarming}) {
    Replica& replica = fleet.replicas.emplace_back();
    replica.id = fleet.next_id++;
    replica.pool = "default";
    replica.stage = stage;
    replica.to_sleep = stage == Stage::kWarming;
  }
  const Moment moment{at(60s), 1000s, "b"};
  EXPECT_EQ(read_fleet(fleet_text(fleet, moment), "f", moment), fleet);
}

TEST(FleetFile, KeepsSwitchesOfRoleAndTheTimeOfDrains) {
  FleetState fleet;
  for (const Stage stage : {Stage::kDraining, Stage::kSwitching}) {
    Replica& replica = fleet.replicas.emplace_back();
    replica.id = fleet.next_id++;
    replica.pool = "prefill";
    replica.stage = stage;
    if (stage == Stage::kDraining) replica.switch_to = "decode";
  }
  fleet.pools.push_back({"prefill", 0, std::nullopt, false, 3s});
  const Moment moment{at(60s), 1000s, "b"};
  EXPECT_EQ(read_fleet(fleet_text(fleet, moment), "f", moment), fleet);
}

TEST(FleetFile, TurnsTimesIntoThoseOfTheNewProcess) {
  const std::string text = fleet_text(some_fleet(), {at(60s), 1000s, "b"});
  const auto read = read_fleet(text, "f", {at(2s), 1030s, "b"});  // 30 s later, in a process that is 2 s old
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->replicas[3].unhealthy_since, at(2s - 40s));
  EXPECT_EQ(read->pools[0].start_after, at(2s - 20s));
}

TEST(FleetFile, DropsProcessesOfAnotherBoot) {
  const std::string text = fleet_text(some_fleet(), {at(60s), 1000s, "b"});
  for (const char* boot : {"another", ""}) {
    const auto read = read_fleet(text, "f", {at(2s), 5s, boot});
    ASSERT_TRUE(read);
    EXPECT_EQ(read->replicas[3].stage, Stage::kServing);
    EXPECT_FALSE(read->replicas[3].process);
    EXPECT_EQ(read->replicas[3].unhealthy_since, at(2s - 10s));  // no time passed
  }
}

TEST(FleetFile, ErrorsNameTheLocation) {
  const std::string text = fleet_text(some_fleet(), {at(60s), 1000s, "b"});
  EXPECT_EQ(error_of(text.substr(0, 100)), "fleet.json: invalid JSON at byte 101");
  EXPECT_EQ(error_of(with(text, "\"version\": 1", "\"version\": 9")),
            "fleet.json: version: is 9, but only 1 is known; use the penstock that wrote it");
  EXPECT_EQ(error_of(with(text, "\"serving\"", "\"busy\"")), "fleet.json: replicas[3].stage: unknown stage \"busy\"");
  EXPECT_EQ(error_of(with(text, "\"pid\": 4002", "\"pid\": 1")),
            "fleet.json: replicas[1].pid: must be 2 to 2147483647, is 1");
  EXPECT_EQ(error_of(with(text, "9004,", "70000,")), "fleet.json: next_port: must be 0 to 65535, is 70000");
  EXPECT_EQ(error_of(with(text, "9003", "0")), "fleet.json: replicas[0].ports: must be ports (1 to 65535), has 0");
}

TEST(FleetFile, RejectsContradictions) {
  const std::string text = fleet_text(some_fleet(), {at(60s), 1000s, "b"});
  EXPECT_EQ(error_of(with(text, "\"id\": 2", "\"id\": 1")),
            "fleet.json: replicas[1]: has an id that is out of order, or not below next_id");
  EXPECT_EQ(error_of(with(text, "\"next_id\": 9", "\"next_id\": 8")),
            "fleet.json: replicas[7]: has an id that is out of order, or not below next_id");
  EXPECT_EQ(error_of(with(text, "9005", "9003")), "fleet.json: replicas[1]: shares port 9003 with another");
  EXPECT_EQ(error_of(with(text, "\"decode\"", "\"prefill\"")),
            "fleet.json: pools[1]: has a name that another pool has");
}

TEST(FleetFile, IsThereAfterItWasSaved) {
  const auto folder = std::filesystem::temp_directory_path() / ("penstock-fleet-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "fleet.json";
  const auto none = load_fleet(path, at(0s));
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  ASSERT_TRUE(save_fleet(path, some_fleet(), at(60s)));
  const auto loaded = load_fleet(path, at(60s));
  ASSERT_TRUE(loaded && *loaded);
  // Time passed between the two.
  EXPECT_LE((*loaded)->replicas[0].since, some_fleet().replicas[0].since);
  EXPECT_EQ((*loaded)->replicas[1].process, some_fleet().replicas[1].process);
  EXPECT_FALSE(save_fleet(folder / "missing" / "fleet.json", some_fleet(), at(0s)));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::connect
