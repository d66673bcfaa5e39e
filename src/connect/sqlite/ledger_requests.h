// The requests of a ledger in the order of their arrival, for programs that replay them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "connect/sqlite/ledger_store.h"
#include "connect/sqlite/statement.h"
#include "core/result.h"

namespace penstock::connect {

// Returns whether the file begins as an SQLite database does. False for anything but a regular file.
[[nodiscard]] bool is_sqlite_file(const std::string& path);

// Values are as stored, which may be any in a file from elsewhere.
struct LedgerRequest {
  std::int64_t id = 0, opened_unix_ms = 0, prompt_tokens = 0, output_tokens = 0, reserved_tokens = 0;
  std::string tenant, model, traffic_class;
  std::string outcome;  // Empty while the request is open.
};

// Reads one request at a time, so that a ledger of any size takes no memory. A gateway may write meanwhile.
class LedgerRequests {
 public:
  [[nodiscard]] static core::Result<LedgerRequests> open(const std::string& path);
  // Returns false after the last one.
  [[nodiscard]] core::Result<bool> next(LedgerRequest& request);

 private:
  explicit LedgerRequests(LedgerStore store);

  std::unique_ptr<LedgerStore> store_;  // Its address stays, because the statement refers to it.
  Statement rows_;
};

}  // namespace penstock::connect
