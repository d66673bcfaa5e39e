#include "net/credentials.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace penstock::net {
namespace {

std::string file_with(const std::string& text) {
  const std::string path = ::testing::TempDir() + "/penstock-key-" + std::to_string(std::hash<std::string>{}(text));
  std::ofstream{path} << text;
  return path;
}

CredentialOptions with_key(const std::string& text) {
  CredentialOptions options;
  options.api_key_file = file_with(text);
  return options;
}

std::string failure(const CredentialOptions& options) {
  const auto store = CredentialStore::load(options, {});
  return store ? std::string{} : store.error().message();
}

TEST(Credentials, OfAServerComeBeforeTheDefaults) {
  CredentialOptions defaults = with_key("sk-all\n"), own;
  defaults.headers = {"X-Team: search", "X-Zone:a, b"};
  ASSERT_EQ(::setenv("PENSTOCK_TEST_CREDENTIALS", "sk-own", 1), 0);
  own.api_key_env = "PENSTOCK_TEST_CREDENTIALS";
  const auto store = CredentialStore::load(defaults, {{"http://a", own}, {"http://b", {}}});
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_EQ(store->of("http://a")->fields, "Authorization: Bearer sk-own\r\nX-Team: search\r\nX-Zone: a, b\r\n");
  EXPECT_EQ(store->of("http://elsewhere")->fields,
            "Authorization: Bearer sk-all\r\nX-Team: search\r\nX-Zone: a, b\r\n");
  EXPECT_EQ(store->of("http://b"), store->of("http://elsewhere")) << "they share the certificates in memory";
  EXPECT_TRUE(store->of("http://a")->has_key);
  EXPECT_TRUE(store->of("http://a")->tls);
}

TEST(Credentials, WithoutOptionsSendNothing) {
  const auto store = CredentialStore::load({}, {});
  ASSERT_TRUE(store);
  EXPECT_TRUE(store->of("http://a")->fields.empty());
  EXPECT_FALSE(store->of("http://a")->has_key);
}

TEST(Credentials, ReportWhatIsWrongWithoutTheSecret) {
  CredentialOptions options;
  options.api_key_env = "PENSTOCK_UNSET_VARIABLE";
  EXPECT_EQ(failure(options), "the environment variable \"PENSTOCK_UNSET_VARIABLE\" is not set");
  options = {};
  options.api_key_file = "/nonexistent";
  EXPECT_EQ(failure(options), "the API key file /nonexistent cannot be read");
  EXPECT_NE(failure(with_key("\n")), "");
  const std::string two_lines = failure(with_key("sk-1\nsk-2\n"));
  EXPECT_EQ(two_lines, "the API key must consist of visible ASCII characters");
  for (const char* header : {"Host: secret", "X-A", "X-A:", ": secret", "X A: secret", "X-A: sec\r\nret: 1"}) {
    options = {};
    options.headers = {header};
    const std::string message = failure(options);
    EXPECT_NE(message, "") << header;
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
  }
  options = {};
  options.certificate = "/nonexistent";
  EXPECT_NE(failure(options).find("one of them is missing"), std::string::npos);
}

}  // namespace
}  // namespace penstock::net
