#include "connect/kubernetes/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <utility>

#include "net/base64.h"
#include "options/yaml.h"

namespace penstock::connect {
namespace {

using options::YamlNode;

constexpr std::size_t kTokenBytesMax = 16 * 1024, kFileBytesMax = 1024 * 1024;

// Reads the fields of a kubeconfig and keeps the first error.
class Reader {
 public:
  explicit Reader(const std::string& file) : file_{file} {}

  // Returns the value of a key, or null if there is none.
  static const YamlNode* find(const YamlNode* node, std::string_view key) {
    if (node == nullptr || node->kind != YamlNode::Kind::kMap) return nullptr;
    for (std::size_t i = 0; i < node->keys.size(); ++i)
      if (node->keys[i].text == key && node->items[i].kind != YamlNode::Kind::kNull) return &node->items[i];
    return nullptr;
  }

  std::string text(const YamlNode* node, const std::string& path, const char* key) {
    const YamlNode* const value = find(node, key);
    if (value == nullptr) return {};
    if (value->kind == YamlNode::Kind::kScalar) return value->text;
    fail(*value, path + "." + key, "must be a text, is " + value->description());
    return {};
  }

  bool flag(const YamlNode* node, const std::string& path, const char* key) {
    const std::string value = text(node, path, key);
    if (!value.empty() && value != "true" && value != "false")
      fail(*find(node, key), path + "." + key, "must be true or false, is \"" + value + "\"");
    return value == "true";
  }

  // Returns the section `section` of the only element of a list with the name; null with an error if there is none.
  const YamlNode* named(const YamlNode& root, const char* list, const char* section, const std::string& name,
                        std::string& path) {
    const YamlNode* const elements = find(&root, list);
    const YamlNode* found = nullptr;
    for (std::size_t i = 0; elements != nullptr && i < elements->items.size(); ++i) {
      const YamlNode& element = elements->items[i];
      const std::string here = fmt::format("{}[{}]", list, i);
      if (text(&element, here, "name") != name) continue;
      if (found != nullptr) fail(element, here, "there is another one with this name");
      found = &element;
      path = here + "." + section;
    }
    if (found == nullptr) {
      fail(root, list, fmt::format("there is no element with the name \"{}\"", name));
      return nullptr;
    }
    const YamlNode* const value = find(found, section);
    if (value == nullptr) fail(*found, path, "is missing");
    return value;
  }

  // A document in base64, or the path of a file.
  net::Pem pem(const YamlNode* node, const std::string& path, const std::string& key) {
    const std::string data_key = key + "-data";
    std::string base64 = text(node, path, data_key.c_str());
    if (base64.empty()) {
      std::string file = text(node, path, key.c_str());
      return file.empty() ? net::Pem{} : net::Pem{resolved(file)};
    }
    // YAML may fold a long text over lines.
    base64.erase(std::remove_if(base64.begin(), base64.end(), [](char c) { return c == ' ' || c == '\n'; }),
                 base64.end());
    std::string content = net::decode_base64(base64);
    if (content.empty()) fail(*find(node, data_key), path + "." + data_key, "is not base64");
    return {fmt::format("{}: {}.{}", file_, path, data_key), std::move(content)};
  }

  [[nodiscard]] std::string resolved(const std::string& path) const {
    return (std::filesystem::path{file_}.parent_path() / path).string();
  }

  void refuse(const YamlNode* node, const std::string& path, const char* key, const char* what, const char* hint) {
    if (const YamlNode* const value = find(node, key); value != nullptr) fail(*value, path + "." + key, what, hint);
  }

  void fail(const YamlNode& node, std::string_view path, std::string what, std::string hint = {}) {
    if (!error_)
      error_ = core::Error{core::ErrorCode::kInvalidInput, options::yaml_place(file_, node, path), std::move(what),
                           std::move(hint)};
  }
  [[nodiscard]] const std::optional<core::Error>& error() const { return error_; }

