#include "connect/sqlite/database.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <utility>

#include "connect/sqlite/statement.h"

namespace penstock::connect {
namespace {

constexpr int kValueBytesMax = 1 << 20;

}  // namespace

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

core::Result<Database> Database::open(const std::string& path, Access access, core::Duration lock_wait) {
  const int flags = access == Access::kRead ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  // A new file is readable by its owner only, and SQLite gives its other files the same mode.
  if (access == Access::kWrite && path != kInMemory)
    if (const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); file >= 0) ::close(file);
  sqlite3* opened = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &opened, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  Handle handle{opened};  // After a failure, too, there is a handle to close.
  if (code != SQLITE_OK) return tl::make_unexpected(sqlite_error(opened, path));
  sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, kValueBytesMax);
  sqlite3_busy_timeout(opened, static_cast<int>(lock_wait / std::chrono::milliseconds{1}));
  return Database{std::move(handle), path};
}

core::Result<bool> Database::is_new(const DatabaseKind& kind) const {
  Statement version{handle(), name(),
                    "select application_id, user_version, (select count(*) from sqlite_schema) "
                    "from pragma_application_id, pragma_user_version"};
  const auto row = version.step();
  if (!row) return tl::make_unexpected(row.error());
  if (*row && version.integer(0) == 0 && version.integer(2) == 0) return true;
  if (!*row || version.integer(0) != kind.application_id)
    return core::invalid_input(name(), fmt::format("is an SQLite database, but not a {}", kind.name), kind.hint);
  if (version.integer(1) != kind.version)
    return core::invalid_input(name(), fmt::format("has version {} of the schema, this program knows version {}",
                                                   version.integer(1), kind.version));
  return false;
}

core::Result<void> Database::expect(const DatabaseKind& kind) const {
  const auto empty = is_new(kind);
  if (!empty) return tl::make_unexpected(empty.error());
  if (*empty) return core::invalid_input(name(), fmt::format("is empty, and not a {}", kind.name), kind.hint);
  return {};
}

core::Result<void> Database::make(const DatabaseKind& kind) const {
  const std::string sql = fmt::format("{} pragma application_id = {}; pragma user_version = {};", kind.schema,
                                      kind.application_id, kind.version);
  return execute(handle(), name(), sql.c_str());
}

core::Result<void> Database::in_transaction(const std::function<core::Result<void>()>& work) const {
  if (auto begun = execute(handle(), name(), "begin immediate"); !begun) return begun;
  core::Result<void> done = work();
  if (done) done = execute(handle(), name(), "commit");
  // A full disk may already have ended the transaction.
  if (!done && sqlite3_get_autocommit(handle()) == 0) static_cast<void>(execute(handle(), name(), "rollback"));
  return done;
}

}  // namespace penstock::connect
