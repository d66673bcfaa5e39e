#include "connect/kubernetes/event_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "connect/kubernetes/api_time.h"
#include "core/random.h"
#include "core/utf8.h"

namespace penstock::connect {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kEventController = "penstock-planner";
constexpr std::size_t kNoteBytes = 1000, kEventNameBytes = 200, kInstanceBytes = 128;

}  // namespace

EventWriter::EventWriter(net::Loop& loop, std::unique_ptr<KubernetesClient> client, Options options, Report failed)
    : loop_(loop),
      client_(std::move(client)),
      options_(std::move(options)),
      failed_(std::move(failed)),
      rate_(options_.events_per_s, options_.burst) {
  timer_ = loop_.every(options_.series_interval, [this] { update_all(); });
}

EventWriter::~EventWriter() { loop_.cancel(timer_); }

void EventWriter::write(const ClusterEvent& event) {
  const core::Instant now = loop_.now();
  auto found = series_.find(event);
  if (found != series_.end() && now - found->second.last > options_.series_window) {
    series_.erase(found);
    found = series_.end();
  }
  if (found != series_.end()) {
    Series& series = found->second;
    ++series.count;
    series.last = now;
    series.last_time = api_time_now();
    if (series.count == 2 || now - series.updated >= options_.series_interval) update(found->first, series);
    return;
  }
  if (!rate_.take(now, {})) {
    ++counters_.dropped;
    return;
  }
  Series series;
  series.last = series.updated = now;
  series.last_time = api_time_now();
  series.name = fmt::format("{}.{:016x}", core::utf8_prefix(event.regarding.name, kEventNameBytes),
                            core::mix64(std::hash<std::string>{}(options_.instance + series.last_time) ^ ++names_));
  const auto made = series_.emplace(event, std::move(series)).first;
  create(made->first, made->second);
}

void EventWriter::create(const ClusterEvent& event, Series& series) {
  ++counters_.written;
  const ObjectReference& object = event.regarding;
  Json regarding{{"apiVersion", object.api_version},
                 {"kind", object.kind},
                 {"namespace", object.in_namespace},
                 {"name", object.name}};
  if (!object.uid.empty()) regarding["uid"] = object.uid;
  const Json body{{"apiVersion", "events.k8s.io/v1"},
                  {"kind", "Event"},
                  {"metadata", {{"name", series.name}, {"namespace", object.in_namespace}}},
                  {"eventTime", series.last_time},
                  {"reportingController", kEventController},
                  {"reportingInstance", core::utf8_prefix(options_.instance, kInstanceBytes)},
                  {"action", event.action},
                  {"reason", event.reason},
                  {"type", event.is_warning ? "Warning" : "Normal"},
                  {"note", core::utf8_prefix(event.note, kNoteBytes)},
                  {"regarding", regarding}};
  client_->request(create_call(kEvents, object.in_namespace, body), [this, event](const ApiAnswer& answer) {
    report(answer);
    const auto found = series_.find(event);
    if (found == series_.end()) return;
    if (!answer) return (void)series_.erase(found);
    found->second.is_created = true;
    if (found->second.count > 1) update(found->first, found->second);
  });
}

void EventWriter::update(const ClusterEvent& event, Series& series) {
  if (!series.is_created || series.is_updating || series.count == series.written_count) return;
  if (!rate_.take(loop_.now(), {})) return;  // The timer updates it.
  ++counters_.updated;
  series.is_updating = true;
  series.updated = loop_.now();
  series.written_count = series.count;
  const Json patch{{"series", {{"count", series.count}, {"lastObservedTime", series.last_time}}}};
  client_->request(merge_patch_call(kEvents, event.regarding.in_namespace, series.name, patch),
                   [this, event](const ApiAnswer& answer) {
                     report(answer);
                     const auto found = series_.find(event);
                     if (found == series_.end()) return;
                     found->second.is_updating = false;
                     // An event that has expired in the API server is written anew.
                     if (!answer && answer.error().reason == ApiReason::kNotFound) series_.erase(found);
                   });
}

void EventWriter::update_all() {
  for (auto& [event, series] : series_) update(event, series);
  std::erase_if(series_, [this](const auto& each) {
    return loop_.now() - each.second.last > options_.series_window && !each.second.is_updating;
  });
}

void EventWriter::report(const ApiAnswer& answer) {
  if (answer) return reported_.clear();
  ++counters_.failed;
  std::string cause = answer.error().message();
  if (std::exchange(reported_, cause) != cause && failed_) failed_(cause);
}

}  // namespace penstock::connect
