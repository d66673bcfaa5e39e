#include "gateway/traffic_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include "api/json_text.h"

namespace penstock::gateway {
namespace {

constexpr std::size_t kEventsAtOnce = 100;  // The dispatcher is locked while they are copied.

}  // namespace

bool RecordedLines::add(const dispatch::TrafficEvent& event, std::string& lines) {
  using Kind = dispatch::TrafficEvent::Kind;
  if (event.kind == Kind::kArrival) open_[event.request] = event;
  if (event.kind != Kind::kEnd) return false;
  const auto arrival = open_.find(event.request);
  if (arrival == open_.end()) return false;
  const bool has_tokens = event.prompt_tokens > 0 && event.output_tokens > 0;
  if (has_tokens) append(arrival->second, event, lines);
  open_.erase(arrival);
  return has_tokens;
}

std::size_t RecordedLines::forget_open() {
  const std::size_t count = open_.size();
  open_.clear();
  return count;
}

void RecordedLines::append(const dispatch::TrafficEvent& arrival, const dispatch::TrafficEvent& end,
                           std::string& lines) const {
  const auto at = std::chrono::duration_cast<std::chrono::microseconds>(unix_at_start_ + arrival.at.time_since_epoch());
  const auto out = std::back_inserter(lines);
  fmt::format_to(out, R"({{"timestamp":{}.{:03},"input_length":{},"output_length":{},"block_tokens":{},"model":)",
                 at.count() / 1000, at.count() % 1000, end.prompt_tokens, end.output_tokens, block_tokens_);
  api::append_json_string(lines, arrival.model);
  lines += R"(,"tenant":)";
  api::append_json_string(lines, arrival.tenant);
  lines += R"(,"class":)";
  api::append_json_string(lines, arrival.traffic_class);
  lines += arrival.streamed ? R"(,"streamed":true)" : R"(,"streamed":false)";
  // Keys cover bytes, and the engine may count fewer tokens in them.
  const std::size_t blocks = std::min<std::size_t>(arrival.keys.size(), end.prompt_tokens / block_tokens_);
  lines += R"(,"hash_ids":[)";
  for (std::size_t i = 0; i < blocks; ++i) fmt::format_to(out, "{}{}", i == 0 ? "" : ",", arrival.keys[i]);
  lines += "]}\n";
}

core::Result<std::unique_ptr<TrafficRecorder>> TrafficRecorder::start(const RecorderOptions& options,
                                                                      core::Duration unix_at_start, Traffic traffic,
                                                                      logging::Log& log) {
  auto file = TraceFile::open(options.file, options.bytes_max);
  if (!file) return tl::make_unexpected(file.error());
  return std::unique_ptr<TrafficRecorder>{
      new TrafficRecorder{options, unix_at_start, *std::move(file), std::move(traffic), log}};
}

TrafficRecorder::TrafficRecorder(const RecorderOptions& options, core::Duration unix_at_start, TraceFile file,
                                 Traffic traffic, logging::Log& log)
    : options_(options),
      traffic_(std::move(traffic)),
      log_(log),
      file_(std::move(file)),
      lines_(options.block_tokens, unix_at_start) {
  thread_ = std::thread{[this] { run(); }};
}

TrafficRecorder::~TrafficRecorder() {
  {
    const std::lock_guard lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void TrafficRecorder::run() {
  for (bool last = false; !last;) {
    {
      std::unique_lock lock{mutex_};
      last = wake_.wait_for(lock, options_.interval, [this] { return stopping_; });
    }
    record();
  }
  if (!waiting_.empty())
    log_.write(logging::Event::kRecording,
               {{"message", fmt::format("{} bytes of the trace are lost", waiting_.size())}});
}

void TrafficRecorder::record() {
  try {
    read_traffic();
    if (!waiting_.empty()) write();
  } catch (const std::bad_alloc&) {
    missed_ += lines_.forget_open();
    waiting_ = {};
  }
}

void TrafficRecorder::read_traffic() {
  for (;;) {
    const auto page = traffic_(next_, kEventsAtOnce);
    next_ = page.next;
    if (page.lost > 0) missed_ += lines_.forget_open();
    for (const dispatch::TrafficEvent& event : page.events) {
      const std::size_t before = waiting_.size();
      if (!lines_.add(event, waiting_) || waiting_.size() <= options_.waiting_bytes_max) continue;
      waiting_.resize(before);
      ++missed_;
    }
    if (page.events.size() < kEventsAtOnce) return;
  }
}

void TrafficRecorder::write() {
  const auto written = file_.append(waiting_);
  if (!written) {
    if (!std::exchange(fails_, true))
      log_.write(logging::Event::kRecording,
                 {{"message", fmt::format("traffic is not recorded: {}", written.error().message())}});
    return;
  }
  waiting_.clear();
  if (std::exchange(fails_, false))
    log_.write(logging::Event::kRecording,
               {{"message", fmt::format("traffic is recorded again; {} requests are missing", missed_)}});
}

}  // namespace penstock::gateway
