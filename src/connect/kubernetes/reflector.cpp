#include "connect/kubernetes/reflector.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/json_values.h"
#include "net/http.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kObjectsMax = 200'000;
constexpr core::Duration kShortWatch = std::chrono::seconds{1};

std::optional<std::uint64_t> version_number(const std::string& version) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), number);
  if (error != std::errc{} || end != version.data() + version.size()) return std::nullopt;
  return number;
}

std::string version_of(const Json& object) { return json_text(json_part(object, "metadata"), "resourceVersion"); }

std::string key_of(const Json& object) {
  const Json& metadata = json_part(object, "metadata");
  const std::string name = json_text(metadata, "name"), in_namespace = json_text(metadata, "namespace");
  return name.empty() || in_namespace.empty() ? name : in_namespace + "/" + name;
}

}  // namespace

bool is_older_version(const std::string& version, const std::string& than) {
  const auto left = version_number(version), right = version_number(than);
  return left && right && *left < *right;
}

Reflector::Reflector(net::Loop& loop, KubernetesClient& client, ReflectorOptions options, ReflectorListener& listener)
    : loop_(loop),
      client_(client),
      options_(std::move(options)),
      listener_(listener),
      backoff_(client.options().backoff, client.random().fork(options_.resource.plural + options_.label_selector)),
      watch_call_(call_of("watch", {})) {
  after(core::Duration{0}, &Reflector::begin_list);
}

Reflector::~Reflector() { loop_.cancel(timer_); }

bool Reflector::is_stale(core::Instant now) const {
  return !confirmed_at_ || now - *confirmed_at_ > 2 * options_.bookmark_interval;
}

void Reflector::after(core::Duration delay, void (Reflector::*step)()) {
  loop_.cancel(timer_);
  timer_ = loop_.after(delay, [this, step] {
    timer_ = 0;
    (this->*step)();
  });
}

ApiCall Reflector::call_of(const char* verb, const std::string& query) const {
  ApiCall call{verb, options_.resource, options_.in_namespace};
  call.query = query;
  if (!options_.label_selector.empty()) call.query += "&labelSelector=" + net::encode_query(options_.label_selector);
  if (!options_.field_selector.empty()) call.query += "&fieldSelector=" + net::encode_query(options_.field_selector);
  call.is_retried = false;
  return call;
}

void Reflector::list(const std::string& continuation) {
  if (continuation.empty()) {
    listed_.clear();
    ++counters_.lists;
  }
  std::string query = fmt::format("limit={}", options_.page);
  if (!continuation.empty()) query += "&continue=" + net::encode_query(continuation);
  const ApiCall call = call_of("list", query);
  client_.request(call, [this, call, alive = std::weak_ptr<int>{alive_}](ApiAnswer answer) {
    if (!alive.expired()) take_page(call, std::move(answer));
  });
}

void Reflector::take_page(const ApiCall& call, ApiAnswer answer) {
  if (!answer) return list_again(answer.error());
  const Json &items = json_part(*answer, "items"), &metadata = json_part(*answer, "metadata");
  const std::string version = json_text(metadata, "resourceVersion"), next = json_text(metadata, "continue");
  // A list without items may leave them out, or have null.
  if ((!items.is_array() && !items.is_null()) || version.empty())
    return list_again(api_error(call, ApiReason::kMalformed, "the answer is not a list"));
  for (const Json& item : items) {
    const std::string key = key_of(item);
    if (key.empty()) return list_again(api_error(call, ApiReason::kMalformed, "an object has no name"));
    if (!listed_.insert(key).second) continue;
    if (listed_.size() > kObjectsMax)
      return list_again(api_error(call, ApiReason::kMalformed,
                                  fmt::format("there are more than {} objects", kObjectsMax),
                                  "select fewer by labels"));
    known_[key] = version_of(item);
    listener_.on_object(key, item);
  }
  if (!next.empty()) return list(next);
  end_list(version);
}

void Reflector::end_list(const std::string& version) {
  for (auto known = known_.begin(); known != known_.end();) {
    if (listed_.contains(known->first)) {
      ++known;
      continue;
    }
    const std::string key = known->first;
    known = known_.erase(known);
    listener_.on_deleted(key);
  }
  listed_.clear();
  version_ = version;
  reported_.clear();
  confirm();
  listener_.on_settled();
  watch();
}

