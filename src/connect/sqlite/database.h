// One connection to an SQLite file of a kind that Penstock writes: opened with care, its schema checked or made.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "core/result.h"
#include "core/time.h"

struct sqlite3;

namespace penstock::connect {

struct DatabaseKind {
  const char* name;    // "decision log", for messages
  int application_id;  // in the file's header, so that `file` can tell it
  int version;         // of the schema
  std::string schema;  // statements that make it
  const char* hint;    // what to do with a file of another kind
};

// For one thread at a time. Errors name the file: of the input where it is of another kind, of the environment where the
// disk or a lock is at fault.
class Database {
 public:
  enum class Access { kRead, kWrite };  // kWrite makes the file if it is not there
  // A lock of another process is waited for so long. Nothing in the file's schema is run, and no value is larger than
  // 1 MiB, since a file from elsewhere may be made to do harm.
  [[nodiscard]] static core::Result<Database> open(const std::string& path, Access access, core::Duration lock_wait);

  [[nodiscard]] sqlite3* handle() const { return handle_.get(); }
  [[nodiscard]] const std::string& name() const { return name_; }

  // Whether it is empty; an error where it holds something else than this kind.
  [[nodiscard]] core::Result<bool> is_new(const DatabaseKind& kind) const;
  // An error where the file is empty or of another kind.
  [[nodiscard]] core::Result<void> expect(const DatabaseKind& kind) const;
  [[nodiscard]] core::Result<void> make(const DatabaseKind& kind) const;
  // All of the work or, after an error, none of it.
  [[nodiscard]] core::Result<void> in_transaction(const std::function<core::Result<void>()>& work) const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  using Handle = std::unique_ptr<sqlite3, Close>;
  Database(Handle handle, std::string name) : name_(std::move(name)), handle_(std::move(handle)) {}

  std::string name_;
  Handle handle_;
};

}  // namespace penstock::connect
