#include "connect/sqlite/decision_store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>
#include <limits>

#include "connect/sqlite/statement.h"

namespace penstock::connect {
namespace {

using signals::CandidateNote;
using signals::DecisionEntry;
using signals::DecisionNote;

constexpr int kApplicationId = 0x504E5354;  // "PNST", in the file's header, so that `file` can tell it
constexpr int kSchemaVersion = 2;           // 2: cause, diagnosis, phase and outlook
constexpr int kOldestVersion = 1;  // that is still read, and brought to the present one when it is opened for appending
constexpr int kValueBytesMax = 1 << 20;

constexpr const char* kSchema = R"(
create table decisions(
  id integer primary key, at_ns integer not null, policy text not null, pool text not null,
  current_replicas integer not null, target_replicas integer not null, reason text not null, limited_by text not null,
  would_change text not null) strict;
create index decisions_by_time on decisions(policy, pool, at_ns);
create table evidence(
  decision integer not null references decisions, position integer not null,
  name text not null, value real, unit text not null,
  primary key(decision, position)) strict, without rowid;
create table candidates(
  decision integer not null references decisions, position integer not null,
  slo_attainment real, ttft_attainment real, itl_attainment real, chosen integer not null,
  primary key(decision, position)) strict, without rowid;
create table candidate_replicas(
  decision integer not null references decisions, candidate integer not null, position integer not null,
  pool text not null, replicas integer not null,
  primary key(decision, candidate, position)) strict, without rowid;
)";

// From version 1 to 2; a new file is made in the same two steps. Null is what was not said.
constexpr const char* kSecondVersion = R"(
alter table decisions add column cause text not null default '';
alter table decisions add column diagnosis text not null default '';
alter table decisions add column phase text not null default '';
alter table decisions add column next_phase_target integer;
alter table decisions add column expected_requests_per_s real;
alter table decisions add column expected_input_tokens real;
alter table decisions add column expected_output_tokens real;
alter table decisions add column forecast_error real;
alter table decisions add column naive_forecast_error real;
)";

constexpr const char* kFirstColumns =
    "id, at_ns, policy, pool, current_replicas, target_replicas, reason, limited_by, would_change";
constexpr const char* kSecondColumns =
    "cause, diagnosis, phase, next_phase_target, expected_requests_per_s, expected_input_tokens, "
    "expected_output_tokens, forecast_error, naive_forecast_error";
constexpr const char* kSecondColumnsOfTheFirst = "'', '', '', null, null, null, null, null, null";
constexpr int kSecondColumn = 9;  // the place of the first of them in a row

