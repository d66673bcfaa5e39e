// Writes a ledger on a thread of its own, so that the threads that serve requests never wait for a disk.
#pragma once

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
  std::size_t entries_max = 100'000;  // Entries that wait to be written; further ones are dropped and counted.
  std::size_t batch = 1'000;          // A transaction is written once this number of entries waits …
  core::Duration interval = std::chrono::milliseconds{100};  // … or after this time.
  core::Duration retry = std::chrono::seconds{1};            // Time to the next attempt after a failed batch.
  // Time without a failure after which an outage has ended. A disk that is nearly full takes some batches and not
  // others.
  core::Duration recovery = std::chrono::seconds{10};
  // Longest time from a write to its flush to the disk: what a power loss takes.
  core::Duration flush_interval = std::chrono::milliseconds{800};
  core::Duration keep{};  // Entries opened longer than this before the newest one are removed; 0 keeps all.
};

// Entries are written in the order in which they were handed over, each at most once. A failed batch is repeated until
// it is written, while later entries wait. An entry whose closing was dropped is found open at the next start and
// closed as lost; one whose opening was dropped is written when it closes. All functions may be called by any thread.
class LedgerWriter {
 public:
  // Receives a message when a failure begins or ends. Called on the writing thread.
  using LogLine = std::function<void(const std::string&)>;

  LedgerWriter(LedgerStore store, const LedgerWriterOptions& options, LogLine log);
  ~LedgerWriter();  // Stops.
  LedgerWriter(const LedgerWriter&) = delete;
  LedgerWriter& operator=(const LedgerWriter&) = delete;

  [[nodiscard]] std::uint64_t first_id() const { return first_id_; }  // See LedgerStore.
  void opened(const ledger::Entry& entry) {
    hand_over([&](Batch& batch) { batch.opened.add(entry); });
  }
  // The tokens of an entry that was opened before have grown.
  void grown(const ledger::Entry& entry) {
    hand_over([&](Batch& batch) {
      batch.grown.push_back({entry.id, entry.prompt_tokens, entry.output_tokens, entry.cost});
    });
  }
  void closed(const ledger::Entry& entry) {
    hand_over([&](Batch& batch) { batch.closed.add(entry); });
  }
  void refused(const ledger::Entry& entry) { closed(entry); }

  struct State {
    std::uint64_t waiting = 0;
    std::uint64_t written = 0, dropped = 0;  // Openings, growths and closings.
    std::uint64_t failures = 0;              // Failed batches.
    std::uint64_t lost_at_stop = 0;          // Those of `dropped` that were given up when the writer stopped.
    std::optional<core::Error> error;        // Set while batches fail.
    bool writable = true;                    // False from the first failed batch until the failure has ended.
  };
  [[nodiscard]] State state() const;
  // Writes the remaining entries, makes one attempt if the disk fails, and logs what was not written. Nothing may be
  // handed over afterwards.
  State stop();
  // Waits until everything handed over before is written or dropped, or until a batch fails. Returns false if a batch
  // failed.
  [[nodiscard]] bool flush();

 private:
  // A list that reuses the memory of removed entries. Entries come from threads that serve requests, and memory that
  // one thread allocates and another frees is slow for both.
  class Entries {
   public:
    void add(const ledger::Entry& entry);
    void remove_front(std::size_t count);
    // Removes the entries with these ids, which are sorted.
    void remove(const std::vector<std::uint64_t>& ids);
    void clear() { count_ = 0; }
    [[nodiscard]] std::size_t size() const { return count_; }
    [[nodiscard]] std::span<const ledger::Entry> view() const { return {entries_.data(), count_}; }

   private:
    std::vector<ledger::Entry> entries_;
    std::size_t count_ = 0;
  };
  struct Batch {
    Entries opened, closed;
    std::vector<LedgerGrowth> grown;
    std::size_t left_out = 0;  // Openings and growths that were removed because the closing is in the same batch.
    [[nodiscard]] std::size_t size() const { return opened.size() + closed.size() + grown.size() + left_out; }
    // The closing row contains everything.
    void leave_out_closed();
  };
  using Batches = std::deque<std::unique_ptr<Batch>>;
  struct Written {
    std::uint64_t entries = 0, refused = 0;  // Entries that the database rejected are counted in `refused`.
    std::optional<core::Error> error;        // Error of the batch, or of the last rejected entry.
  };
  template <class Add>
  void hand_over(Add&& add);
  // The batch for one more entry, which is counted; null if too many wait.
  [[nodiscard]] Batch* place();
  void run();
  [[nodiscard]] bool wait_for_work(std::unique_lock<std::mutex>& lock);
  void take();
  [[nodiscard]] Written write_batch();
  // Returns false if the disk failed; what was not written stays.
  [[nodiscard]] bool write_each(Batch& batch, Written& written);
  // Flushes what was written to the disk if the time for it has come. Returns true if that was done; an error is in
  // `written`.
  [[nodiscard]] bool flush_to_disk(Written& written);
  [[nodiscard]] core::Duration until_flush() const;
  // Time until a failure may have ended, or the next flush to the disk; empty if there is neither.
  [[nodiscard]] std::optional<core::Duration> until_next_look() const;
  void note(const Written& written);
  [[nodiscard]] std::string drop_rest();
  [[nodiscard]] std::vector<std::string> new_lines();
  void clean();

  const LedgerWriterOptions options_;
  const LogLine log_;
  const std::uint64_t first_id_;

  // Only the writing thread uses these. A failed batch stays first in the backlog.
  LedgerStore store_;
  Batches backlog_;
  std::unique_ptr<Batch> done_;  // A written batch whose memory is reused.
  std::int64_t newest_unix_ms_ = 0, cleaned_unix_ms_ = 0;
  std::optional<core::Instant> unflushed_since_;  // Time of the oldest write that is not on the disk.

  mutable std::mutex mutex_;  // Guards everything below.
  std::condition_variable wake_, progress_;
  Batches queue_, spare_;
  std::size_t queued_ = 0;   // Entries in the queue.
  std::size_t in_hand_ = 0;  // Entries in the backlog.
  // Entries that entered the queue, and those of them that were written or given up.
  std::uint64_t accepted_ = 0, settled_ = 0;
  std::uint64_t written_ = 0, dropped_ = 0, failures_ = 0, lost_at_stop_ = 0;
  core::Instant failed_at_{};  // Time of the last failed batch or dropped entry.
  std::optional<core::Error> error_;
  std::uint64_t dropped_logged_ = 0;
  bool failure_logged_ = false, dropping_logged_ = false;
  std::uint64_t flush_until_ = 0;  // flush() waits until this number of accepted entries is settled.
  bool stopping_ = false;

  std::thread thread_;  // Declared last, because the thread uses all other members.
};

template <class Add>
void LedgerWriter::hand_over(Add&& add) {
  bool wakes = false;
  {
    const std::lock_guard lock{mutex_};
    Batch* const batch = place();
    if (batch != nullptr) add(*batch);
    wakes = batch != nullptr ? queued_ == 1 || queued_ == options_.batch : !dropping_logged_;
  }
  if (wakes) wake_.notify_one();
}

}  // namespace penstock::connect
