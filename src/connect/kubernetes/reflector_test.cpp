#include "connect/kubernetes/reflector.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "connect/kubernetes/api_server_testing.h"
#include "connect/kubernetes/json_values.h"
#include "connect/kubernetes/watched.h"
#include "net/client_testing.h"

namespace penstock::connect {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ApiFaults;
using testing::TestApiServer;

using Versions = std::map<std::string, std::uint64_t>;

std::uint64_t version_of(const nlohmann::json& object) {
  std::uint64_t version = 0;
  for (const char c : json_text(json_part(object, "metadata"), "resourceVersion"))
    version = version * 10 + static_cast<std::uint64_t>(c - '0');
  return version;
}

ReflectorOptions pods() {
  ReflectorOptions options;
  options.resource = kPods;
  options.in_namespace = "n";
  options.page = 3;
  return options;
}

// A server, a client and a copy on one loop.
struct World {
  explicit World(const ReflectorOptions& options = pods(), std::uint64_t seed = 1) : server{loop, seed} {
    KubernetesOptions client_options;
    client_options.access.server = *net::parse_url("http://" + server.address().text());
    client_options.backoff = {milliseconds{1}, milliseconds{5}};
    client_options.requests_per_s = 100'000.0;
    client_options.burst = 100'000;
    client_options.seed = seed;
    client = *KubernetesClient::start(loop, http, client_options, {});
    watched.emplace(
        loop, *client, options, version_of,
        Watched<std::uint64_t>::Listener{[this] {
                                           if (changed) changed();
                                         },
                                         [this](const ApiError& error) { failures.push_back(error.message()); }});
  }
  ~World() {
    watched.reset();
    client.reset();
  }

