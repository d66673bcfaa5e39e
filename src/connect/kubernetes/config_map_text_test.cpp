#include "connect/kubernetes/config_map_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "connect/kubernetes/object_server_testing.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;
using testing::ObjectServer;
using namespace std::chrono_literals;

const std::string kPath = "/api/v1/namespaces/prod/configmaps/state";

class ConfigMapTextTest : public ::testing::Test {
 protected:
  std::unique_ptr<ConfigMapText> open() {
    return std::make_unique<ConfigMapText>(*client, ObjectName{"prod", "state"}, "policy.json");
  }
  core::Result<void> save(ConfigMapText& text, std::string value) {
    std::optional<core::Result<void>> result;
    text.save(std::move(value), [&](core::Result<void> done) {
      result = std::move(done);
      loop.stop();
    });
    if (!result) loop.run();
    return *result;
  }
  core::Result<std::optional<std::string>> load(ConfigMapText& text) {
    std::optional<core::Result<std::optional<std::string>>> result;
    text.load([&](core::Result<std::optional<std::string>> done) {
      result = std::move(done);
      loop.stop();
    });
    loop.run();
    return *result;
  }
  [[nodiscard]] std::string stored() { return server.objects[kPath]["data"].value("policy.json", std::string{}); }

  net::Loop loop;
  ObjectServer server{loop};
  net::Client http{loop};
  std::unique_ptr<KubernetesClient> client =
      *KubernetesClient::start(loop, http, ObjectServer::options_for(server.address), {});
};

TEST_F(ConfigMapTextTest, IsCreatedThenPatchedThenReadByTheNextProcess) {
  const auto first = open();
  EXPECT_EQ(*load(*first), std::nullopt);
  EXPECT_TRUE(save(*first, "one"));
  EXPECT_TRUE(save(*first, "two"));
  EXPECT_EQ(server.count("POST"), 1U);
  EXPECT_EQ(server.count("PATCH"), 1U);
  server.objects[kPath]["data"]["other"] = "kept";
  const auto second = open();
  EXPECT_EQ(*load(*second), "two");
  EXPECT_TRUE(save(*second, "three"));
  EXPECT_EQ(server.objects[kPath]["data"]["other"], "kept");
}

TEST_F(ConfigMapTextTest, AWriteByAnotherIsAConflictThatIsReadFirst) {
  const auto text = open();
  EXPECT_TRUE(save(*text, "one"));
  server.put(kPath, {{"metadata", {{"name", "state"}}}, {"data", {{"policy.json", "other"}}}});
  EXPECT_TRUE(save(*text, "two"));
  EXPECT_EQ(stored(), "two");
  EXPECT_EQ(server.count("PATCH"), 2U) << "the first one met another version";
  server.objects.clear();
  EXPECT_TRUE(save(*text, "three")) << "it was deleted";
  EXPECT_EQ(stored(), "three");
}

TEST_F(ConfigMapTextTest, OnlyTheLastOfWaitingTextsIsWritten) {
  const auto text = open();
  int done = 0;
  for (const char* value : {"one", "two", "three", "four"})
    text->save(value, [&](const core::Result<void>& result) {
      EXPECT_TRUE(result);
      if (++done == 4) loop.stop();
    });
  loop.run();
  EXPECT_EQ(stored(), "four");
  EXPECT_EQ(server.count("POST") + server.count("PATCH"), 2U);
}

TEST_F(ConfigMapTextTest, ATextThatIsTooLongIsRefused) {
  const auto text = open();
  const auto saved = save(*text, std::string(ConfigMapText::kBytesMax + 1, 'x'));
  ASSERT_FALSE(saved);
  EXPECT_EQ(
      saved.error().message(),
      "ConfigMap prod/state: the state has 1032193 bytes, and a ConfigMap holds at most 1032192; keep the state in "
      "a folder of a volume");
  EXPECT_TRUE(server.requests.empty());
}

TEST_F(ConfigMapTextTest, NothingIsWrittenByAPlannerThatDoesNotLead) {
  KubernetesOptions options = ObjectServer::options_for(server.address);
  bool leads = true;
  options.may_write = [&] { return leads; };
  client = *KubernetesClient::start(loop, http, options, {});
  const auto text = open();
  EXPECT_TRUE(save(*text, "one"));
  leads = false;
  const auto saved = save(*text, "two");
  ASSERT_FALSE(saved);
  EXPECT_NE(saved.error().message().find("this planner does not lead; nothing was sent"), std::string::npos);
  EXPECT_EQ(stored(), "one");
  EXPECT_EQ(*load(*text), "one") << "it may read";
}

}  // namespace
}  // namespace penstock::connect
