// A watch of the API server, damaged in whatever way: refused in one line, or the same events in pieces of any size.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "connect/kubernetes/api_call.h"
#include "connect/kubernetes/endpoint_slices.h"
#include "connect/kubernetes/inference_pool.h"
#include "connect/kubernetes/pod_groups.h"
#include "connect/kubernetes/pods.h"
#include "connect/kubernetes/scale_target.h"
#include "connect/kubernetes/watch_stream.h"

namespace {

using namespace penstock::connect;

struct Read {
  std::string events;
  bool is_good = true;
  bool operator==(const Read&) const = default;
};

Read read(std::string_view bytes, std::size_t piece) {
  Read read;
  WatchStream stream;
  for (; !bytes.empty() && read.is_good; bytes.remove_prefix(std::min(piece, bytes.size())))
    read.is_good = stream.take(bytes.substr(0, piece), [&](WatchEventType type, const nlohmann::json& object) {
      if (!object.is_object()) std::abort();
      read.events += std::to_string(static_cast<int>(type));
      const ApiCall call{"watch", kPods};
      if (api_error_of(call, object).message().find('\n') != std::string::npos) std::abort();
      if (const auto scale = parse_scale(call, object); scale && scale->resource_version.empty()) std::abort();
      const ScaledObject scaled = parse_scaled_object(object);
      read.events += parse_pod(object).name + scaled.version;
      for (const auto& [name, component] : scaled.components) {
        ScaleTarget target;
        target.component = name;
        if (set_component_call(target, "n", scaled, component.replicas).body.empty()) std::abort();
      }
      for (const auto& [name, group] : groups_of({{"a", parse_pod(object)}}, PodSelection::kAll))
        if (group.members.size() != 1) std::abort();
      for (const SliceEndpoint& endpoint : parse_endpoint_slice(object).endpoints) read.events += endpoint.address;
      const InferencePool pool = parse_inference_pool(object);
      if (pool.ports.size() > UINT16_MAX) std::abort();
      read.events += pool.selector();
      read.events += parse_horizontal_autoscaler(object).title + parse_disruption_budget(object).name;
      return true;
    });
  if (read.is_good != stream.problem().empty()) std::abort();
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  const Read whole = read(bytes, size);
  if (read(bytes, 1) != whole || read(bytes, 7) != whole) std::abort();
  const ApiCall call{"get", kPods};
  if (api_error_of(call, 500, bytes, bytes).message().find('\n') != std::string::npos) std::abort();
  return 0;
}
