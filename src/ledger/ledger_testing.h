// For tests: entries that balance, in a line.
#pragma once

#include <string>

#include "ledger/entry.h"

namespace penstock::ledger::testing {

inline Entry opened(std::uint64_t id, const char* tenant = "acme", const char* model = "m") {
  Entry made;
  made.id = id;
  made.request_id = "req-" + std::to_string(id);
  made.tenant = tenant;
  made.key_name = "key-1";
  made.model = model;
  made.traffic_class = "interactive";
  made.replica = "10.0.0.7:8000";
  made.opened_unix_ms = 1'790'000'000'000 + static_cast<std::int64_t>(id);
  made.reserved_tokens = 1256;
  made.prompt_tokens = 1000;
  made.cost = 0.001;
  return made;
}

inline Entry closed(Entry entry, Outcome outcome = Outcome::kCompleted) {
  entry.closed_unix_ms = entry.opened_unix_ms + 1500;
  entry.outcome = outcome;
  entry.prompt_tokens = 1010;
  entry.cached_tokens = 512;
  entry.output_tokens = 200;
  entry.measured = true;
  entry.ttft_ms = 120.5;
  entry.itl_ms = 20.25;
  entry.cost = 0.002;
  return entry;
}

inline Entry refused(std::uint64_t id, const char* tenant = "acme", const char* model = "m") {
  Entry made = opened(id, tenant, model);
  made.outcome = Outcome::kRefused;
  made.closed_unix_ms = made.opened_unix_ms;
  made.reserved_tokens = 0;
  made.cost = 0.0;
  return made;
}

}  // namespace penstock::ledger::testing
