#include "connect/sqlite/ledger_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace penstock::connect {
namespace {

constexpr std::int64_t kCleaningMs = 60'000;   // of the entries' own time, between removals
constexpr std::uint64_t kRemovedMax = 10'000;  // at once, so that entries do not wait long meanwhile

}  // namespace

LedgerWriter::LedgerWriter(LedgerStore store, const LedgerWriterOptions& options, Say say)
    : options_(options), say_(std::move(say)), next_id_(store.next_id()), store_(std::move(store)) {
  thread_ = std::thread{[this] { run(); }};
}

LedgerWriter::~LedgerWriter() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void LedgerWriter::hand_over(Event event) {
  bool wakes = false;
  {
    const std::lock_guard lock{mutex_};
    if (queue_.size() + in_hand_ >= options_.entries_max) {
      ++dropped_;
      wakes = !dropping_told_;
    } else {
      queue_.push_back(std::move(event));
      ++accepted_;
      wakes = queue_.size() == 1 || queue_.size() == options_.batch;
    }
  }
  if (wakes) wake_.notify_one();
}

LedgerWriter::State LedgerWriter::state() const {
  const std::lock_guard lock{mutex_};
  return {queue_.size() + in_hand_, written_, dropped_, failures_, trouble_};
}

bool LedgerWriter::flush() {
  std::unique_lock lock{mutex_};
  const std::uint64_t until = accepted_, failures = failures_;
  flush_until_ = std::max(flush_until_, until);
  wake_.notify_all();
  progress_.wait(lock, [&] { return settled_ >= until || failures_ != failures; });
  return settled_ >= until;
}

// False: it is time to stop, and nothing waits.
bool LedgerWriter::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto hurried = [&] { return stopping_ || flush_until_ > settled_; };
  if (in_hand_ > 0) {
    const auto untold = [&] { return dropped_ > dropped_told_ && !dropping_told_; };
    if (trouble_) wake_.wait_for(lock, options_.retry, [&] { return hurried() || untold(); });
    return true;
  }
  wake_.wait(lock, [&] { return hurried() || !queue_.empty(); });
  wake_.wait_for(lock, options_.interval, [&] { return hurried() || queue_.size() >= options_.batch; });
  return !queue_.empty();
}

void LedgerWriter::take() {
  if (in_hand_ > 0) return;
  std::swap(backlog_, queue_);
  in_hand_ = backlog_.size();
}

// An entry that the database itself refuses is left out, so that it does not hold up the rest for ever.
LedgerWriter::Written LedgerWriter::write_batch() {
  for (; batch_.size() < options_.batch && !backlog_.empty(); backlog_.pop_front()) {
    Event& event = backlog_.front();
    newest_unix_ms_ = std::max(newest_unix_ms_, event.entry.opened_unix_ms);
    (event.closes ? batch_.closed : batch_.opened).push_back(std::move(event.entry));
  }
  Written written;
  if (const auto whole = store_.write(batch_.opened, batch_.closed); whole) {
    written.entries = batch_.size();
    batch_ = {};
  } else if (whole.error().code == core::ErrorCode::kEnvironment) {
    written.error = whole.error();
  } else if (write_each(batch_.opened, false, written)) {
    static_cast<void>(write_each(batch_.closed, true, written));
  }
  return written;
}

// False: the disk failed; what was not written stays.
bool LedgerWriter::write_each(std::vector<ledger::Entry>& entries, bool closes, Written& written) {
  std::size_t done = 0;
  bool works = true;
  for (; done < entries.size() && works; ++done) {
    const std::span<const ledger::Entry> one{&entries[done], 1}, none;
    const auto put = closes ? store_.write(none, one) : store_.write(one, none);
    if (!put) written.error = put.error();
    works = put || put.error().code != core::ErrorCode::kEnvironment;
    if (!works) break;
    ++(put ? written.entries : written.refused);
  }
  entries.erase(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(done));
  return works;
}

void LedgerWriter::note(const Written& written) {
  written_ += written.entries;
  dropped_ += written.refused;
  settled_ += written.entries + written.refused;
  in_hand_ -= written.entries + written.refused;
  trouble_ = written.error;
  if (!written.error) return;
  ++failures_;
  flush_until_ = 0;  // they are told, and the next attempt comes in its time
}

// There is no later to try it again in.
std::string LedgerWriter::give_up() {
  const std::uint64_t left = in_hand_ + queue_.size();
  dropped_ += left;
  settled_ += left;
  in_hand_ = 0;
  queue_.clear();
  dropped_told_ = dropped_;
  return fmt::format("{} entries of the ledger are not written: {}", left, trouble_->message());
}

// What is to be said now: that batches fail, that entries are dropped, and at the end of both what it came to.
std::vector<std::string> LedgerWriter::news() {
  std::vector<std::string> told;
  const std::size_t waiting = queue_.size() + in_hand_;
  if (trouble_ && !trouble_told_) {
    trouble_told_ = true;
    told.push_back(fmt::format("the ledger is not written: {}; {} entries wait", trouble_->message(), waiting));
  }
  if (dropped_ > dropped_told_ && !dropping_told_) {
    dropping_told_ = true;
    told.push_back(fmt::format("entries of the ledger are dropped: {} wait, and no more than {} may", waiting,
                               options_.entries_max));
  }
  const bool over = !trouble_ && waiting <= options_.entries_max / 2;
  if (over && (trouble_told_ || dropping_told_)) {
    told.push_back(fmt::format("the ledger is written again; {} entries were dropped", dropped_ - dropped_told_));
    trouble_told_ = dropping_told_ = false;
    dropped_told_ = dropped_;
  }
  return told;
}

void LedgerWriter::remove_old() {
  if (options_.keep <= core::Duration{} || newest_unix_ms_ < cleaned_unix_ms_ + kCleaningMs) return;
  const std::int64_t before = newest_unix_ms_ - options_.keep / std::chrono::milliseconds{1};
  const auto removed = store_.remove_before(before, kRemovedMax);
  // After a full round there is more: the next batch goes on. A disk that fails shows at the next batch, too.
  if (removed && *removed < kRemovedMax) cleaned_unix_ms_ = newest_unix_ms_;
}

void LedgerWriter::run() {
  std::unique_lock lock{mutex_};
  while (wait_for_work(lock) || !stopping_) {
    take();
    if (in_hand_ == 0) continue;
    const bool last = stopping_;
    lock.unlock();
    const Written written = write_batch();
    if (!written.error) remove_old();
    lock.lock();
    note(written);
    std::vector<std::string> told = news();
    if (last && trouble_ && in_hand_ > 0) told.push_back(give_up());
    progress_.notify_all();
    if (told.empty() || !say_) continue;
    lock.unlock();
    for (const std::string& sentence : told) say_(sentence);
    lock.lock();
  }
}

}  // namespace penstock::connect
