// One connection to an SQLite file that Penstock writes: checks the kind of file and creates or checks its schema.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/result.h"
#include "core/time.h"

struct sqlite3;

namespace penstock::connect {

struct DatabaseKind {
  const char* name;    // Used in messages, such as "decision log".
  int application_id;  // Stored in the file's header, so that `file` can identify it.
  int version;         // Schema version.
  std::string schema;  // Statements that create the schema.
  const char* hint;    // Suggests what to do with a file of another kind.
};

// One thread at a time may use it. Errors name the file; a file of another kind is an input error, a disk or lock
// failure is an error of the environment.
class Database {
 public:
  static constexpr const char* kInMemory = ":memory:";  // Path of a database without a file.
  enum class Access { kRead, kWrite };                  // kWrite creates the file if it is missing.
  // `lock_wait` limits the wait for a lock of another process. Code in the file's schema is not run, and values above 1
  // MiB are rejected, because a file from elsewhere may be malicious.
  [[nodiscard]] static core::Result<Database> open(const std::string& path, Access access, core::Duration lock_wait);

  [[nodiscard]] sqlite3* handle() const { return handle_.get(); }
  [[nodiscard]] const std::string& name() const { return *name_; }  // Never moves.

  // Returns whether the file is empty; another kind of file is an error.
  [[nodiscard]] core::Result<bool> is_new(const DatabaseKind& kind) const;
  // Returns an error if the file is empty or of another kind.
  [[nodiscard]] core::Result<void> expect(const DatabaseKind& kind) const;
  [[nodiscard]] core::Result<void> make(const DatabaseKind& kind) const;
  // Runs the work in a transaction, which is rolled back after an error.
  [[nodiscard]] core::Result<void> in_transaction(const std::function<core::Result<void>()>& work) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  using Handle = std::unique_ptr<sqlite3, Close>;
  Database(Handle handle, std::string name)
      : name_(std::make_unique<const std::string>(std::move(name))), handle_(std::move(handle)) {}

  std::unique_ptr<const std::string> name_;
  Handle handle_;
};

}  // namespace penstock::connect
