#include "connect/sqlite/ledger_store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "connect/sqlite/statement.h"

namespace penstock::connect {
namespace {

using ledger::Entry;

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::int64_t kDayMs = 86'400'000;

constexpr const char* kLedgerSchema = R"(
create table entries(
  id integer primary key, request_id text not null, tenant text not null, key_name text not null, model text not null,
  traffic_class text not null, replica text not null, opened_unix_ms integer not null, closed_unix_ms integer,
  reserved_tokens integer not null, prompt_tokens integer not null, cached_tokens integer not null,
  output_tokens integer not null, measured integer not null, outcome text, ttft_ms real, itl_ms real,
  cost real not null, check((closed_unix_ms is null) = (outcome is null))) strict;
create index entries_by_time on entries(opened_unix_ms);
create index entries_open on entries(id) where closed_unix_ms is null;
)";

// An addition to the schema that earlier programs of the same version ignore.
constexpr const char* kWritersSchema =
    "create table if not exists writers(first_id integer primary key, opened_unix_ms integer not null) strict";

// Another one. The entries from `first_id` on have times of a wall clock that was so much ahead of the time since the
// boot. All rows are of one boot.
constexpr const char* kClocksSchema =
    "create table if not exists clocks(first_id integer primary key, boot text not null, "
    "unix_minus_boot_ms integer not null) strict";

DatabaseKind ledger_kind() { return {"ledger", 0x504E534C, 1, kLedgerSchema, "name another file"}; }

constexpr const char* kRow = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
constexpr std::size_t kRowsAtOnce = 10;  // Rows of one INSERT statement; ten are a third cheaper than single rows.
constexpr const char* kKeep = "nothing";
constexpr const char* kGrow =
    "update entries set prompt_tokens = ?, output_tokens = ?, cost = ? "
    "where id = ? and closed_unix_ms is null and output_tokens < ?";
// The measured values replace the estimate of the opening.
constexpr const char* kUpdate =
    "update set closed_unix_ms = excluded.closed_unix_ms, replica = excluded.replica, "
    "prompt_tokens = excluded.prompt_tokens, cached_tokens = excluded.cached_tokens, "
    "output_tokens = excluded.output_tokens, measured = excluded.measured, outcome = excluded.outcome, "
    "ttft_ms = excluded.ttft_ms, itl_ms = excluded.itl_ms, cost = excluded.cost where closed_unix_ms is null";

// An open request counts only with its reservation, as in ledger::Balance. Columns are in the order of read_sums.
constexpr const char* kSums =
    "sum(outcome is not 'refused'), sum(outcome <> 'refused'), sum(outcome = 'completed'), sum(outcome = 'cancelled'), "
    "sum(outcome = 'timed_out'), sum(outcome = 'truncated'), sum(outcome = 'failed'), sum(outcome = 'rejected'), "
    "sum(outcome = 'refused'), sum(outcome = 'lost'), "
    "sum(iif(outcome is null, reserved_tokens, 0)), sum(iif(outcome <> 'refused', prompt_tokens, 0)), "
    "sum(iif(outcome <> 'refused', cached_tokens, 0)), sum(iif(outcome <> 'refused', output_tokens, 0)), "
    "sum(iif(outcome <> 'refused', cost, 0.0))";

constexpr double kNull = std::numeric_limits<double>::quiet_NaN();

std::int64_t whole(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()));
}

std::string insert_sql(std::size_t rows, const char* on_conflict) {
  std::string sql = "insert into entries values";
  for (std::size_t row = 0; row < rows; ++row) sql.append(row == 0 ? "" : ",").append(kRow);
  return sql.append(" on conflict(id) do ").append(on_conflict);
}

void bind_row(Statement& insert, const Entry& entry, bool closed) {
  insert.bind(whole(entry.id)).bind_lasting(entry.request_id).bind_lasting(entry.tenant);
  insert.bind_lasting(entry.key_name).bind_lasting(entry.model).bind_lasting(entry.traffic_class);
  insert.bind_lasting(entry.replica).bind(entry.opened_unix_ms);
  // Also correct if the wall clock was set back in between.
  closed ? insert.bind(std::max(entry.closed_unix_ms, entry.opened_unix_ms)) : insert.bind(kNull);
  insert.bind(whole(entry.reserved_tokens)).bind(whole(entry.prompt_tokens)).bind(whole(entry.cached_tokens));
  insert.bind(whole(entry.output_tokens)).bind(std::int64_t{entry.measured});
  closed ? insert.bind_lasting(to_string(entry.outcome)) : insert.bind(kNull);
  insert.bind(entry.ttft_ms < 0.0 ? kNull : entry.ttft_ms).bind(entry.itl_ms < 0.0 ? kNull : entry.itl_ms);
  insert.bind(entry.cost);
}

