#include "connect/sqlite/decision_store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "connect/sqlite/statement.h"
#include "decision/fields.h"

namespace penstock::connect {
namespace {

using decision::Candidate;
using decision::DecisionRecord;
using decision::Field;
using decision::FieldValue;
using Kind = Field::Kind;

constexpr const char* kLists = R"(
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

std::vector<const Field*> columns() {
  std::vector<const Field*> columns;
  for (const Field& field : decision::fields())
    if (field.is_in(decision::Rendering::kLog)) columns.push_back(&field);
  return columns;
}

const char* type_of(const Field& field) {
  return field.kind == Kind::kText ? "text" : field.kind == Kind::kFigure ? "real" : "integer";
}

std::string name_of(const Field& field) { return field.kind == Kind::kTime ? "at_ns" : field.column(); }

DatabaseKind decision_log() {
  std::string schema = "create table decisions(id integer primary key";
  for (const Field* field : columns()) {
    const bool may_be_null = !field->always && field->kind != Kind::kText;
    schema += fmt::format(", {} {}{}", name_of(*field), type_of(*field), may_be_null ? "" : " not null");
  }
  return {"decision log", 0x504E5354, 1, schema + ") strict;" + kLists, "`penstock replay --decision-log` writes one"};
}

// The fields of this program that the log of another version lacks.
core::Result<std::vector<const Field*>> missing_columns(const Database& database) {
  std::vector<const Field*> missing = columns();
  Statement names{database.handle(), database.name(), "select name from pragma_table_info('decisions')"};
  for (;;) {
    const auto more = names.step();
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return missing;
    std::erase_if(missing, [name = names.text(0)](const Field* field) { return name_of(*field) == name; });
  }
}

// A required column has no default, so that SQLite refuses to add it.
core::Result<void> add_missing_columns(const Database& database) {
  const auto missing = missing_columns(database);
  if (!missing) return tl::make_unexpected(missing.error());
  for (const Field* field : *missing) {
    const char* empty = field->always ? " not null" : field->kind == Kind::kText ? " not null default ''" : "";
    const std::string sql =
        fmt::format("alter table decisions add column {} {}{}", name_of(*field), type_of(*field), empty);
    if (auto done = execute(database.handle(), database.name(), sql.c_str()); !done) return done;
  }
  return {};
}

// Holds one prepared insert for each of the four tables.
class Inserts {
 public:
  explicit Inserts(const Database& database)
      : decision_(database.handle(), database.name(), decision_sql()),
        evidence_(database.handle(), database.name(), "insert into evidence values(?, ?, ?, ?, ?)"),
        candidate_(database.handle(), database.name(), "insert into candidates values(?, ?, ?, ?, ?, ?)"),
        replicas_(database.handle(), database.name(), "insert into candidate_replicas values(?, ?, ?, ?, ?)"),
        database_(database) {}

  core::Result<void> add(const DecisionRecord& record) {
    for (const Field* field : columns_) bind(*field, record);
    if (auto done = decision_.run(); !done) return done;
    const std::int64_t id = sqlite3_last_insert_rowid(database_.handle());
    for (std::size_t i = 0; i < record.evidence.size(); ++i) {
      const decision::Evidence& item = record.evidence[i];
      evidence_.bind(id).bind(static_cast<std::int64_t>(i)).bind(item.name).bind(item.value).bind(item.unit);
      if (auto done = evidence_.run(); !done) return done;
    }
    for (std::size_t i = 0; i < record.candidates.size(); ++i)
      if (auto done = add(id, i, record.candidates[i], record.pools); !done) return done;
    return {};
  }