// What one prepared insert each puts into the four tables.
class Inserts {
 public:
  Inserts(sqlite3* database, const std::string& name)
      : decision_(database, name,
                  "insert into decisions values(null, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
        evidence_(database, name, "insert into evidence values(?, ?, ?, ?, ?)"),
        candidate_(database, name, "insert into candidates values(?, ?, ?, ?, ?, ?)"),
        replicas_(database, name, "insert into candidate_replicas values(?, ?, ?, ?, ?)"),
        database_(database),
        name_(name) {}

  core::Result<void> add(const DecisionEntry& entry) {
    const DecisionNote& note = entry.note;
    decision_.bind(note.at.time_since_epoch().count()).bind(entry.policy).bind(note.pool);
    decision_.bind(std::int64_t{note.current}).bind(std::int64_t{note.target});
    decision_.bind(note.reason).bind(note.limited_by).bind(entry.would_change);
    bind_what_was_said(note);
    if (auto done = decision_.run(); !done) return done;
    const std::int64_t id = sqlite3_last_insert_rowid(database_);
    for (std::size_t i = 0; i < note.evidence.size(); ++i) {
      const signals::EvidenceValue& item = note.evidence[i];
      evidence_.bind(id).bind(static_cast<std::int64_t>(i)).bind(item.name).bind(item.value).bind(item.unit);
      if (auto done = evidence_.run(); !done) return done;
    }
    for (std::size_t i = 0; i < note.candidates.size(); ++i)
      if (auto done = add(id, i, note.candidates[i], entry.pools); !done) return done;
    return {};
  }

 private:
  void bind_what_was_said(const DecisionNote& note) {
    constexpr double kNull = std::numeric_limits<double>::quiet_NaN();
    decision_.bind(note.cause).bind(note.diagnosis).bind(note.phase);
    note.next_phase_target ? decision_.bind(std::int64_t{*note.next_phase_target}) : decision_.bind(kNull);
    const signals::OutlookNote outlook = note.outlook.value_or(signals::OutlookNote{});
    for (const std::optional<double>& figure :
         {outlook.requests_per_s, outlook.input_tokens, outlook.output_tokens, outlook.error, outlook.naive_error})
      decision_.bind(figure.value_or(kNull));
  }
  core::Result<void> add(std::int64_t id, std::size_t index, const CandidateNote& tried,
                         const std::vector<std::string>& pools) {
    if (tried.replicas.size() != pools.size())
      return core::invalid_input(name_, fmt::format("candidate {} has {} pools, its entry names {}", index,
                                                    tried.replicas.size(), pools.size()));
    const auto candidate = static_cast<std::int64_t>(index);
    candidate_.bind(id).bind(candidate).bind(tried.slo_attainment).bind(tried.ttft_attainment);
    candidate_.bind(tried.itl_attainment).bind(std::int64_t{tried.chosen});
    if (auto done = candidate_.run(); !done) return done;
    for (std::size_t i = 0; i < pools.size(); ++i) {
      replicas_.bind(id).bind(candidate).bind(static_cast<std::int64_t>(i)).bind(pools[i]);
      if (auto done = replicas_.bind(std::int64_t{tried.replicas[i]}).run(); !done) return done;
    }
    return {};
  }

  Statement decision_, evidence_, candidate_, replicas_;
  sqlite3* database_;
  const std::string& name_;
};

// The three queries of one entry.
class Selects {
 public:
  Selects(sqlite3* database, const std::string& name)
      : evidence_(database, name, "select name, value, unit from evidence where decision = ? order by position"),
        candidates_(database, name,
                    "select slo_attainment, ttft_attainment, itl_attainment, chosen from candidates "
                    "where decision = ? order by position"),
        replicas_(database, name,
                  "select candidate, pool, replicas from candidate_replicas where decision = ? "
                  "order by candidate, position"),
        name_(name) {}

  core::Result<void> complete(std::int64_t id, DecisionEntry& entry) {
    return each(evidence_, id,
                [&]() -> core::Result<void> {
                  entry.note.evidence.push_back({evidence_.text(0), evidence_.real(1), evidence_.text(2)});
                  return {};
                })
        .and_then([&] {
          return each(candidates_, id, [&]() -> core::Result<void> {
            entry.note.candidates.push_back(
                {{}, candidates_.real(0), candidates_.real(1), candidates_.real(2), candidates_.integer(3) != 0});
            return {};
          });
        })
        .and_then([&] { return each(replicas_, id, [&] { return add_replicas(entry); }); });
  }

 private:
  template <class Row>
  static core::Result<void> each(Statement& statement, std::int64_t id, Row row) {
    statement.bind(id);
    for (;;) {
      const auto more = statement.step();
      if (!more) return tl::make_unexpected(more.error());
      if (!*more) break;
      if (core::Result<void> done = row(); !done) return done;
    }
    statement.reset();
    return {};
  }

  core::Result<void> add_replicas(DecisionEntry& entry) {
    const std::int64_t candidate = replicas_.integer(0), replicas = replicas_.integer(2);
    if (candidate < 0 || candidate >= static_cast<std::int64_t>(entry.note.candidates.size()) || replicas < 0 ||
        replicas > UINT32_MAX)
      return core::invalid_input(name_, "is no decision log: replicas of a candidate that is not there");
    if (candidate == 0) entry.pools.push_back(replicas_.text(1));
    entry.note.candidates[static_cast<std::size_t>(candidate)].replicas.push_back(static_cast<std::uint32_t>(replicas));
    return {};
  }

