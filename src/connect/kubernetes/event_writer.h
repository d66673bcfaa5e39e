// Events of events.k8s.io/v1, which kubectl describe shows below the object that they regard.
// Source: https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/backoff.h"
#include "connect/kubernetes/client.h"
#include "core/time.h"
#include "net/loop.h"

namespace penstock::connect {

inline const ApiResource kEvents{"events.k8s.io", "v1", "events"};

struct ObjectReference {
  std::string api_version, kind, in_namespace, name;
  std::string uid{};  // Empty: unknown. kubectl describe shows only events with it.
  auto operator<=>(const ObjectReference&) const = default;
};

struct ClusterEvent {
  ObjectReference regarding;
  bool is_warning = false;
  std::string reason, action;  // In CamelCase: "ScaledUp", "Scale".
  std::string note;            // A sentence; the API keeps 1 kB.
  auto operator<=>(const ClusterEvent&) const = default;
};

// Lives on one loop. An event is written once; the same event again within some minutes makes a series of it, whose
// count is updated now and then. Nothing waits for an event: beyond a rate, and after an error, events are dropped.
class EventWriter {
 public:
  struct Options {
    std::string instance;  // The identity of this process.
    double events_per_s = 0.5;
    std::uint32_t burst = 25;
    core::Duration series_window = std::chrono::minutes{6};    // After which an event is a new one.
    core::Duration series_interval = std::chrono::minutes{1};  // Between updates of the count of a series.
  };
  struct Counters {
    std::uint64_t written = 0, updated = 0, dropped = 0, failed = 0;
  };
  using Report = std::function<void(const std::string& cause)>;  // Once until it is another cause, or a success.

  EventWriter(net::Loop& loop, std::unique_ptr<KubernetesClient> client, Options options, Report failed);
  ~EventWriter();
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void write(const ClusterEvent& event);
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  struct Series {
    std::string name;
    std::uint32_t count = 1, written_count = 1;
    bool is_created = false, is_updating = false;
    core::Instant last, updated;
    std::string last_time;
  };

  void create(const ClusterEvent& event, Series& series);
  void update(const ClusterEvent& event, Series& series);
  void update_all();
  void report(const ApiAnswer& answer);

  net::Loop& loop_;
  std::unique_ptr<KubernetesClient> client_;
  const Options options_;
  const Report failed_;
  RequestRate rate_;
  std::map<ClusterEvent, Series> series_;
  Counters counters_;
  std::string reported_;
  std::uint64_t names_ = 0;
  net::Loop::Timer timer_ = 0;
};

}  // namespace penstock::connect
