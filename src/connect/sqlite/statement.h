// One prepared statement: values in, rows out. The first thing that fails is kept, and nothing is done after it.
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

// Of the last call on that connection. Damaged files and files of another kind are the user's, all else the
// environment's.
[[nodiscard]] core::Error sqlite_error(sqlite3* database, const std::string& name);
[[nodiscard]] core::Result<void> execute(sqlite3* database, const std::string& name, const char* sql);

class Statement {
 public:
  Statement(sqlite3* database, const std::string& name, const std::string& sql);

  // Parameters from the first on; values are copied. Not a number is null.
  Statement& bind(std::int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view value);
  // Of what stays as it is until the statement has run: nothing is copied.
  Statement& bind_lasting(std::string_view value);

  // To the next row; false after the last one. run() is for statements that have no rows, and makes it ready for
  // others.
  [[nodiscard]] core::Result<bool> step();
  [[nodiscard]] core::Result<void> run();
  void reset();

  // Of the current row, by column from 0.
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;  // null is not a number
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
  std::optional<core::Error> failed_;  // the first time
};

}  // namespace penstock::connect
