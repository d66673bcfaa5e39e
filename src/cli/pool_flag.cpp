#include "cli/pool_flag.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace penstock::cli {

options::Value each_use(std::vector<std::string>& field) {
  options::Value made;
  made.type = "text";
  made.parse = [&field](std::span<const std::string> texts) -> core::Result<void> {
    auto text = options::parse_text(texts.front());
    if (!text) return tl::make_unexpected(text.error());
    field.push_back(*std::move(text));
    return {};
  };
  made.format = [] { return std::string{}; };
  return made;
}

PoolFlag::PoolFlag(const char* flag, const std::vector<std::string>& texts, const std::vector<std::string>& pools)
    : flag_{flag} {
  for (const std::string& text : texts) {
    const std::size_t colon = text.find(':');
    const bool has_pool =
        colon != std::string::npos && std::find(pools.begin(), pools.end(), text.substr(0, colon)) != pools.end();
    texts_.push_back(has_pool ? PoolText{text.substr(0, colon), text.substr(colon + 1)} : PoolText{{}, text});
    unknown_ |= !has_pool && colon != std::string::npos;
  }
  pools_ = fmt::format("the pools are {}", fmt::join(pools, ", "));
}

std::string PoolFlag::of(const std::string& pool, std::string fallback) const {
  for (const std::string& wanted : {std::string{}, pool})
    for (const PoolText& text : texts_)
      if (text.pool == wanted) fallback = text.value;
  return fallback;
}

std::vector<std::string> PoolFlag::all_of(const std::string& pool) const {
  std::vector<std::string> values;
  for (const std::string& wanted : {std::string{}, pool})
    for (const PoolText& text : texts_)
      if (text.pool == wanted) values.push_back(text.value);
  return values;
}

}  // namespace penstock::cli
