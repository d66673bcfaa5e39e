#include "net/memory_budget.h"

#include <algorithm>

#include "core/result.h"

namespace penstock::net {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

bool take_of(std::atomic<std::size_t>& held, std::size_t bytes, std::size_t limit) {
  const std::size_t before = held.fetch_add(bytes, kRelaxed);
  if (bytes <= limit && before <= limit - bytes) return true;
  held.fetch_sub(bytes, kRelaxed);
  return false;
}

bool fits(std::size_t held, std::size_t bytes, std::size_t limit) { return bytes <= limit && held <= limit - bytes; }

}  // namespace

bool MemoryAccount::take(std::size_t bytes) {
  if (!limited_) {
    held_.fetch_add(bytes, kRelaxed);
  } else if (!take_of(held_, bytes, budget_.account_limit_)) {
    return false;
  }
  if (take_of(budget_.held_, bytes, budget_.limit_)) return true;
  held_.fetch_sub(bytes, kRelaxed);
  return false;
}

void MemoryAccount::give_back(std::size_t bytes) {
  held_.fetch_sub(bytes, kRelaxed);
  budget_.held_.fetch_sub(bytes, kRelaxed);
}

bool MemoryAccount::has_room(std::size_t bytes) const {
  return (!limited_ || fits(held(), bytes, budget_.account_limit_)) && fits(budget_.held(), bytes, budget_.limit_);
}

MemoryBudget::MemoryBudget(std::size_t limit, std::size_t account_limit)
    : limit_(limit), account_limit_(account_limit), unattributed_(*this, {}, false) {}

MemoryAccount& MemoryBudget::account(std::string_view name) {
  const std::scoped_lock lock{mutex_};
  const auto found = std::find_if(accounts_.begin(), accounts_.end(),
                                  [&](const MemoryAccount& account) { return account.name() == name; });
  return found != accounts_.end() ? *found : accounts_.emplace_back(*this, std::string{name}, true);
}

std::vector<std::pair<std::string, std::size_t>> MemoryBudget::accounts() const {
  const std::scoped_lock lock{mutex_};
  std::vector<std::pair<std::string, std::size_t>> listed;
  for (const MemoryAccount& account : accounts_) listed.emplace_back(account.name(), account.held());
  return listed;
}

bool MemoryHold::resize(std::size_t bytes) {
  if (account_ == nullptr || bytes == bytes_) return true;
  if (bytes < bytes_) {
    account_->give_back(bytes_ - bytes);
  } else if (!account_->take(bytes - bytes_)) {
    return false;
  }
  bytes_ = bytes;
  return true;
}

}  // namespace penstock::net