 private:
  const std::string& file_;
  std::optional<core::Error> error_;
};

void read_cluster(Reader& reader, const YamlNode* cluster, const std::string& path, KubernetesAccess& made) {
  if (cluster == nullptr) return;
  reader.refuse(cluster, path, "proxy-url", "proxies are not supported", "use the address of the API server");
  if (reader.flag(cluster, path, "insecure-skip-tls-verify"))
    reader.fail(*cluster, path + ".insecure-skip-tls-verify", "the API server is always verified",
                "remove it and set certificate-authority");
  const std::string server = reader.text(cluster, path, "server");
  if (auto url = net::parse_url(server))
    made.server = *std::move(url);
  else
    reader.fail(*cluster, path + ".server", url.error().message());
  made.server_name = reader.text(cluster, path, "tls-server-name");
  made.ca = reader.pem(cluster, path, "certificate-authority");
}

void read_user(Reader& reader, const YamlNode* user, const std::string& path, KubernetesAccess& made) {
  constexpr const char* kInstead =
      "use a token, a tokenFile or a client certificate, for example of a service account (kubectl create token)";
  reader.refuse(user, path, "exec", "credentials from a program (exec) are not supported", kInstead);
  reader.refuse(user, path, "auth-provider", "authentication providers are not supported", kInstead);
  reader.refuse(user, path, "username", "passwords are not supported", kInstead);
  for (const char* key : {"as", "as-uid", "as-groups", "as-user-extra"})
    reader.refuse(user, path, key, "impersonation is not supported", kInstead);
  made.certificate = reader.pem(user, path, "client-certificate");
  made.key = reader.pem(user, path, "client-key");
  if (user != nullptr && made.certificate.empty() != made.key.empty())
    reader.fail(*user, path, "a client certificate needs client-certificate and client-key, one of them is missing");
  made.token = reader.text(user, path, "token");
  if (const std::string file = reader.text(user, path, "tokenFile"); !file.empty())
    made.token_file = reader.resolved(file);
}

// What would show a secret to others, or cannot work.
core::Result<void> check(const KubernetesAccess& access, const std::string& where) {
  const bool has_secret = !access.token.empty() || !access.token_file.empty() || !access.certificate.empty();
  if (!access.server.tls && has_secret)
    return core::invalid_input(where, "credentials are not sent over plain HTTP", "use https in the server's URL");
  if (access.token.empty()) return {};
  if (auto token = parse_token(access.token, where + ": token"); !token) return tl::make_unexpected(token.error());
  return {};
}

core::Result<KubernetesAccess> read_kubeconfig(const std::string& file, std::string_view context) {
  const auto text = options::read_text_file(file, kFileBytesMax);
  if (!text) return tl::make_unexpected(text.error());
  return parse_kubeconfig(*text, file, context);
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

core::Result<std::string> parse_token(std::string_view text, const std::string& name) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks), last = text.find_last_not_of(kBlanks);
  if (first == std::string_view::npos) return core::invalid_input(name, "contains no token");
  text = text.substr(first, last - first + 1);
  if (text.size() > kTokenBytesMax)
    return core::invalid_input(name, fmt::format("is longer than {} bytes", kTokenBytesMax));
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; }))
    return core::invalid_input(name, "must be one token of visible ASCII characters");
  return std::string{text};
}

core::Result<KubernetesAccess> parse_kubeconfig(std::string_view text, const std::string& file,
                                                std::string_view context) {
  const auto root = options::parse_yaml(file, text);
  if (!root) return tl::make_unexpected(root.error().front());
  Reader reader{file};
  const std::string chosen = context.empty() ? reader.text(&*root, "", "current-context") : std::string{context};
  if (reader.error()) return tl::make_unexpected(*reader.error());
  if (chosen.empty())
    return core::invalid_input(file, "has no current-context",
                               "set it (kubectl config use-context), or name a context");

  KubernetesAccess made;
  std::string path;
  const YamlNode* const found = reader.named(*root, "contexts", "context", chosen, path);
  if (found == nullptr) return tl::make_unexpected(*reader.error());
  const std::string cluster = reader.text(found, path, "cluster"), user = reader.text(found, path, "user");
  if (const std::string name = reader.text(found, path, "namespace"); !name.empty()) made.default_namespace = name;
  const YamlNode* const of_cluster = reader.named(*root, "clusters", "cluster", cluster, path);
  read_cluster(reader, of_cluster, path, made);
  // A context without a user is anonymous. A user may be there without credentials ("user: {}").
  if (!user.empty()) read_user(reader, reader.named(*root, "users", "user", user, path), path, made);
  if (reader.error()) return tl::make_unexpected(*reader.error());
  if (auto checked = check(made, file); !checked) return tl::make_unexpected(checked.error());
  return made;
}

core::Result<KubernetesAccess> in_cluster_access(const std::string& host, const std::string& port,
                                                 const std::string& folder) {
  if (host.empty() || port.empty())
    return core::invalid_input("KUBERNETES_SERVICE_HOST", "is not set, so this process does not run in a pod",
                               "name a kubeconfig");
  const bool is_ipv6 = host.find(':') != std::string::npos;
  auto url =
      net::parse_url(is_ipv6 ? fmt::format("https://[{}]:{}", host, port) : fmt::format("https://{}:{}", host, port));
  if (!url) return core::invalid_input("KUBERNETES_SERVICE_HOST", url.error().message());
  KubernetesAccess made;
  made.server = *std::move(url);
  made.ca = net::Pem{folder + "/ca.crt"};
  made.token_file = folder + "/token";
  const auto name = options::read_text_file(folder + "/namespace", kFileBytesMax);
  if (!name)
    return core::environment_error(folder, "has no files of a service account",
                                   "remove automountServiceAccountToken: false from the pod, or name a kubeconfig");
  const auto parsed = parse_token(*name, folder + "/namespace");
  if (!parsed) return tl::make_unexpected(parsed.error());
  made.default_namespace = *parsed;
  return made;
}

core::Result<KubernetesAccess> find_kubernetes_access(const std::string& kubeconfig, std::string_view context) {
  if (!kubeconfig.empty()) return read_kubeconfig(kubeconfig, context);
  if (const std::string file = environment("KUBECONFIG"); !file.empty()) {
    if (file.find(':') != std::string::npos)
      return core::invalid_input("KUBECONFIG", "names several files",
                                 "write them into one (kubectl config view --flatten), or name one of them");
    return read_kubeconfig(file, context);
  }
  const std::string host = environment("KUBERNETES_SERVICE_HOST"), home = environment("HOME");
  const std::string file = home + "/.kube/config";
  std::error_code error;
  if (!host.empty() || home.empty() || !std::filesystem::exists(file, error))
    return in_cluster_access(host, environment("KUBERNETES_SERVICE_PORT"));
  return read_kubeconfig(file, context);
}

}  // namespace penstock::connect
