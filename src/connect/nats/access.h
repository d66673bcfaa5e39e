// How a client identifies itself to a NATS server, and verifies that server.
#pragma once

#include <string>

#include "core/result.h"

namespace penstock::connect {

// The options planner.nats. Files and variables are read again for every connection.
struct NatsAccess {
  std::string ca_file;                // PEM file of trusted certificates, beside those of the system; empty: none.
  std::string certificate, key_file;  // PEM files of the client's certificate and its key.
  std::string user, password_file, password_env;
  std::string token_file, token_env;
  std::string creds_file;       // A JWT and its seed, as nsc writes them.
  std::string nkey, seed_file;  // A public key, and the file with its seed.
};

// Secrets of `NatsAccess`, as they are now.
struct NatsSecrets {
  std::string password, token;
};

// Checks what belongs together, without reading a file. Errors have `where` = the option, such as "planner.nats.key".
[[nodiscard]] core::Result<void> check_nats_access(const NatsAccess& access);
// Errors name the file or the variable, and never show a secret.
[[nodiscard]] core::Result<NatsSecrets> read_nats_secrets(const NatsAccess& access);

}  // namespace penstock::connect
