// The flags of a program under bench/: `--name VALUE`, or `--name` alone for a switch.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace penstock::bench {

class Flags {
 public:
  [[nodiscard]] static core::Result<Flags> parse(std::span<char* const> words, std::vector<std::string_view> valued,
                                                 std::vector<std::string_view> switches = {}) {
    Flags flags;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string name = words[i];
      if (std::find(switches.begin(), switches.end(), name) != switches.end()) {
        flags.values_[name] = "true";
      } else if (std::find(valued.begin(), valued.end(), name) == valued.end()) {
        std::string known;
        for (const auto* names : {&valued, &switches})
          for (const std::string_view one : *names) known.append(known.empty() ? "" : ", ").append(one);
        return core::invalid_input(name, "unknown flag", "the flags are " + known);
      } else if (i + 1 == words.size()) {
        return core::invalid_input(name, "needs a value");
      } else {
        flags.values_[name] = words[++i];
      }
    }
    return flags;
  }
  [[nodiscard]] bool has(const std::string& name) const { return values_.contains(name); }
  // Returns the value of the flag; empty if it was not given.
  [[nodiscard]] std::string value_of(const std::string& name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string{} : found->second;
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace penstock::bench
