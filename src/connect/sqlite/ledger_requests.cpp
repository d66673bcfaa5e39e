#include "connect/sqlite/ledger_requests.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

namespace penstock::connect {

bool is_sqlite_file(const std::string& path) {
  constexpr std::string_view kBegin{"SQLite format 3\0", 16};
  std::error_code ignored;
  // Reading from a pipe would take bytes away from its reader.
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::array<char, kBegin.size()> begin{};
  std::ifstream file{path, std::ios::binary};
  return file.read(begin.data(), begin.size()) && std::string_view{begin.data(), begin.size()} == kBegin;
}

LedgerRequests::LedgerRequests(LedgerStore store)
    : store_{std::make_unique<LedgerStore>(std::move(store))},
      rows_{store_->query("select id, opened_unix_ms, prompt_tokens, output_tokens, reserved_tokens, tenant, model, "
                          "traffic_class, coalesce(outcome, '') from entries order by opened_unix_ms, id")} {}

core::Result<LedgerRequests> LedgerRequests::open(const std::string& path) {
  auto store = LedgerStore::open_read_only(path);
  if (!store) return tl::make_unexpected(store.error());
  return LedgerRequests{*std::move(store)};
}

core::Result<bool> LedgerRequests::next(LedgerRequest& request) {
  const auto more = rows_.step();
  if (!more || !*more) return more;
  std::int64_t* const numbers[] = {&request.id, &request.opened_unix_ms, &request.prompt_tokens, &request.output_tokens,
                                   &request.reserved_tokens};
  int column = 0;
  for (std::int64_t* number : numbers) *number = rows_.integer(column++);
  std::string* const texts[] = {&request.tenant, &request.model, &request.traffic_class, &request.outcome};
  for (std::string* text : texts) *text = rows_.text(column++);
  return true;
}

}  // namespace penstock::connect