  [[nodiscard]] Versions copy() const {
    Versions copy;
    for (const auto& [key, version] : watched->all()) copy.emplace(key.substr(2), version);
    return copy;
  }
  [[nodiscard]] bool is_equal() const { return watched->confirmed_at() && copy() == server.objects(); }
  // Runs the loop until it holds, 20 s at most.
  template <class Predicate>
  bool until(Predicate holds) {
    for (int turn = 0; turn < 20'000 && !holds(); ++turn) net::testing::run_for(loop, milliseconds{1});
    return holds();
  }

  net::Loop loop;
  net::Client http{loop};
  TestApiServer server;
  std::unique_ptr<KubernetesClient> client;
  std::optional<Watched<std::uint64_t>> watched;
  std::function<void()> changed;
  std::vector<std::string> failures;
};

TEST(Watched, ListsInPagesAndThenFollowsTheWatch) {
  World world;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) world.server.set(name);
  EXPECT_FALSE(world.watched->confirmed_at());
  EXPECT_TRUE(world.watched->is_stale());
  ASSERT_TRUE(world.until([&] { return world.is_equal() && world.server.watches() == 1; }));
  EXPECT_FALSE(world.watched->is_stale());
  world.server.set("h");
  world.server.set("a");
  world.server.remove("b");
  EXPECT_TRUE(world.until([&] { return world.is_equal(); }));
  const std::string path = "/api/v1/namespaces/n/pods";
  EXPECT_EQ(
      world.server.targets,
      (std::vector<std::string>{path + "?limit=3", path + "?limit=3&continue=d", path + "?limit=3&continue=g",
                                path + "?watch=1&allowWatchBookmarks=true&resourceVersion=8&timeoutSeconds=300"}));
}

TEST(Watched, SendsItsSelectors) {
  ReflectorOptions options = pods();
  options.label_selector = "app in (a,b)";
  options.field_selector = "spec.nodeName=x";
  World world{options};
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  for (const std::string& target : world.server.targets)
    EXPECT_NE(target.find("&labelSelector=app%20in%20%28a%2Cb%29&fieldSelector=spec.nodeName%3Dx"), std::string::npos);
}

TEST(Watched, ContinuesAfterACutFromTheLastVersion) {
  World world;
  world.server.set("a");
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  world.server.set("b");
  ASSERT_TRUE(world.until([&] { return world.is_equal(); }));
  world.server.cut_all();
  world.server.remove("a");
  world.server.set("c");
  EXPECT_TRUE(world.until([&] { return world.is_equal() && world.server.watches() == 1; }));
  EXPECT_EQ(world.server.lists, 1);
  EXPECT_EQ(world.server.opened, 2);
  EXPECT_NE(world.server.targets.back().find("resourceVersion=3&"), std::string::npos) << world.server.targets.back();
  ASSERT_EQ(world.failures.size(), 1U);
  EXPECT_EQ(world.failures[0], "watch pods in namespace \"n\": closed before the response was complete");
}

TEST(Watched, BookmarksSaveTheListAfterACompaction) {
  World world;
  world.server.set("a");
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  world.server.set("b");
  ASSERT_TRUE(world.until([&] { return world.is_equal(); }));
  // Versions that belong to other resources go by.
  world.server.remove("no-such");
  world.server.bookmark();
  ASSERT_TRUE(world.until([&] { return world.watched->counters().bookmarks == 1; }));
  world.server.compact();
  world.server.cut_all();
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  EXPECT_EQ(world.server.lists, 1);
}

TEST(Watched, ListsAnewAfter410WithinA200) {
  World world;
  world.server.set("a");
  world.server.set("b");
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  world.server.cut_all();
  world.server.remove("a");
  world.server.set("c");
  world.server.compact();
  EXPECT_TRUE(world.until([&] { return world.is_equal() && world.server.watches() == 1; }));
  EXPECT_EQ(world.server.lists, 2);
}

TEST(Watched, KeepsWhatItKnowsAndSaysThatItIsStale) {
  ReflectorOptions options = pods();
  options.bookmark_interval = milliseconds{100};
  World world{options};
  world.server.set("a");
  world.server.set("b");
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  const Versions before = world.copy();
  bool was_empty = false;
  world.changed = [&] { was_empty = was_empty || world.watched->all().empty(); };
  world.server.faults.refusal = 1.0;
  world.server.cut_all();
  const core::Instant cut = net::Loop::read_clock();
  ASSERT_TRUE(world.until([&] { return world.watched->is_stale(); }));
  EXPECT_GE(net::Loop::read_clock() - *world.watched->confirmed_at(), milliseconds{200});
  EXPECT_GE(net::Loop::read_clock() - cut, milliseconds{0});
  EXPECT_EQ(world.copy(), before);
  EXPECT_FALSE(world.failures.empty());
  // Another state than before, after a long absence.
  world.server.faults.refusal = 0.0;
  world.server.remove("a");
  EXPECT_TRUE(world.until([&] { return world.is_equal() && !world.watched->is_stale(); }));
  EXPECT_FALSE(was_empty);
}

TEST(Watched, BookmarksAloneKeepItFresh) {
  ReflectorOptions options = pods();
  options.bookmark_interval = seconds{60};
  World world{options};
  world.server.set("a");
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  const core::Instant listed = *world.watched->confirmed_at();
  net::testing::run_for(world.loop, milliseconds{20});
  EXPECT_EQ(world.watched->confirmed_at(), listed);
  world.server.bookmark();
  EXPECT_TRUE(world.until([&] { return *world.watched->confirmed_at() > listed; }));
}

TEST(Watched, ASilentServerIsAskedAgain) {
  ReflectorOptions options = pods();
  options.bookmark_interval = milliseconds{50};
  World world{options};
  world.server.set("a");
  world.server.is_silent = true;
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  world.server.set("b");
  // The event gets lost, as behind a broken proxy: only a list brings it.
  EXPECT_TRUE(world.until([&] { return world.server.lists >= 2 && world.is_equal(); }));
}

TEST(Watched, DoesNotSpinOnAServerThatEndsEveryWatch) {
  World world;
  world.server.set("a");
  ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
  const int before = world.server.opened;
  const core::Instant began = net::Loop::read_clock();
  ASSERT_TRUE(world.until([&] {
    world.server.end_all();
    return world.server.opened >= before + 12;
  }));
  // Ten delays of at least half of 5 ms.
  EXPECT_GE(net::Loop::read_clock() - began, milliseconds{20});
  EXPECT_EQ(world.server.lists, 1);
}

TEST(Watched, ListsAnewWhenTheWatchIsNotWhatTheApiPromises) {
  for (const char* bytes : {"<html>\n", "{\"type\":\"ADDED\",\"object\":{}}\n",
                            "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"99\"}}}\n",
                            "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"1\"}}}\n",
                            "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"x\",\"namespace\":\"n\","
                            "\"resourceVersion\":\"1\"}}}\n"}) {
    World world;
    world.server.set("a");
    ASSERT_TRUE(world.until([&] { return world.server.watches() == 1; }));
    world.server.send_to_all(bytes);
    EXPECT_TRUE(world.until([&] { return world.server.lists == 2 && world.server.watches() == 1 && world.is_equal(); }))
        << bytes;
    EXPECT_EQ(world.failures.size(), 1U);
  }
}

TEST(Watched, ReachesTheStateOfTheServerWhateverHappensToTheBytes) {
  ReflectorCounters total;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    core::RandomStream random = core::RandomStream{seed}.fork("operations");
    World world{pods(), seed};
    world.server.set("keep");
    world.server.faults = {0.2, 0.2, 0.1, 0.2, 0.15, 0.05};
    // Once known, this object never goes, whatever fails.
    bool was_lost = false, was_known = false;
    world.changed = [&] {
      was_known = true;
      was_lost = was_lost || !world.watched->all().contains("n/keep");
    };
    for (int step = 0; step < 150; ++step) {
      const std::string name = "p" + std::to_string(random.below(12));
      random.uniform() < 0.3 ? world.server.remove(name) : world.server.set(name);
      if (random.uniform() < 0.1) world.server.bookmark();
      if (random.uniform() < 0.3) net::testing::run_for(world.loop, core::from_milliseconds(random.uniform(0.0, 3.0)));
    }
    world.server.flush();
    world.server.faults = {};
    ASSERT_TRUE(world.until([&] { return world.is_equal() && world.server.watches() == 1; })) << "seed " << seed;
    world.server.set("last");
    EXPECT_TRUE(world.until([&] { return world.is_equal(); })) << "seed " << seed;
    EXPECT_TRUE(was_known && !was_lost) << "seed " << seed;
    const ReflectorCounters& counters = world.watched->counters();
    total.out_of_order += counters.out_of_order;
    total.failures += counters.failures;
    total.events += counters.events;
  }
  // The faults came about.
  EXPECT_GT(total.out_of_order, 0U);
  EXPECT_GT(total.failures, 40U);
  EXPECT_GT(total.events, 1000U);
}

}  // namespace
}  // namespace penstock::connect
