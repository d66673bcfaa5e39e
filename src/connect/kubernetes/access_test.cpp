#include "connect/kubernetes/access.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "connect/kubernetes/credentials.h"
#include "net/tls_testing.h"

namespace penstock::connect {
namespace {

// What the testbed's script and kubectl write.
std::string config(const std::string& user, const std::string& cluster = "server: https://10.0.0.1:6443") {
  return "apiVersion: v1\nkind: Config\ncurrent-context: admin@lab\npreferences: {}\n"
         "clusters:\n- name: lab\n  cluster: {" +
         cluster +
         "}\n"
         "users:\n- name: admin\n  user: {" +
         user +
         "}\n- name: other\n  user: {token: of-another}\n"
         "contexts:\n- name: admin@lab\n  context: {cluster: lab, user: admin, namespace: prod}\n"
         "- name: other@lab\n  context: {cluster: lab, user: other}\n";
}

std::string problem(const std::string& text, std::string_view context = {}) {
  const auto read = parse_kubeconfig(text, "dir/config", context);
  return read ? "" : read.error().message();
}

TEST(Kubeconfig, ReadsTheCurrentContext) {
  const auto read = parse_kubeconfig(
      config("token: abc", "server: https://api.example:6443/prefix, certificate-authority: ca.crt"), "dir/config");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->server.host, "api.example");
  EXPECT_EQ(read->server.port, 6443);
  EXPECT_EQ(read->server.path, "/prefix");
  EXPECT_EQ(read->ca.name, "dir/ca.crt");
  EXPECT_EQ(read->token, "abc");
  EXPECT_EQ(read->default_namespace, "prod");
}

TEST(Kubeconfig, ReadsTheContextThatIsAskedFor) {
  const auto read = parse_kubeconfig(config("token: abc"), "config", "other@lab");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->token, "of-another");
  EXPECT_EQ(read->default_namespace, "default");
  EXPECT_EQ(problem(config("token: abc"), "none"),
            "dir/config:1:1: contexts: there is no element with the name \"none\"");
}

TEST(Kubeconfig, ReadsDataInBase64AlsoOverSeveralLines) {
  const auto read = parse_kubeconfig(config("client-certificate-data: 'Y2VydGlm\n    aWNhdGU=', client-key-data: a2V5",
                                            "server: https://a:1, certificate-authority-data: Y2E="),
                                     "config");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->ca.text, "ca");
  EXPECT_EQ(read->certificate.text, "certificate");
  EXPECT_EQ(read->key.text, "key");
  EXPECT_NE(problem(config("client-certificate-data: '*', client-key-data: a2V5")).find("is not base64"),
            std::string::npos);
}

TEST(Kubeconfig, TokenFilesAreRelativeToItsFolder) {
  const auto read = parse_kubeconfig(config("token: old, tokenFile: token"), "dir/config");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->token_file, "dir/token");
  EXPECT_EQ(parse_kubeconfig(config("tokenFile: /run/token"), "dir/config")->token_file, "/run/token");
}

TEST(Kubeconfig, RefusesWhatItCannotDoWithThePlaceAndTheWayOut) {
  EXPECT_EQ(problem(config("exec: {command: gke-gcloud-auth-plugin}")),
            "dir/config:10:16: users[0].user.exec: credentials from a program (exec) are not supported; use a token, a "
            "tokenFile or a client certificate, for example of a service account (kubectl create token)");
  for (const char* user : {"auth-provider: {name: gcp}", "username: u, password: p", "as: admin"})
    EXPECT_NE(problem(config(user)).find("not supported"), std::string::npos) << user;
  const auto cluster = [](const char* text) { return problem(config("token: t", text)); };
  EXPECT_NE(cluster("server: https://a:1, proxy-url: http://p:1").find("proxies are not supported"), std::string::npos);
  EXPECT_NE(cluster("server: https://a:1, insecure-skip-tls-verify: true").find("always verified"), std::string::npos);
  EXPECT_NE(cluster("server: http://a:1").find("not sent over plain HTTP"), std::string::npos);
  EXPECT_NE(cluster("server: ftp://a").find("clusters[0].cluster.server"), std::string::npos);
  EXPECT_NE(problem(config("client-certificate: a.crt")).find("one of them is missing"), std::string::npos);
  EXPECT_NE(problem("kind: Config\n").find("has no current-context"), std::string::npos);
  EXPECT_NE(problem("- a\n").find("has no current-context"), std::string::npos);
  EXPECT_NE(problem("current-context: [a]\n").find("must be a text"), std::string::npos);
}