std::string where_of(const LedgerFilter& filter) {
  std::string sql = " where true";
  if (filter.tenant) sql += " and tenant = ?";
  if (filter.model) sql += " and model = ?";
  if (filter.from_unix_ms) sql += " and opened_unix_ms >= ?";
  if (filter.to_unix_ms) sql += " and opened_unix_ms < ?";
  return sql;
}

void bind_filter(Statement& rows, const LedgerFilter& filter) {
  if (filter.tenant) rows.bind(*filter.tenant);
  if (filter.model) rows.bind(*filter.model);
  if (filter.from_unix_ms) rows.bind(*filter.from_unix_ms);
  if (filter.to_unix_ms) rows.bind(*filter.to_unix_ms);
}

std::uint64_t count_at(const Statement& row, int column) { return static_cast<std::uint64_t>(row.integer(column)); }

ledger::Sums read_sums(const Statement& row, int first) {
  ledger::Sums sums;
  std::uint64_t* const counts[] = {&sums.opened,        &sums.closed,       &sums.completed,       &sums.cancelled,
                                   &sums.timed_out,     &sums.truncated,    &sums.failed,          &sums.rejected,
                                   &sums.refused,       &sums.lost,         &sums.reserved_tokens, &sums.prompt_tokens,
                                   &sums.cached_tokens, &sums.output_tokens};
  for (std::uint64_t* count : counts) *count = count_at(row, first++);
  sums.cost = row.real(first);
  return sums;
}

core::Result<Entry> read_entry(const Statement& row, const std::string& name) {
  Entry entry;
  entry.id = count_at(row, 0);
  std::string* const texts[] = {&entry.request_id, &entry.tenant,        &entry.key_name,
                                &entry.model,      &entry.traffic_class, &entry.replica};
  for (int column = 1; std::string * text : texts) *text = row.text(column++);
  entry.opened_unix_ms = row.integer(7);
  entry.closed_unix_ms = row.integer(8);
  std::uint64_t* const counts[] = {&entry.reserved_tokens, &entry.prompt_tokens, &entry.cached_tokens,
                                   &entry.output_tokens};
  for (int column = 9; std::uint64_t * count : counts) *count = count_at(row, column++);
  entry.measured = row.integer(13) != 0;
  if (entry.closed_unix_ms != 0) {
    const auto outcome = ledger::outcome_of(row.text(14));
    if (!outcome) return core::invalid_input(name, fmt::format("is no ledger: '{}' is no outcome", row.text(14)));
    entry.outcome = *outcome;
  }
  entry.ttft_ms = std::isnan(row.real(15)) ? -1.0 : row.real(15);
  entry.itl_ms = std::isnan(row.real(16)) ? -1.0 : row.real(16);
  entry.cost = row.real(17);
  return entry;
}

// Calls `row` for each row; `row` returns Result<void>.
template <class Row>
core::Result<void> each(Statement& rows, Row row) {
  for (;;) {
    const auto more = rows.step();
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return {};
    if (core::Result<void> done = row(); !done) return done;
  }
}

core::Result<std::uint64_t> number(sqlite3* database, const std::string& name, const std::string& sql,
                                   const LedgerFilter& filter = {}) {
  Statement rows{database, name, sql};
  bind_filter(rows, filter);
  const auto row = rows.step();
  if (!row) return tl::make_unexpected(row.error());
  return *row ? count_at(rows, 0) : 0;
}

}  // namespace

core::Result<SharedFileLock> LedgerStore::lock(const std::string& path) {
  auto held = SharedFileLock::open(path + ".lock");
  if (!held) return tl::make_unexpected(held.error());
  if (!*held)
    return core::environment_error(path, "is written by a process of an earlier version", "end that process first");
  return **std::move(held);
}

