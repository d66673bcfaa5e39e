// A copy of the objects of one resource that follows the API server: one list, then a watch.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/backoff.h"
#include "connect/kubernetes/client.h"
#include "connect/kubernetes/watch_stream.h"
#include "core/time.h"
#include "net/loop.h"

namespace penstock::connect {

// Versions of one resource are numbers that grow; others cannot be compared, and are not older.
[[nodiscard]] bool is_older_version(const std::string& version, const std::string& than);

struct ReflectorOptions {
  ApiResource resource;
  std::string in_namespace;  // Empty: all.
  std::string label_selector, field_selector;
  std::uint32_t page = 500;                                    // Objects in one answer to a list.
  core::Duration bookmark_interval = std::chrono::minutes{1};  // Of the API server.
  core::Duration watch_time = std::chrono::minutes{5};         // After which the server ends a watch.
};

class ReflectorListener {
 public:
  // The object is new or has changed. The key is "namespace/name", or the name alone.
  virtual void on_object(const std::string& key, const nlohmann::json& object) = 0;
  virtual void on_deleted(const std::string& key) = 0;
  virtual void on_settled() = 0;                       // After each list, and after each event of a watch.
  virtual void on_failure(const ApiError& error) = 0;  // Once until it is another cause.

 protected:
  ~ReflectorListener() = default;
};

struct ReflectorCounters {
  std::uint64_t lists = 0, watches = 0, events = 0, bookmarks = 0, failures = 0;
  std::uint64_t out_of_order = 0;  // Events that were older than the one before.
};

// Lives on one loop. Objects leave only when the server says so: by a DELETED event, or because a complete list lacks
// them. After a failure it tries again for ever, with a delay.
class Reflector final : private ApiStreamListener {
 public:
  Reflector(net::Loop& loop, KubernetesClient& client, ReflectorOptions options, ReflectorListener& listener);
  ~Reflector();
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;

  // When the server last confirmed that the copy is complete; none before the first list.
  [[nodiscard]] std::optional<core::Instant> confirmed_at() const { return confirmed_at_; }
  // True before the first list, and when the server has confirmed nothing for two bookmark intervals.
  [[nodiscard]] bool is_stale(core::Instant now) const;
  [[nodiscard]] const ReflectorCounters& counters() const { return counters_; }

 private:
  void begin_list() { list({}); }
  void list(const std::string& continuation);
  void take_page(const ApiCall& call, ApiAnswer answer);
  void end_list(const std::string& version);
  void watch();
  // Returns false with the error if the watch cannot go on.
  [[nodiscard]] bool take_event(WatchEventType type, const nlohmann::json& object);
  [[nodiscard]] bool apply(WatchEventType type, const nlohmann::json& object);
  void confirm() { confirmed_at_ = loop_.now(); }
  void end_watch(const ApiError* error);
  void list_again(const ApiError& error);
  void report(const ApiError& error);
  void after(core::Duration delay, void (Reflector::*step)());
  [[nodiscard]] ApiCall call_of(const char* verb, const std::string& query) const;

  void on_open() override;
  void on_bytes(std::string_view bytes) override;
  void on_end() override { end_watch(nullptr); }
  void on_error(const ApiError& error) override { end_watch(&error); }

  net::Loop& loop_;
  KubernetesClient& client_;
  const ReflectorOptions options_;
  ReflectorListener& listener_;
  Backoff backoff_;
  net::Loop::Timer timer_ = 0;
  const ApiCall watch_call_;  // For messages.
  std::unique_ptr<ApiStream> stream_;
  std::optional<WatchStream> events_;
  std::map<std::string, std::string> known_;  // Versions by key.
  std::set<std::string> listed_;
  std::string version_;  // Of the last event, from which the next watch continues.
  std::optional<core::Instant> confirmed_at_, opened_at_;
  bool has_progress_ = true;  // Since the last list that was not delayed.
  bool is_silent_ = true;     // The watch has brought nothing.
  std::optional<ApiError> watch_error_;
  std::string reported_;
  ReflectorCounters counters_;
  std::shared_ptr<int> alive_ = std::make_shared<int>();
};

}  // namespace penstock::connect
