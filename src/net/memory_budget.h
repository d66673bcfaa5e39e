// Limits the memory that requests and answers take, in total and for each tenant, over all threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock::net {

class MemoryBudget;

// What one tenant holds of a budget. Any thread may call it.
class MemoryAccount {
 public:
  MemoryAccount(MemoryBudget& budget, std::string name, bool limited)
      : budget_(budget), name_(std::move(name)), limited_(limited) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  // Returns false and takes nothing if the account or the budget would exceed its limit.
  [[nodiscard]] bool take(std::size_t bytes);
  void give_back(std::size_t bytes);
  // Whether take() would succeed now.
  [[nodiscard]] bool has_room(std::size_t bytes) const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t held() const { return held_.load(std::memory_order_relaxed); }
  [[nodiscard]] MemoryBudget& budget() { return budget_; }

 private:
  MemoryBudget& budget_;
  const std::string name_;
  const bool limited_;
  std::atomic<std::size_t> held_{0};
};

// Buffers up to this size are not counted, so that small requests cost nothing.
inline constexpr std::size_t kUncountedBytesMax = 4096;
[[nodiscard]] constexpr std::size_t counted_bytes(std::size_t capacity) {
  return capacity > kUncountedBytesMax ? capacity : 0;
}

// Any thread may call it. Accounts live as long as the budget.
class MemoryBudget {
 public:
  // `account_limit` applies to each named account.
  explicit MemoryBudget(std::size_t limit, std::size_t account_limit);
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // The account of that name, which is opened by the first call. O(accounts).
  [[nodiscard]] MemoryAccount& account(std::string_view name);
  // What belongs to no tenant; only the budget limits it.
  [[nodiscard]] MemoryAccount& unattributed() { return unattributed_; }

  [[nodiscard]] std::size_t limit() const { return limit_; }
  [[nodiscard]] std::size_t account_limit() const { return account_limit_; }
  [[nodiscard]] std::size_t held() const { return held_.load(std::memory_order_relaxed); }
  // Names and held bytes of the named accounts.
  [[nodiscard]] std::vector<std::pair<std::string, std::size_t>> accounts() const;

 private:
  friend class MemoryAccount;

  const std::size_t limit_, account_limit_;
  std::atomic<std::size_t> held_{0};
  MemoryAccount unattributed_;
  mutable std::mutex mutex_;  // Guards the list.
  std::deque<MemoryAccount> accounts_;
};

// Bytes that are held on an account and given back at the end of its life.
class MemoryHold {
 public:
  MemoryHold() = default;
  explicit MemoryHold(MemoryAccount& account) : account_(&account) {}
  MemoryHold(MemoryHold&& other) noexcept
      : account_(std::exchange(other.account_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryHold& operator=(MemoryHold&& other) noexcept {
    if (this == &other) return *this;
    release();
    account_ = std::exchange(other.account_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }
  ~MemoryHold() { release(); }

  // Returns false and changes nothing if the account refuses. Without an account nothing is counted.
  [[nodiscard]] bool resize(std::size_t bytes);
  void release() {
    if (account_ != nullptr && bytes_ > 0) account_->give_back(bytes_);
    bytes_ = 0;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] MemoryAccount* account() const { return account_; }

 private:
  MemoryAccount* account_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace penstock::net
