#include "connect/sqlite/ledger_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "net/loop.h"

namespace penstock::connect {
namespace {

constexpr std::int64_t kCleaningMs = 60'000;   // Time between removals, by the clock of the entries.
constexpr std::uint64_t kRemovedMax = 10'000;  // Rows per removal, so that new entries do not wait long.
constexpr std::size_t kSparesMax = 4;          // Maximum number of batches whose memory is kept.

}  // namespace

LedgerWriter::LedgerWriter(LedgerStore store, const LedgerWriterOptions& options, LogLine log)
    : options_(options), log_(std::move(log)), first_id_(store.first_id()), store_(std::move(store)) {
  thread_ = std::thread{[this] { run(); }};
}

LedgerWriter::~LedgerWriter() { stop(); }

LedgerWriter::State LedgerWriter::stop() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  return state();
}

void LedgerWriter::Entries::add(const ledger::Entry& entry) {
  if (count_ == entries_.size()) entries_.emplace_back();
  entries_[count_++] = entry;
}

void LedgerWriter::Entries::remove_front(std::size_t count) {
  std::rotate(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count), entries_.end());
  count_ -= count;
}

void LedgerWriter::Entries::remove(const std::vector<std::uint64_t>& ids) {
  std::size_t kept = 0;
  for (std::size_t at = 0; at < count_; ++at) {
    if (std::binary_search(ids.begin(), ids.end(), entries_[at].id)) continue;
    if (kept != at) std::swap(entries_[kept], entries_[at]);
    ++kept;
  }
  count_ = kept;
}

void LedgerWriter::Batch::leave_out_closed() {
  std::vector<std::uint64_t> ids(closed.size());
  const auto view = closed.view();
  std::transform(view.begin(), view.end(), ids.begin(), [](const ledger::Entry& entry) { return entry.id; });
  std::sort(ids.begin(), ids.end());
  const std::size_t before = opened.size() + grown.size();
  opened.remove(ids);
  std::erase_if(grown,
                [&](const LedgerGrowth& growth) { return std::binary_search(ids.begin(), ids.end(), growth.id); });
  left_out += before - opened.size() - grown.size();
}

LedgerWriter::Batch* LedgerWriter::place() {
  if (queued_ + in_hand_ >= options_.entries_max) {
    ++dropped_;
    failed_at_ = net::Loop::read_clock();
    return nullptr;
  }
  if (queue_.empty() || queue_.back()->size() >= options_.batch) {
    queue_.push_back(spare_.empty() ? std::make_unique<Batch>() : std::move(spare_.back()));
    if (!spare_.empty()) spare_.pop_back();
  }
  ++queued_;
  ++accepted_;
  return queue_.back().get();
}

LedgerWriter::State LedgerWriter::state() const {
  const std::lock_guard lock{mutex_};
  return {queued_ + in_hand_, written_, dropped_, failures_, lost_at_stop_, error_, !error_ && !failure_logged_};
}

bool LedgerWriter::flush() {
  std::unique_lock lock{mutex_};
  const std::uint64_t until = accepted_, failures = failures_;
  flush_until_ = std::max(flush_until_, until);
  wake_.notify_all();
  progress_.wait(lock, [&] { return settled_ >= until || failures_ != failures; });
  return settled_ >= until;
}

std::optional<core::Duration> LedgerWriter::until_next_look() const {
  std::optional<core::Duration> time;
  if (unflushed_since_) time = until_flush();
  if (error_ || (!failure_logged_ && !dropping_logged_)) return time;
  const core::Duration recovered = std::max(core::Duration{}, failed_at_ + options_.recovery - net::Loop::read_clock());
  return time ? std::min(*time, recovered) : recovered;
}

