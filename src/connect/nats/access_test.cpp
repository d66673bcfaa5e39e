#include "connect/nats/access.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

namespace penstock::connect {
namespace {

TEST(NatsAccess, OptionsThatBelongTogetherAreGivenTogether) {
  const std::pair<std::function<void(NatsAccess&)>, const char*> table[] = {
      {[](NatsAccess& access) { access.certificate = "c"; }, "planner.nats.certificate: "},
      {[](NatsAccess& access) { access.key_file = "k"; }, "planner.nats.key: "},
      {[](NatsAccess& access) { access.user = "u"; }, "planner.nats.password_file: "},
      {[](NatsAccess& access) { access.password_env = "P"; }, "planner.nats.user: "},
      {[](NatsAccess& access) { access.password_env = access.password_file = access.user = "p"; }, "excludes"},
      {[](NatsAccess& access) { access.token_env = access.token_file = "t"; }, "excludes token_env"},
      {[](NatsAccess& access) { access.nkey = "U"; }, "planner.nats.seed_file: "},
      {[](NatsAccess& access) { access.seed_file = "s"; }, "planner.nats.nkey: "},
      {[](NatsAccess& access) { access.token_file = access.creds_file = "t"; }, "exclude each other"},
  };
  EXPECT_TRUE(check_nats_access({}));
  for (const auto& [change, message] : table) {
    NatsAccess access;
    change(access);
    const auto checked = check_nats_access(access);
    ASSERT_FALSE(checked) << message;
    EXPECT_NE(checked.error().message().find(message), std::string::npos) << checked.error().message();
  }
  NatsAccess all;
  all.ca_file = all.certificate = all.key_file = all.user = all.password_file = "x";
  EXPECT_TRUE(check_nats_access(all));
}

TEST(NatsAccess, SecretsComeFromFilesAndVariables) {
  std::string folder = (std::filesystem::temp_directory_path() / "penstock-nats-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  NatsAccess access;
  access.password_file = folder + "/password";
  access.token_env = "PENSTOCK_TEST_NATS_TOKEN";
  std::ofstream{access.password_file} << " geheim \r\n";
  ::setenv(access.token_env.c_str(), "abc", 1);
  const auto read = read_nats_secrets(access);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->password, " geheim ");
  EXPECT_EQ(read->token, "abc");
  ::unsetenv(access.token_env.c_str());
  EXPECT_NE(read_nats_secrets(access).error().message().find(access.token_env), std::string::npos);
  std::filesystem::remove_all(folder);
  EXPECT_NE(read_nats_secrets(access).error().message().find("/password"), std::string::npos);
}

}  // namespace
}  // namespace penstock::connect
