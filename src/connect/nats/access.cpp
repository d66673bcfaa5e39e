#include "connect/nats/access.h"

#include <cstdlib>

#include "options/yaml.h"

namespace penstock::connect {
namespace {

constexpr std::size_t kSecretBytesMax = 16 * 1024;

core::Result<std::string> read_secret(const std::string& file, const std::string& variable) {
  std::string secret;
  if (!file.empty()) {
    auto text = options::read_text_file(file, kSecretBytesMax);
    if (!text) return tl::make_unexpected(text.error());
    secret = *std::move(text);
  } else if (!variable.empty()) {
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr) secret = value;
  } else {
    return secret;
  }
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.empty()) return core::invalid_input(file.empty() ? variable : file, "has no secret", "write one into it");
  return secret;
}

}  // namespace

core::Result<void> check_nats_access(const NatsAccess& access) {
  const auto wrong = [](const char* key, const char* what) {
    return core::invalid_input(std::string{"planner.nats."} + key, what);
  };
  if (access.certificate.empty() != access.key_file.empty())
    return wrong(access.key_file.empty() ? "certificate" : "key",
                 "a client certificate needs certificate and key, one of them is missing");
  const bool has_password = !access.password_file.empty() || !access.password_env.empty();
  if (!access.password_file.empty() && !access.password_env.empty())
    return wrong("password_file", "excludes password_env");
  if (!access.token_file.empty() && !access.token_env.empty()) return wrong("token_file", "excludes token_env");
  if (access.user.empty() == has_password)
    return wrong(has_password ? "user" : "password_file",
                 "a user needs a password, and a password a user: one of them is missing");
  if (access.nkey.empty() != access.seed_file.empty())
    return wrong(access.nkey.empty() ? "nkey" : "seed_file",
                 "an nkey needs its public key and the file of its seed, one of them is missing");
  const bool has_token = !access.token_file.empty() || !access.token_env.empty();
  if (int{!access.user.empty()} + int{has_token} + int{!access.creds_file.empty()} + int{!access.nkey.empty()} > 1)
    return core::invalid_input("planner.nats", "user, token, creds_file and nkey exclude each other", "keep one");
  return {};
}

core::Result<NatsSecrets> read_nats_secrets(const NatsAccess& access) {
  auto password = read_secret(access.password_file, access.password_env);
  if (!password) return tl::make_unexpected(password.error());
  auto token = read_secret(access.token_file, access.token_env);
  if (!token) return tl::make_unexpected(token.error());
  return NatsSecrets{*std::move(password), *std::move(token)};
}

}  // namespace penstock::connect