TEST(Kubeconfig, ErrorsNeverShowASecret) {
  const std::string secret = "s3cr3t";
  for (const std::string& text :
       {config("token: \"" + secret + " x\""), config("password: " + secret + ", username: u"),
        config("token: " + secret, "server: http://a")}) {
    const std::string message = problem(text);
    EXPECT_FALSE(message.empty());
    EXPECT_EQ(message.find(secret), std::string::npos) << message;
  }
}

class Folder {
 public:
  Folder() {
    std::string path = (std::filesystem::temp_directory_path() / "penstock-access-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const char* name, const std::string& text) const { std::ofstream{path_ + "/" + name} << text; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(InClusterAccess, ReadsTheMountedFiles) {
  const Folder folder;
  folder.write("namespace", "prod\n");
  const auto read = in_cluster_access("10.96.0.1", "443", folder.path());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->server.host_field(), "10.96.0.1:443");
  EXPECT_TRUE(read->server.tls);
  EXPECT_EQ(read->default_namespace, "prod");
  EXPECT_EQ(read->token_file, folder.path() + "/token");
  EXPECT_EQ(in_cluster_access("fd00::1", "443", folder.path())->server.host, "fd00::1");
  EXPECT_FALSE(in_cluster_access("", "", folder.path()));
  EXPECT_FALSE(in_cluster_access("10.96.0.1", "443", folder.path() + "/missing"));
}

TEST(KubernetesCredentials, FollowARotatedTokenAndCertificate) {
  const Folder folder;
  const net::testing::TestCertificate ca, first, second;
  folder.write("token", "one\n");
  const auto put = [&](const net::testing::TestCertificate& certificate) {
    const auto overwrite = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(certificate.certificate(), folder.path() + "/tls.crt", overwrite);
    std::filesystem::copy_file(certificate.key(), folder.path() + "/tls.key", overwrite);
  };
  put(first);
  KubernetesAccess access;
  access.server = *net::parse_url("https://localhost:6443");
  access.ca = ca.certificate();
  access.certificate = folder.path() + "/tls.crt";
  access.key = folder.path() + "/tls.key";
  access.token_file = folder.path() + "/token";
  auto loaded = KubernetesCredentials::load(access);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->fields(), "Authorization: Bearer one\r\n");
  const auto before = loaded->tls();

  // A change counts once it has settled: at the second look.
  const auto refresh = [&] {
    const auto early = loaded->refresh();
    EXPECT_TRUE(early) << early.error().message();
    return loaded->refresh();
  };
  EXPECT_TRUE(refresh());
  EXPECT_EQ(loaded->tls(), before);
  folder.write("token", "number-two\n");
  EXPECT_TRUE(refresh());
  EXPECT_EQ(loaded->fields(), "Authorization: Bearer number-two\r\n");
  put(second);
  EXPECT_TRUE(refresh());
  EXPECT_NE(loaded->tls(), before);

  // An empty token, or a certificate without its key, leaves what was read before.
  folder.write("token", "\n");
  const auto refused = refresh();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(), folder.path() + "/token: contains no token");
  EXPECT_EQ(loaded->fields(), "Authorization: Bearer number-two\r\n");
}

}  // namespace
}  // namespace penstock::connect