  Statement evidence_, candidates_, replicas_;
  const std::string& name_;
};

core::Result<std::uint32_t> replicas_of(std::int64_t value, const std::string& name) {
  if (value >= 0 && value <= UINT32_MAX) return static_cast<std::uint32_t>(value);
  return core::invalid_input(name, fmt::format("is no decision log: {} is no count of replicas", value));
}

std::optional<double> figure_of(const Statement& row, int column) {
  const double value = row.real(column);
  return std::isnan(value) ? std::nullopt : std::optional{value};
}

core::Result<void> read_what_was_said(const Statement& row, const std::string& name, DecisionNote& note) {
  note.cause = row.text(kSecondColumn);
  note.diagnosis = row.text(kSecondColumn + 1);
  note.phase = row.text(kSecondColumn + 2);
  if (figure_of(row, kSecondColumn + 3)) {
    const auto target = replicas_of(row.integer(kSecondColumn + 3), name);
    if (!target) return tl::make_unexpected(target.error());
    note.next_phase_target = *target;
  }
  const auto figure = [&](int place) { return figure_of(row, kSecondColumn + 4 + place); };
  const signals::OutlookNote outlook{figure(0), figure(1), figure(2), figure(3), figure(4)};
  if (outlook.known()) note.outlook = outlook;
  return {};
}

}  // namespace

void DecisionStore::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

core::Result<DecisionStore> DecisionStore::connect(const std::string& path, int flags) {
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Handle handle{opened};  // also after a failure there is something to close
  if (code != SQLITE_OK) return tl::make_unexpected(sqlite_error(opened, path));
  // A file from elsewhere may be made to do harm: nothing in its schema is run, and no value is larger than a log's
  // line.
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, kValueBytesMax);
  sqlite3_busy_timeout(opened, static_cast<int>(kLockWaitMax / std::chrono::milliseconds{1}));
  return DecisionStore{std::move(handle), path};
}

core::Result<DecisionStore> DecisionStore::open(const std::string& path) {
  auto store = connect(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!store) return store;
  if (auto ready = store->prepare_schema(); !ready) return tl::make_unexpected(ready.error());
  return store;
}

core::Result<DecisionStore> DecisionStore::open_read_only(const std::string& path) {
  auto store = connect(path, SQLITE_OPEN_READONLY);
  if (!store) return store;
  const auto version = store->schema_version();
  if (!version) return tl::make_unexpected(version.error());
  store->version_ = *version;
  return store;
}

core::Result<DecisionStore> DecisionStore::in_memory() { return open(":memory:"); }

core::Result<int> DecisionStore::schema_version() const {
  Statement version{database_.get(), name_,
                    "select application_id, user_version from pragma_application_id, pragma_user_version"};
  const auto row = version.step();
  if (!row) return tl::make_unexpected(row.error());
  if (!*row || version.integer(0) != kApplicationId)
    return core::invalid_input(name_, "is an SQLite database, but no decision log",
                               "`penstock replay --decision-log` writes one");
  if (version.integer(1) < kOldestVersion || version.integer(1) > kSchemaVersion)
    return core::invalid_input(name_, fmt::format("has version {} of the schema, this program knows {} to {}",
                                                  version.integer(1), kOldestVersion, kSchemaVersion));
  return static_cast<int>(version.integer(1));
}

