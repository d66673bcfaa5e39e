// One prepared statement. The first error is kept, and later calls do nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace penstock::connect {

// Returns the error of the last call on that connection. Damaged files and files of another kind are input errors; all
// others are errors of the environment.
[[nodiscard]] core::Error sqlite_error(sqlite3* database, const std::string& name);
[[nodiscard]] core::Result<void> execute(sqlite3* database, const std::string& name, const char* sql);

class Statement {
 public:
  Statement(sqlite3* database, const std::string& name, const std::string& sql);

  // Binds the next parameter and copies the value. NaN is bound as null.
  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  // Binds without a copy; the value must stay unchanged until the statement has run.
  Statement& bind_lasting(std::string_view value);

  // Moves to the next row and returns false after the last one. run() is for statements without rows, and resets the
  // statement.
  [[nodiscard]] core::Result<bool> step();
  [[nodiscard]] core::Result<void> run();
  void reset();

  // Columns of the current row, counted from 0.
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;  // Null is returned as NaN.
  [[nodiscard]] std::string text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement& bind_text(std::string_view value, void (*keeps)(void*));
  void check(int code);

  sqlite3* database_;
  const std::string* name_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int next_parameter_ = 1;
  std::optional<core::Error> failed_;  // The first error.
};

}  // namespace penstock::connect