void Reflector::watch() {
  ++counters_.watches;
  events_.emplace();
  opened_at_.reset();
  is_silent_ = true;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.watch_time).count();
  const ApiCall call =
      call_of("watch", fmt::format("watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
                                   net::encode_query(version_), seconds));
  // A bookmark is overdue then, and the copy is not stale yet.
  stream_ = client_.stream(call, options_.bookmark_interval * 3 / 2, *this);
}

void Reflector::on_open() { opened_at_ = loop_.now(); }

void Reflector::on_bytes(std::string_view bytes) {
  const std::uint64_t events = counters_.events;
  const bool goes_on =
      events_->take(bytes, [this](WatchEventType type, const Json& object) { return take_event(type, object); });
  if (counters_.events != events) listener_.on_settled();
  if (goes_on) return;
  const ApiError error = watch_error_ ? *std::exchange(watch_error_, std::nullopt)
                                      : api_error(watch_call_, ApiReason::kMalformed, events_->problem());
  if (error.reason != ApiReason::kMalformed) return end_watch(&error);
  stream_.reset();
  list_again(error);
}

bool Reflector::take_event(WatchEventType type, const Json& object) {
  if (type == WatchEventType::kError) {
    watch_error_ = api_error_of(watch_call_, object);
    return false;
  }
  const std::string version = version_of(object);
  if (version.empty()) {
    watch_error_ = api_error(watch_call_, ApiReason::kMalformed, "an event has no resourceVersion");
    return false;
  }
  if (type == WatchEventType::kBookmark) {
    ++counters_.bookmarks;
    // The server's history is behind ours, for example because it was restored from a backup.
    if (is_older_version(version, version_)) {
      watch_error_ = api_error(watch_call_, ApiReason::kMalformed, "a bookmark is older than the last event");
      return false;
    }
  } else if (!apply(type, object)) {
    return false;
  }
  if (!is_older_version(version, version_)) version_ = version;
  is_silent_ = false;
  has_progress_ = true;
  reported_.clear();
  backoff_.reset();
  confirm();
  return true;
}

bool Reflector::apply(WatchEventType type, const Json& object) {
  const std::string key = key_of(object), version = version_of(object);
  if (key.empty()) {
    watch_error_ = api_error(watch_call_, ApiReason::kMalformed, "an event has no name");
    return false;
  }
  ++counters_.events;
  const auto known = known_.find(key);
  // The event came before, or a newer state of the object did.
  if (known != known_.end() && (known->second == version || is_older_version(version, known->second))) {
    if (type != WatchEventType::kDeleted || known->second != version) return true;
  } else if (is_older_version(version, version_)) {
    // It is unknown what else is out of order, so only a list tells the state.
    ++counters_.out_of_order;
    watch_error_ = api_error(watch_call_, ApiReason::kMalformed, "an event is older than the one before");
    return false;
  }
  if (type != WatchEventType::kDeleted) {
    known_[key] = version;
    listener_.on_object(key, object);
  } else if (known != known_.end()) {
    known_.erase(known);
    listener_.on_deleted(key);
  }
  return true;
}

void Reflector::end_watch(const ApiError* error) {
  stream_.reset();
  if (error != nullptr && error->reason == ApiReason::kExpired) return list_again(*error);
  const core::Duration lived = opened_at_ ? loop_.now() - *opened_at_ : core::Duration{0};
  // A server with an older history than ours stays silent, so that only a list helps.
  if (error != nullptr && is_silent_ && lived >= options_.bookmark_interval) return list_again(*error);
  if (error != nullptr) report(*error);
  if (lived >= kShortWatch) backoff_.reset();
  const bool is_planned = error == nullptr && lived >= kShortWatch;
  after(is_planned ? core::Duration{0} : backoff_.next(error != nullptr ? error->retry_after : std::nullopt),
        &Reflector::watch);
}

void Reflector::list_again(const ApiError& error) {
  if (error.reason != ApiReason::kExpired) report(error);
  const bool at_once = std::exchange(has_progress_, false) && error.reason == ApiReason::kExpired;
  after(at_once ? core::Duration{0} : backoff_.next(error.retry_after), &Reflector::begin_list);
}

void Reflector::report(const ApiError& error) {
  ++counters_.failures;
  if (std::exchange(reported_, error.message()) != error.message()) listener_.on_failure(error);
}

}  // namespace penstock::connect