core::Result<void> DecisionStore::prepare_schema() {
  // In one transaction, so that two processes that open a new file do not both fill it.
  if (auto begun = execute(database_.get(), name_, "begin immediate"); !begun) return begun;
  const auto fill = [&]() -> core::Result<void> {
    bool is_new = false;
    {
      Statement tables{database_.get(), name_, "select count(*) from sqlite_schema"};
      const auto row = tables.step();
      if (!row) return tl::make_unexpected(row.error());
      is_new = tables.integer(0) == 0;
    }
    const core::Result<int> found = is_new ? core::Result<int>{0} : schema_version();
    if (!found) return tl::make_unexpected(found.error());
    version_ = kSchemaVersion;
    if (*found == kSchemaVersion) return {};
    const std::string sql = fmt::format("{}{}pragma application_id = {}; pragma user_version = {};",
                                        is_new ? kSchema : "", kSecondVersion, kApplicationId, kSchemaVersion);
    return execute(database_.get(), name_, sql.c_str());
  };
  core::Result<void> filled = fill();
  const core::Result<void> ended = execute(database_.get(), name_, filled ? "commit" : "rollback");
  return filled ? ended : filled;
}

core::Result<void> DecisionStore::append(std::span<const DecisionEntry> entries) {
  if (auto begun = execute(database_.get(), name_, "begin immediate"); !begun) return begun;
  core::Result<void> added{};
  {
    Inserts inserts{database_.get(), name_};
    for (std::size_t i = 0; added && i < entries.size(); ++i) added = inserts.add(entries[i]);
  }
  const core::Result<void> ended = execute(database_.get(), name_, added ? "commit" : "rollback");
  return added ? ended : added;
}

core::Result<std::vector<DecisionEntry>> DecisionStore::read(const DecisionFilter& filter) const {
  std::string sql = fmt::format("select {}, {} from decisions where true", kFirstColumns,
                                version_ == kSchemaVersion ? kSecondColumns : kSecondColumnsOfTheFirst);
  if (filter.policy) sql += " and policy = ?";
  if (filter.pool) sql += " and pool = ?";
  if (filter.from) sql += " and at_ns >= ?";
  if (filter.to) sql += " and at_ns <= ?";
  Statement rows{database_.get(), name_, sql + " order by id"};
  if (filter.policy) rows.bind(*filter.policy);
  if (filter.pool) rows.bind(*filter.pool);
  if (filter.from) rows.bind(filter.from->time_since_epoch().count());
  if (filter.to) rows.bind(filter.to->time_since_epoch().count());

  Selects selects{database_.get(), name_};
  std::vector<DecisionEntry> entries;
  for (;;) {
    const auto more = rows.step();
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return entries;
    if (entries.size() == kEntriesMax)
      return core::invalid_input(name_, fmt::format("has more than {} entries", kEntriesMax), "ask for fewer");
    const auto current = replicas_of(rows.integer(4), name_), target = replicas_of(rows.integer(5), name_);
    if (!current || !target) return tl::make_unexpected(current ? target.error() : current.error());
    if (rows.integer(1) < 0) return core::invalid_input(name_, "is no decision log: a decision before the start");
    DecisionEntry& entry = entries.emplace_back();
    entry.policy = rows.text(2);
    entry.note.at = core::kStart + core::Duration{rows.integer(1)};
    entry.note.pool = rows.text(3);
    entry.note.current = *current;
    entry.note.target = *target;
    entry.note.reason = rows.text(6);
    entry.note.limited_by = rows.text(7);
    entry.would_change = rows.text(8);
    if (auto said = read_what_was_said(rows, name_, entry.note); !said) return tl::make_unexpected(said.error());
    if (auto done = selects.complete(rows.integer(0), entry); !done) return tl::make_unexpected(done.error());
  }
}

core::Result<std::string> DecisionStore::bytes() const {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> image{
      sqlite3_serialize(database_.get(), "main", &size, 0), sqlite3_free};
  if (image == nullptr) return core::environment_error(name_, "out of memory");
  return std::string{image.get(), image.get() + size};
}

bool is_sqlite(std::string_view first_bytes) {
  using namespace std::string_view_literals;
  return first_bytes.starts_with("SQLite format 3\0"sv);
}

}  // namespace penstock::connect