 private:
  static std::string decision_sql() {
    std::string names, values;
    for (const Field* field : columns()) {
      names += ", " + name_of(*field);
      values += ", ?";
    }
    return fmt::format("insert into decisions(id{}) values(null{})", names, values);
  }
  void bind(const Field& field, const DecisionRecord& record) {
    if (field.kind == Kind::kTime) {
      decision_.bind(record.at.time_since_epoch().count());
      return;
    }
    const FieldValue value = field.get(record);
    if (const auto* text = std::get_if<std::string>(&value))
      decision_.bind(*text);
    else if (const auto* count = std::get_if<std::uint32_t>(&value))
      decision_.bind(std::int64_t{*count});
    else if (const auto* figure = std::get_if<double>(&value))
      decision_.bind(*figure);
    else if (field.kind == Kind::kText)
      decision_.bind(std::string_view{});
    else
      decision_.bind(std::numeric_limits<double>::quiet_NaN());  // Null.
  }
  core::Result<void> add(std::int64_t id, std::size_t index, const Candidate& tried,
                         const std::vector<std::string>& pools) {
    if (tried.replicas.size() != pools.size())
      return core::invalid_input(database_.name(), fmt::format("candidate {} has {} pools, its record names {}", index,
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
  const Database& database_;
  const std::vector<const Field*> columns_ = columns();
};

// Holds the three queries for one entry.
class Selects {
 public:
  explicit Selects(const Database& database)
      : evidence_(database.handle(), database.name(),
                  "select name, value, unit from evidence where decision = ? order by position"),
        candidates_(database.handle(), database.name(),
                    "select slo_attainment, ttft_attainment, itl_attainment, chosen from candidates "
                    "where decision = ? order by position"),
        replicas_(database.handle(), database.name(),
                  "select candidate, pool, replicas from candidate_replicas where decision = ? "
                  "order by candidate, position"),
        name_(database.name()) {}

  core::Result<void> complete(std::int64_t id, DecisionRecord& record) {
    return each(evidence_, id,
                [&]() -> core::Result<void> {
                  record.evidence.push_back({evidence_.text(0), evidence_.real(1), evidence_.text(2)});
                  return {};
                })
        .and_then([&] {
          return each(candidates_, id, [&]() -> core::Result<void> {
            record.candidates.push_back(
                {{}, candidates_.real(0), candidates_.real(1), candidates_.real(2), candidates_.integer(3) != 0});
            return {};
          });
        })
        .and_then([&] { return each(replicas_, id, [&] { return add_replicas(record); }); });
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

  core::Result<void> add_replicas(DecisionRecord& record) {
    const std::int64_t candidate = replicas_.integer(0), replicas = replicas_.integer(2);
    if (candidate < 0 || candidate >= static_cast<std::int64_t>(record.candidates.size()) || replicas < 0 ||
        replicas > UINT32_MAX)
      return core::invalid_input(name_, "is not a decision log: replicas of an unknown candidate");
    if (candidate == 0) record.pools.push_back(replicas_.text(1));
    record.candidates[static_cast<std::size_t>(candidate)].replicas.push_back(static_cast<std::uint32_t>(replicas));
    return {};
  }

  Statement evidence_, candidates_, replicas_;
  const std::string& name_;
};

core::Result<void> read_column(const Statement& row, int column, const Field& field, const std::string& name,
                               DecisionRecord& record) {
  const auto wrong = [&](const std::string& what) {
    return core::invalid_input(name, fmt::format("is not a decision log: {}: {}", name_of(field), what));
  };
  if (field.kind == Kind::kTime) {
    record.at = core::kStart + core::Duration{row.integer(column)};
    if (record.at < core::kStart) return wrong("a decision before the start");
    return {};
  }
  if (field.set == nullptr) return {};
  FieldValue value;
  if (field.kind == Kind::kText) {
    std::string text = row.text(column);
    if (field.always || !text.empty()) value = std::move(text);
  } else if (const double figure = row.real(column); !std::isnan(figure)) {
    if (field.kind == Kind::kFigure) {
      value = figure;
    } else if (const std::int64_t count = row.integer(column); count >= 0 && count <= UINT32_MAX) {
      value = static_cast<std::uint32_t>(count);
    } else {
      return wrong(fmt::format("{} is not a count of replicas", count));
    }
  }
  if (std::holds_alternative<std::monostate>(value) || field.set(record, value)) return {};
  return wrong(fmt::format("unknown name '{}'", std::get<std::string>(value)));
}

}  // namespace

core::Result<DecisionStore> DecisionStore::open(const std::string& path) {
  auto database = Database::open(path, Database::Access::kWrite, kLockWaitMax);
  if (!database) return tl::make_unexpected(database.error());
  // Uses one transaction, so that two processes that open a new file do not both create the schema.
  const auto ready = database->in_transaction([&]() -> core::Result<void> {
    const auto is_new = database->is_new(decision_log());
    if (!is_new) return tl::make_unexpected(is_new.error());
    return *is_new ? database->make(decision_log()) : add_missing_columns(*database);
  });
  if (!ready) return tl::make_unexpected(ready.error());
  return DecisionStore{*std::move(database)};
}

core::Result<DecisionStore> DecisionStore::open_read_only(const std::string& path) {
  auto database = Database::open(path, Database::Access::kRead, kLockWaitMax);
  if (!database) return tl::make_unexpected(database.error());
  if (auto good = database->expect(decision_log()); !good) return tl::make_unexpected(good.error());
  return DecisionStore{*std::move(database)};
}

core::Result<DecisionStore> DecisionStore::in_memory() { return open(Database::kInMemory); }

core::Result<void> DecisionStore::append(std::span<const DecisionRecord> records) {
  return database_.in_transaction([&] {
    core::Result<void> added{};
    Inserts inserts{database_};
    for (std::size_t i = 0; added && i < records.size(); ++i) added = inserts.add(records[i]);
    return added;
  });
}

core::Result<std::vector<DecisionRecord>> DecisionStore::read(const DecisionFilter& filter) const {
  const auto missing = missing_columns(database_);
  if (!missing) return tl::make_unexpected(missing.error());
  std::vector<const Field*> fields = columns();
  std::erase_if(fields, [&](const Field* field) {
    return !field->always && std::find(missing->begin(), missing->end(), field) != missing->end();
  });
  std::string sql = "select id";
  for (const Field* field : fields) sql += ", " + name_of(*field);
  sql += " from decisions where true";
  if (filter.policy) sql += " and policy = ?";
  if (filter.pool) sql += " and pool = ?";
  if (filter.from) sql += " and at_ns >= ?";
  if (filter.to) sql += " and at_ns <= ?";
  const std::string& name = database_.name();
  Statement rows{database_.handle(), name, sql + " order by id"};
  if (filter.policy) rows.bind(*filter.policy);
  if (filter.pool) rows.bind(*filter.pool);
  if (filter.from) rows.bind(filter.from->time_since_epoch().count());
  if (filter.to) rows.bind(filter.to->time_since_epoch().count());

  Selects selects{database_};
  std::vector<DecisionRecord> records;
  for (;;) {
    const auto more = rows.step();
    if (!more) return tl::make_unexpected(more.error());
    if (!*more) return records;
    if (records.size() == kEntriesMax)
      return core::invalid_input(name, fmt::format("has more than {} records", kEntriesMax), "request fewer");
    DecisionRecord& record = records.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (auto read = read_column(rows, static_cast<int>(i) + 1, *fields[i], name, record); !read)
        return tl::make_unexpected(read.error());
    if (auto done = selects.complete(rows.integer(0), record); !done) return tl::make_unexpected(done.error());
  }
}

core::Result<std::string> DecisionStore::bytes() const {
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, decltype(&sqlite3_free)> image{
      sqlite3_serialize(database_.handle(), "main", &size, 0), sqlite3_free};
  if (image == nullptr) return core::environment_error(database_.name(), "out of memory");
  return std::string{image.get(), image.get() + size};
}

bool is_sqlite(std::string_view first_bytes) {
  using namespace std::string_view_literals;
  return first_bytes.starts_with("SQLite format 3\0"sv);
}

}  // namespace penstock::connect
