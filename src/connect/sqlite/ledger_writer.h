// Writes a ledger behind the backs of those who serve requests: they hand entries over and never wait for a disk.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "connect/sqlite/ledger_store.h"
#include "core/result.h"
#include "core/time.h"
#include "ledger/entry.h"

namespace penstock::connect {

struct LedgerWriterOptions {
  std::size_t entries_max = 100'000;                         // that wait to be written; more are dropped, and counted
  std::size_t batch = 1'000;                                 // entries of a transaction, which comes after so many …
  core::Duration interval = std::chrono::milliseconds{100};  // … or after so long
  core::Duration retry = std::chrono::seconds{1};            // after a batch could not be written
  core::Duration keep{};  // entries that were opened longer before the newest one are removed; 0: all are kept
};

// Entries are written in the order in which they were handed over, each at most once: a batch that fails is tried again until
// it is written, and what comes meanwhile waits. An entry whose closing was dropped is found open at the next start, and
// closed as lost; one whose opening was dropped is written whole when it closes. All functions may be called by any thread.
class LedgerWriter {
 public:
  // What went wrong and what is well again, with figures; called on the thread that writes, once for each.
  using Say = std::function<void(const std::string&)>;

  LedgerWriter(LedgerStore store, const LedgerWriterOptions& options, Say say);
  ~LedgerWriter();  // writes what waits, tries once if the disk fails, and says what was not written
  LedgerWriter(const LedgerWriter&) = delete;
  LedgerWriter& operator=(const LedgerWriter&) = delete;

  [[nodiscard]] std::uint64_t next_id() {
    return next_id_.fetch_add(1, std::memory_order_relaxed);
  }  // never used before
  void opened(const ledger::Entry& entry) { hand_over(entry, false); }
  void closed(const ledger::Entry& entry) { hand_over(entry, true); }
  void refused(const ledger::Entry& entry) { hand_over(entry, true); }

  struct State {
    std::uint64_t waiting = 0;
    std::uint64_t written = 0, dropped = 0;  // openings and closings
    std::uint64_t failures = 0;              // of batches
    std::optional<core::Error> trouble;      // while batches fail
  };
  [[nodiscard]] State state() const;
  // Waits until all that was handed over before is written or dropped, or a batch failed; true: it is written or dropped.
  [[nodiscard]] bool flush();

 private:
  // A list whose places are used again with the memory of what was in them: entries come from threads that serve requests,
  // and memory that one thread takes and another frees is slow for both.
  class Entries {
   public:
    void add(const ledger::Entry& entry);
    void remove_front(std::size_t count);
    // Leaves out the openings of those that close here: a row that says all is written once.
    std::size_t remove_opened_of(std::span<const ledger::Entry> closed);
    void clear() { count_ = 0; }
    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] std::span<const ledger::Entry> view() const { return {places_.data(), count_}; }

   private:
    std::vector<ledger::Entry> places_;
    std::size_t count_ = 0;
  };
  struct Batch {
    Entries opened, closed;
    std::size_t left_out = 0;  // openings whose closing is here, too
    [[nodiscard]] std::size_t size() const { return opened.size() + closed.size() + left_out; }
  };
  using Batches = std::deque<std::unique_ptr<Batch>>;
  struct Written {
    std::uint64_t entries = 0, refused = 0;  // refused by the database, whatever the disk
    std::optional<core::Error> error;        // of the batch, or of the last entry that was refused
  };
  void hand_over(const ledger::Entry& entry, bool closes);
  void run();
  [[nodiscard]] bool wait_for_work(std::unique_lock<std::mutex>& lock);
  void take();
  [[nodiscard]] Written write_batch();
  [[nodiscard]] bool write_each(Entries& entries, bool closes, Written& written);
  void note(const Written& written);
  [[nodiscard]] std::string give_up();
  [[nodiscard]] std::vector<std::string> news();
  void remove_old();

  const LedgerWriterOptions options_;
  const Say say_;
  std::atomic<std::uint64_t> next_id_;

  // The writing thread's own. What failed stays in the first batch.
  LedgerStore store_;
  Batches backlog_;
  std::unique_ptr<Batch> done_;  // what was written, to be used again
  std::int64_t newest_unix_ms_ = 0, cleaned_unix_ms_ = 0;

  mutable std::mutex mutex_;  // of all below
  std::condition_variable wake_, progress_;
  Batches queue_, spare_;
  std::size_t queued_ = 0;                    // entries in the queue
  std::size_t in_hand_ = 0;                   // in the backlog
  std::uint64_t accepted_ = 0, settled_ = 0;  // that came into the queue; of those, that are written or given up
  std::uint64_t written_ = 0, dropped_ = 0, failures_ = 0;
  std::optional<core::Error> trouble_;
  std::uint64_t dropped_told_ = 0;
  bool trouble_told_ = false, dropping_told_ = false;
  std::uint64_t flush_until_ = 0;  // of what was accepted
  bool stopping_ = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace penstock::connect
