// Flags of `penstock manifests` that have a value for one pool, or for all of them: "[POOL:]VALUE".
#pragma once

#include <string>
#include <vector>

#include "options/reading.h"
#include "options/scalars.h"
#include "options/table.h"

namespace penstock::cli {

// The value of a flag that may be given several times. `field` gets each text.
[[nodiscard]] options::Value each_use(std::vector<std::string>& field);

// The values of a flag by pool.
class PoolFlag {
 public:
  // A text with a colon that names none of the pools is a value of all pools. `flag` must outlive it.
  PoolFlag(const char* flag, const std::vector<std::string>& texts, const std::vector<std::string>& pools);

  // Reports each value that `check` refuses; it returns core::Result<void>.
  template <class Check>
  void report_refused(options::Reading& reading, Check check) const {
    for (const PoolText& text : texts_) {
      core::Result<void> good = check(text.value);
      if (good) continue;
      const std::string hint = unknown_ ? pools_ : good.error().hint;
      reading.report(flag_, options::quote(text.value) + " " + good.error().what, hint);
    }
  }

  // The last value of the pool, else that of all pools, else `fallback`.
  [[nodiscard]] std::string of(const std::string& pool, std::string fallback) const;
  // All values of the pool, those of all pools first.
  [[nodiscard]] std::vector<std::string> all_of(const std::string& pool) const;

 private:
  struct PoolText {
    std::string pool, value;  // An empty pool means all.
  };

  const char* flag_;
  std::string pools_;
  std::vector<PoolText> texts_;
  bool unknown_ = false;  // A value has a colon and names no pool.
};

}  // namespace penstock::cli