// Returns false if nothing waits: the writer stops, what it wrote is to be flushed, or a failure may have ended.
bool LedgerWriter::wait_for_work(std::unique_lock<std::mutex>& lock) {
  const auto flush_requested = [&] { return stopping_ || flush_until_ > settled_; };
  if (in_hand_ > 0) {
    const auto unlogged = [&] { return dropped_ > dropped_logged_ && !dropping_logged_; };
    if (error_) wake_.wait_for(lock, options_.retry, [&] { return flush_requested() || unlogged(); });
    return true;
  }
  const auto has_work = [&] { return flush_requested() || queued_ > 0; };
  const std::optional<core::Duration> longest = until_next_look();
  if (!longest)
    wake_.wait(lock, has_work);
  else if (!wake_.wait_for(lock, *longest, has_work))
    return false;
  wake_.wait_for(lock, options_.interval, [&] { return flush_requested() || queued_ >= options_.batch; });
  return queued_ > 0;
}

void LedgerWriter::take() {
  if (in_hand_ > 0) return;
  std::swap(backlog_, queue_);
  in_hand_ = std::exchange(queued_, 0);
}

// An entry that the database rejects is left out, so that it does not block the others.
LedgerWriter::Written LedgerWriter::write_batch() {
  Batch& batch = *backlog_.front();
  for (const Entries* part : {&batch.opened, &batch.closed})
    for (const ledger::Entry& entry : part->view()) newest_unix_ms_ = std::max(newest_unix_ms_, entry.opened_unix_ms);
  batch.leave_out_closed();
  Written written;
  bool is_done = true;
  if (const auto whole = store_.write(batch.opened.view(), batch.closed.view(), batch.grown); whole) {
    written.entries = batch.size();
  } else if (whole.error().code == core::ErrorCode::kEnvironment) {
    written.error = whole.error();
    is_done = false;
  } else {
    is_done = write_each(batch, written);
    if (is_done) written.entries += batch.left_out;
  }
  if (is_done) {
    done_ = std::move(backlog_.front());
    backlog_.pop_front();
  }
  return written;
}

bool LedgerWriter::write_each(Batch& batch, Written& written) {
  // Returns how many of them were settled.
  const auto settle = [&](std::size_t count, auto&& put) {
    std::size_t done = 0;
    for (; done < count; ++done) {
      const auto put_one = put(done);
      if (!put_one) written.error = put_one.error();
      if (!put_one && put_one.error().code == core::ErrorCode::kEnvironment) break;
      ++(put_one ? written.entries : written.refused);
    }
    return done;
  };
  const auto opened = batch.opened.view(), closed = batch.closed.view();
  const std::span<const LedgerGrowth> grown = batch.grown;
  batch.opened.remove_front(
      settle(opened.size(), [&](std::size_t i) { return store_.write(opened.subspan(i, 1), {}); }));
  if (batch.opened.size() > 0) return false;
  const std::size_t grew =
      settle(grown.size(), [&](std::size_t i) { return store_.write({}, {}, grown.subspan(i, 1)); });
  batch.grown.erase(batch.grown.begin(), batch.grown.begin() + static_cast<std::ptrdiff_t>(grew));
  if (!batch.grown.empty()) return false;
  batch.closed.remove_front(
      settle(closed.size(), [&](std::size_t i) { return store_.write({}, closed.subspan(i, 1)); }));
  return batch.closed.size() == 0;
}

void LedgerWriter::note(const Written& written) {
  written_ += written.entries;
  dropped_ += written.refused;
  settled_ += written.entries + written.refused;
  in_hand_ -= written.entries + written.refused;
  error_ = written.error;
  if (done_ && spare_.size() < kSparesMax) {
    done_->opened.clear();
    done_->closed.clear();
    done_->grown.clear();
    done_->left_out = 0;
    spare_.push_back(std::move(done_));
  }
  done_.reset();
  if (!written.error) return;
  ++failures_;
  failed_at_ = net::Loop::read_clock();
  flush_until_ = 0;  // Callers of flush() are notified; the next attempt follows after the retry interval.
}