core::Result<LedgerStore> LedgerStore::open(const std::string& path, const LedgerOptions& options) {
  auto held = lock(path);
  if (!held) return tl::make_unexpected(held.error());
  auto database = Database::open(path, Database::Access::kWrite, options.lock_wait);
  if (!database) return tl::make_unexpected(database.error());
  LedgerStore store{*std::move(database)};
  store.lock_.emplace(*std::move(held));
  if (auto ready = store.prepare(options); !ready) return tl::make_unexpected(ready.error());
  return store;
}

core::Result<LedgerStore> LedgerStore::open_read_only(const std::string& path) {
  auto database = Database::open(path, Database::Access::kRead, LedgerOptions{}.lock_wait);
  if (!database) return tl::make_unexpected(database.error());
  if (auto good = database->expect(ledger_kind()); !good) return tl::make_unexpected(good.error());
  return LedgerStore{*std::move(database)};
}

core::Result<void> LedgerStore::prepare(const LedgerOptions& options) {
  // The kind is checked before anything is changed, because the file may belong to another program.
  const auto fresh = database_.is_new(ledger_kind());
  if (!fresh) return tl::make_unexpected(fresh.error());
  if (sqlite3_db_readonly(database_.handle(), "main") == 1)
    return core::environment_error(database_.name(), "is read-only", "make it writable, or name another file");
  // A batch need not reach the disk before the next one: a killed process loses nothing, and flush_to_disk() bounds
  // what a power loss takes.
  std::string pragmas =
      "pragma journal_mode = wal; pragma synchronous = normal; pragma journal_size_limit = 16777216; "
      "pragma wal_autocheckpoint = 4000;";
  if (options.bytes_max > 0) pragmas += fmt::format("pragma max_page_count = {};", options.bytes_max / kPageBytes + 1);
  if (auto set = execute(database_.handle(), database_.name(), pragmas.c_str()); !set) return set;
  return database_.in_transaction([&]() -> core::Result<void> {
    if (*fresh)
      if (auto made = database_.make(ledger_kind()); !made) return made;
    if (auto made = execute(database_.handle(), database_.name(), kWritersSchema); !made) return made;
    if (auto made = execute(database_.handle(), database_.name(), kClocksSchema); !made) return made;
    if (auto joined = join(options); !joined) return joined;
    return close_lost(options.now_unix_ms);
  });
}

core::Result<std::vector<std::uint64_t>> LedgerStore::writers() const {
  Statement rows{database_.handle(), database_.name(), "select first_id from writers order by first_id"};
  std::vector<std::uint64_t> writers;
  auto read = each(rows, [&]() -> core::Result<void> {
    writers.push_back(count_at(rows, 0));
    return {};
  });
  if (!read) return tl::make_unexpected(read.error());
  return writers;
}

core::Result<void> LedgerStore::join(const LedgerOptions& options) {
  constexpr std::int64_t kMicroseconds = 1000;
  const auto last = number(database_.handle(), database_.name(), "select coalesce(max(first_id), 0) from writers");
  if (!last) return tl::make_unexpected(last.error());
  const auto entry = number(database_.handle(), database_.name(), "select coalesce(max(id), 0) from entries");
  if (!entry) return tl::make_unexpected(entry.error());
  first_id_ = std::max({static_cast<std::uint64_t>(std::max<std::int64_t>(options.now_unix_ms, 0) * kMicroseconds),
                        *last == 0 ? 0 : *last + kIdsPerWriter, *entry + 1});
  if (!lock_->hold(first_id_))
    return core::environment_error(database_.name(), "another process holds the ids of this one",
                                   "remove its lock file while no gateway runs");
  Statement insert{database_.handle(), database_.name(), "insert into writers values(?, ?)"};
  if (auto done = insert.bind(whole(first_id_)).bind(options.now_unix_ms).run(); !done) return done;
  return note_clock(options);
}

core::Result<void> LedgerStore::note_clock(const LedgerOptions& options) {
  Statement remove{database_.handle(), database_.name(), "delete from clocks where boot <> ?"};
  const std::string boot = options.boot_time ? options.boot_time->boot : std::string{};
  if (auto done = remove.bind_lasting(boot).run(); !done || !options.boot_time) return done;
  // A row that says what the one before it says is left out.
  constexpr std::int64_t kSameMs = 1000;
  Statement insert{
      database_.handle(), database_.name(),
      "insert into clocks select ?1, ?2, ?3 where not exists(select 1 from (select unix_minus_boot_ms as ms "
      "from clocks order by first_id desc limit 1) where abs(ms - ?3) < ?4)"};
  return insert.bind(whole(first_id_))
      .bind_lasting(boot)
      .bind(options.now_unix_ms - options.boot_time->ms)
      .bind(kSameMs)
      .run();
}

