#include "connect/sqlite/statement.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>
#include <limits>

namespace penstock::connect {

core::Error sqlite_error(sqlite3* database, const std::string& name) {
  const int code = sqlite3_errcode(database);
  const char* what = database == nullptr ? "out of memory" : sqlite3_errmsg(database);
  switch (code) {
    case SQLITE_NOTADB: return {core::ErrorCode::kInvalidInput, name, "is no SQLite database", "name another file"};
    case SQLITE_CORRUPT:
      return {core::ErrorCode::kInvalidInput, name, fmt::format("is damaged: {}", what), "restore it from a copy"};
    // A missing table or column, or one of another type, means a database of another kind.
    case SQLITE_ERROR:
    case SQLITE_MISMATCH:
    case SQLITE_CONSTRAINT:
      return {core::ErrorCode::kInvalidInput, name, fmt::format("does not hold what it should: {}", what), {}};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {core::ErrorCode::kEnvironment, name, "is locked by another process", "try again when it is done"};
    default: return {core::ErrorCode::kEnvironment, name, what, {}};
  }
}

core::Result<void> execute(sqlite3* database, const std::string& name, const char* sql) {
  if (sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return tl::make_unexpected(sqlite_error(database, name));
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement::Statement(sqlite3* database, const std::string& name, const std::string& sql)
    : database_(database), name_(&name) {
  sqlite3_stmt* statement = nullptr;
  check(sqlite3_prepare_v2(database, sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr));
  statement_.reset(statement);
}

// The connection keeps only its last error, so it is read at once.
void Statement::check(int code) {
  if (code != SQLITE_OK && !failed_) failed_ = sqlite_error(database_, *name_);
}

Statement& Statement::bind(std::int64_t value) {
  if (!failed_) check(sqlite3_bind_int64(statement_.get(), next_parameter_++, value));
  return *this;
}

Statement& Statement::bind(double value) {
  if (failed_) return *this;
  const int parameter = next_parameter_++;
  check(std::isfinite(value) ? sqlite3_bind_double(statement_.get(), parameter, value)
                             : sqlite3_bind_null(statement_.get(), parameter));
  return *this;
}

Statement& Statement::bind(std::string_view value) { return bind_text(value, SQLITE_TRANSIENT); }
Statement& Statement::bind_lasting(std::string_view value) { return bind_text(value, SQLITE_STATIC); }

Statement& Statement::bind_text(std::string_view value, void (*keeps)(void*)) {
  const char* bytes = value.empty() ? "" : value.data();  // SQLite would bind a null pointer as null.
  if (!failed_)
    check(sqlite3_bind_text64(statement_.get(), next_parameter_++, bytes, value.size(), keeps, SQLITE_UTF8));
  return *this;
}

core::Result<bool> Statement::step() {
  if (!failed_) {
    const int code = sqlite3_step(statement_.get());
    if (code == SQLITE_ROW || code == SQLITE_DONE) return code == SQLITE_ROW;
    check(code);
  }
  return tl::make_unexpected(*failed_);
}

core::Result<void> Statement::run() {
  const auto stepped = step();
  if (!stepped) return tl::make_unexpected(stepped.error());
  reset();
  return {};
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  next_parameter_ = 1;
}

std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

double Statement::real(int column) const {
  if (sqlite3_column_type(statement_.get(), column) == SQLITE_NULL) return std::numeric_limits<double>::quiet_NaN();
  return sqlite3_column_double(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return bytes == nullptr ? std::string{} : std::string{bytes, bytes + size};
}

}  // namespace penstock::connect