// Drops the entries, because the writer stops and makes no further attempt.
std::string LedgerWriter::drop_rest() {
  const std::uint64_t left = in_hand_ + queued_;
  dropped_ += left;
  lost_at_stop_ += left;
  settled_ += left;
  in_hand_ = queued_ = 0;
  queue_.clear();
  dropped_logged_ = dropped_;
  return fmt::format("{} entries of the ledger are not written: {}", left, error_->message());
}

// Returns the messages to log now: failing batches, dropped entries, and the totals when both have ended.
std::vector<std::string> LedgerWriter::new_lines() {
  std::vector<std::string> lines;
  const std::size_t waiting = queued_ + in_hand_;
  if (error_ && !failure_logged_) {
    failure_logged_ = true;
    lines.push_back(fmt::format("the ledger is not written: {}; {} entries wait", error_->message(), waiting));
  }
  if (dropped_ > dropped_logged_ && !dropping_logged_) {
    dropping_logged_ = true;
    lines.push_back(fmt::format("entries of the ledger are dropped: {} wait, and no more than {} may", waiting,
                                options_.entries_max));
  }
  const bool recovered = stopping_ || net::Loop::read_clock() - failed_at_ >= options_.recovery;
  const bool over = !error_ && waiting <= options_.entries_max / 2 && recovered;
  if (over && (failure_logged_ || dropping_logged_)) {
    lines.push_back(fmt::format("the ledger is written again; {} entries were dropped", dropped_ - dropped_logged_));
    failure_logged_ = dropping_logged_ = false;
    dropped_logged_ = dropped_;
  }
  return lines;
}

// Settles what other processes left open when they ended, and removes old entries. A failing disk shows at the next
// batch, too.
void LedgerWriter::clean() {
  if (cleaned_unix_ms_ == 0) cleaned_unix_ms_ = newest_unix_ms_;  // The store has just been opened.
  if (newest_unix_ms_ < cleaned_unix_ms_ + kCleaningMs) return;
  static_cast<void>(store_.settle_lost(newest_unix_ms_));
  if (options_.keep <= core::Duration{}) {
    cleaned_unix_ms_ = newest_unix_ms_;
    return;
  }
  const std::int64_t before = newest_unix_ms_ - options_.keep / std::chrono::milliseconds{1};
  const auto removed = store_.remove_before(before, kRemovedMax);
  // After a full round more rows are left, so the next batch continues.
  if (removed && *removed < kRemovedMax) cleaned_unix_ms_ = newest_unix_ms_;
}

core::Duration LedgerWriter::until_flush() const {
  return std::max(core::Duration{}, *unflushed_since_ + options_.flush_interval - net::Loop::read_clock());
}

bool LedgerWriter::flush_to_disk(Written& written) {
  if (written.entries > 0 && !unflushed_since_) unflushed_since_ = net::Loop::read_clock();
  if (!unflushed_since_ || until_flush() > core::Duration{}) return false;
  unflushed_since_.reset();
  auto flushed = store_.flush_to_disk();
  if (flushed) return true;
  unflushed_since_ = net::Loop::read_clock();
  written.error = std::move(flushed.error());
  return false;
}

void LedgerWriter::run() {
  std::unique_lock lock{mutex_};
  while (wait_for_work(lock) || !stopping_) {
    take();
    const bool has_batch = in_hand_ > 0, last = stopping_;
    lock.unlock();
    Written written;
    if (has_batch) written = write_batch();
    if (has_batch && !written.error) clean();
    const bool flushed = flush_to_disk(written);
    lock.lock();
    if (has_batch || flushed || written.error) note(written);
    std::vector<std::string> lines = new_lines();
    if (last && error_ && in_hand_ > 0) lines.push_back(drop_rest());
    progress_.notify_all();
    if (lines.empty() || !log_) continue;
    lock.unlock();
    for (const std::string& sentence : lines) log_(sentence);
    lock.lock();
  }
  const std::vector<std::string> lines = new_lines();  // The end of a failure.
  lock.unlock();
  for (const std::string& sentence : lines)
    if (log_) log_(sentence);
}

}  // namespace penstock::connect