// The ids of a writer end where those of the next one begin. The range before the first writer belongs to processes
// that have ended, and so does that of a writer whose lock is free.
core::Result<void> LedgerStore::close_lost(std::int64_t now_unix_ms) {
  const auto known = writers();
  if (!known) return tl::make_unexpected(known.error());
  Statement close{database_.handle(), database_.name(),
                  "update entries set closed_unix_ms = max(opened_unix_ms, ?), outcome = 'lost' "
                  "where closed_unix_ms is null and id >= ? and id < ?"};
  Statement remove{database_.handle(), database_.name(), "delete from writers where first_id = ?"};
  std::uint64_t begin = 0;
  bool lives = false;
  for (std::size_t i = 0; i <= known->size(); ++i) {
    const bool last = i == known->size();
    const std::uint64_t end = last ? std::numeric_limits<std::int64_t>::max() : (*known)[i];
    if (!lives) {
      if (auto done = close.bind(now_unix_ms).bind(whole(begin)).bind(whole(end)).run(); !done) return done;
      lost_ += static_cast<std::uint64_t>(sqlite3_changes64(database_.handle()));
      if (begin > 0)
        if (auto done = remove.bind(whole(begin)).run(); !done) return done;
    }
    begin = end;
    lives = !last && (end == first_id_ || lock_->is_held_elsewhere(end));
  }
  return {};
}

core::Result<void> LedgerStore::settle_lost(std::int64_t now_unix_ms) {
  return database_.in_transaction([&] { return close_lost(now_unix_ms); });
}

Statement& LedgerStore::prepared(std::string_view sql) {
  const auto found = prepared_.find(sql);
  if (found != prepared_.end()) return found->second;
  return prepared_.try_emplace(std::string{sql}, database_.handle(), database_.name(), std::string{sql}).first->second;
}

core::Result<void> LedgerStore::put_all(std::span<const Entry> entries, bool closed) {
  static const std::string kInserts[2][2] = {{insert_sql(kRowsAtOnce, kKeep), insert_sql(1, kKeep)},
                                             {insert_sql(kRowsAtOnce, kUpdate), insert_sql(1, kUpdate)}};
  for (const std::size_t rows : {kRowsAtOnce, std::size_t{1}}) {
    if (entries.size() < rows) continue;
    Statement& insert = prepared(kInserts[closed ? 1 : 0][rows == 1 ? 1 : 0]);
    for (; entries.size() >= rows; entries = entries.subspan(rows)) {
      for (const Entry& entry : entries.first(rows)) bind_row(insert, entry, closed);
      if (auto done = insert.run(); !done) return done;
    }
  }
  return {};
}

core::Result<void> LedgerStore::grow_all(std::span<const LedgerGrowth> grown) {
  if (grown.empty()) return {};
  Statement& update = prepared(kGrow);
  for (const LedgerGrowth& growth : grown) {
    update.bind(whole(growth.prompt_tokens)).bind(whole(growth.output_tokens)).bind(growth.cost);
    if (auto done = update.bind(whole(growth.id)).bind(whole(growth.output_tokens)).run(); !done) return done;
  }
  return {};
}

core::Result<void> LedgerStore::write(std::span<const Entry> opened, std::span<const Entry> closed,
                                      std::span<const LedgerGrowth> grown) {
  return database_.in_transaction([&]() -> core::Result<void> {
    auto done = put_all(opened, false);
    if (done) done = grow_all(grown);
    if (done) done = put_all(closed, true);
    // A statement keeps its first error.
    if (!done) prepared_.clear();
    return done;
  });
}

core::Result<void> LedgerStore::flush_to_disk() {
  sqlite3_file* log = nullptr;
  sqlite3_file_control(database_.handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log == nullptr || log->pMethods == nullptr) return {};  // Nothing was written yet.
  if (const int code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL); code != SQLITE_OK)
    return core::environment_error(database_.name(), fmt::format("cannot be flushed: {}", sqlite3_errstr(code)));
  return {};
}

