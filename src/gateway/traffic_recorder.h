// Records the traffic of a gateway as a trace that `penstock replay` reads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "core/result.h"
#include "core/time.h"
#include "dispatch/traffic_log.h"
#include "gateway/trace_file.h"
#include "logging/log.h"

namespace penstock::gateway {

// Joins arrivals and ends of requests to lines of the trace: one JSON object for each request with tokens, when it has
// ended, with hashes of the blocks of its prompt and no text. Pure.
class RecordedLines {
 public:
  // `unix_at_start` is the Unix time of core::kStart.
  RecordedLines(std::uint32_t block_tokens, core::Duration unix_at_start)
      : block_tokens_(block_tokens), unix_at_start_(unix_at_start) {}

  // Appends the line of a request that has ended to `lines`. Returns whether there is one.
  bool add(const dispatch::TrafficEvent& event, std::string& lines);
  // Ends were missed: requests that have arrived are forgotten. Returns their number.
  std::size_t forget_open();

 private:
  void append(const dispatch::TrafficEvent& arrival, const dispatch::TrafficEvent& end, std::string& lines) const;

  std::uint32_t block_tokens_;
  core::Duration unix_at_start_;
  std::unordered_map<std::uint64_t, dispatch::TrafficEvent> open_;  // Arrivals by request.
};

struct RecorderOptions {
  std::string file;
  std::uint64_t bytes_max = std::uint64_t{1} << 30;  // Of the file; an older one of that size is kept beside it.
  std::uint32_t block_tokens = 256;                  // Tokens of a prompt that one key covers.
  core::Duration interval = std::chrono::milliseconds{200};
  std::size_t waiting_bytes_max = std::size_t{16} << 20;  // Lines that wait while the file cannot be written.
};

// Reads the traffic log on a thread of its own, so that requests never wait for the disk. While the file cannot be
// written, lines wait, and further ones are dropped and counted. Both are logged once until they are over.
class TrafficRecorder {
 public:
  using Traffic = std::function<dispatch::TrafficLog::Page(std::uint64_t after, std::size_t events_max)>;

  // `traffic` is called on the thread until the recorder is destroyed. Errors are those of TraceFile::open().
  [[nodiscard]] static core::Result<std::unique_ptr<TrafficRecorder>> start(const RecorderOptions& options,
                                                                            core::Duration unix_at_start,
                                                                            Traffic traffic, logging::Log& log);
  ~TrafficRecorder();  // Records what has ended.
  TrafficRecorder(const TrafficRecorder&) = delete;
  TrafficRecorder& operator=(const TrafficRecorder&) = delete;

 private:
  TrafficRecorder(const RecorderOptions& options, core::Duration unix_at_start, TraceFile file, Traffic traffic,
                  logging::Log& log);
  void run();
  void record();
  void read_traffic();
  void write();

  const RecorderOptions options_;
  const Traffic traffic_;
  logging::Log& log_;

  // Only the thread uses these.
  TraceFile file_;
  RecordedLines lines_;
  std::string waiting_;
  std::uint64_t next_ = 0, missed_ = 0;
  bool fails_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;  // Declared last, because the thread uses all other members.
};

}  // namespace penstock::gateway