core::Result<LedgerStore::Sums> LedgerStore::sums(const LedgerFilter& filter) const {
  Statement rows{
      database_.handle(), database_.name(),
      fmt::format("select tenant, model, {} from entries{} group by tenant, model", kSums, where_of(filter))};
  bind_filter(rows, filter);
  Sums sums;
  auto read = each(rows, [&]() -> core::Result<void> {
    sums.emplace(std::pair{rows.text(0), rows.text(1)}, read_sums(rows, 2));
    return {};
  });
  if (!read) return tl::make_unexpected(read.error());
  return sums;
}

core::Result<std::vector<LedgerDay>> LedgerStore::days(const LedgerFilter& filter) const {
  Statement rows{database_.handle(), database_.name(),
                 fmt::format("select opened_unix_ms / {0} * {0} as day, tenant, model, {1} from entries{2} "
                             "group by day, tenant, model order by day, tenant, model",
                             kDayMs, kSums, where_of(filter))};
  bind_filter(rows, filter);
  std::vector<LedgerDay> days;
  auto read = each(rows, [&]() -> core::Result<void> {
    days.push_back({rows.integer(0), rows.text(1), rows.text(2), read_sums(rows, 3)});
    return {};
  });
  if (!read) return tl::make_unexpected(read.error());
  return days;
}

core::Result<std::uint64_t> LedgerStore::open_entries(const LedgerFilter& filter) const {
  const std::string sql = "select count(*) from entries" + where_of(filter) + " and closed_unix_ms is null";
  return number(database_.handle(), database_.name(), sql, filter);
}

core::Result<std::vector<Entry>> LedgerStore::entries(const LedgerFilter& filter) const {
  Statement rows{database_.handle(), database_.name(), "select * from entries" + where_of(filter) + " order by id"};
  bind_filter(rows, filter);
  std::vector<Entry> entries;
  auto read = each(rows, [&]() -> core::Result<void> {
    if (entries.size() == kEntriesMax)
      return core::invalid_input(database_.name(), fmt::format("has more than {} entries", kEntriesMax),
                                 "ask for fewer");
    auto entry = read_entry(rows, database_.name());
    if (!entry) return tl::make_unexpected(entry.error());
    entries.push_back(std::move(*entry));
    return {};
  });
  if (!read) return tl::make_unexpected(read.error());
  return entries;
}

core::Result<std::vector<ledger::PastUse>> LedgerStore::uses_since(std::int64_t unix_ms, std::int64_t slice_ms) const {
  // The last row of `clocks` is of this process.
  constexpr const char* kShifts =
      "with shifts as (select first_id, (select unix_minus_boot_ms from clocks order by first_id desc limit 1) "
      "- unix_minus_boot_ms as ms from clocks), "
      "times as (select *, opened_unix_ms + coalesce((select ms from shifts where first_id <= id "
      "order by first_id desc limit 1), 0) as at from entries "
      "where opened_unix_ms >= ?1 - (select max(coalesce(max(ms), 0), 0) from shifts))";
  Statement rows{database_.handle(), database_.name(),
                 fmt::format("{1} select tenant, traffic_class, (at / {0} + 1) * {0} as slice_end, "
                             "sum(iif(outcome is null or outcome = 'lost', reserved_tokens, "
                             "prompt_tokens + output_tokens)) from times where at >= ?1 "
                             "and outcome is not 'refused' group by slice_end, tenant, traffic_class",
                             slice_ms, kShifts)};
  rows.bind(unix_ms);
  std::vector<ledger::PastUse> uses;
  auto read = each(rows, [&]() -> core::Result<void> {
    uses.push_back({rows.text(0), rows.text(1), rows.integer(2), count_at(rows, 3)});
    return {};
  });
  if (!read) return tl::make_unexpected(read.error());
  return uses;
}

core::Result<std::uint64_t> LedgerStore::remove_before(std::int64_t unix_ms, std::uint64_t entries_max) {
  std::uint64_t removed = 0;
  auto done = database_.in_transaction([&]() -> core::Result<void> {
    Statement remove{database_.handle(), database_.name(),
                     "delete from entries where id in (select id from entries where opened_unix_ms < ? "
                     "and closed_unix_ms is not null order by opened_unix_ms limit ?)"};
    if (auto run = remove.bind(unix_ms).bind(whole(entries_max)).run(); !run) return run;
    removed = static_cast<std::uint64_t>(sqlite3_changes64(database_.handle()));
    return {};
  });
  if (!done) return tl::make_unexpected(done.error());
  return removed;
}

}  // namespace penstock::connect
