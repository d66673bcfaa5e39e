#include "controller/annotated_pools.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace penstock::controller {
namespace {

using connect::VariantAnnotations;

// The annotations of one pool, in the order of their precedence.
class PoolAnnotations {
 public:
  PoolAnnotations(std::size_t index, std::string pool, const std::vector<VariantAnnotations>& from,
                  const IsGiven& is_given, std::vector<AnnotationNote>& notes)
      : index_{index}, pool_{std::move(pool)}, from_{from}, is_given_{is_given}, notes_{notes} {}

  void note(const VariantAnnotations& from, std::string_view annotation, std::string value, std::string ignored) {
    notes_.push_back({pool_, from.object, std::string{annotation}, std::move(value), std::move(ignored)});
  }

  // Sets `value` from the first annotation that `get` returns. `fault` says why a value cannot be used; empty: it can.
  template <class Value, class Get, class Fault>
  void set(std::string_view key, std::string_view annotation, Value& value, Get get, Fault fault) {
    const VariantAnnotations* first = nullptr;
    for (const VariantAnnotations& from : from_) {
      const std::optional<Value> found = get(from);
      if (!found) continue;
      const std::string text = fmt::format("{}", *found);
      if (const std::string why = fault(*found); !why.empty()) {
        note(from, annotation, text, why);
      } else if (first != nullptr || is_given_(index_, key)) {
        if (*found != value)
          note(from, annotation, text,
               first != nullptr ? fmt::format("{} goes first", first->object)
                                : fmt::format("the configuration gives {} {}", key, value));
      } else {
        first = &from;
        value = *found;
        note(from, annotation, text, {});
      }
    }
  }

 private:
  const std::size_t index_;
  const std::string pool_;
  const std::vector<VariantAnnotations>& from_;
  const IsGiven& is_given_;
  std::vector<AnnotationNote>& notes_;
};

}  // namespace

std::vector<std::string> models_of(const std::optional<GatewayState>& gateway) {
  std::set<std::string> models;
  if (gateway)
    for (const auto& [id, replica] : gateway->replicas)
      if (!replica.model.empty()) models.insert(replica.model);
  return {models.begin(), models.end()};
}

void check_models(const std::vector<std::string>& served, std::vector<VariantAnnotations>& annotations) {
  for (VariantAnnotations& each : annotations) {
    if (each.model.empty() || std::find(served.begin(), served.end(), each.model) != served.end()) continue;
    if (!served.empty())
      each.faults.push_back(
          fmt::format("llm-d.ai/model-id: replicas serve {}, not {}", fmt::join(served, ", "), each.model));
    each.model.clear();
  }
}

std::vector<AnnotationNote> apply_annotations(const std::vector<std::vector<VariantAnnotations>>& annotations,
                                              const IsGiven& is_given, std::vector<signals::Pool>& pools,
                                              std::string& model) {
  std::vector<AnnotationNote> notes;
  std::string model_of_pools = model;
  bool has_model = false;
  for (std::size_t i = 0; i < pools.size() && i < annotations.size(); ++i) {
    signals::Pool& pool = pools[i];
    PoolAnnotations of_pool{i, pool.name, annotations[i], is_given, notes};
    const auto usable = [](const auto&) { return std::string{}; };
    of_pool.set(
        "max_replicas", "maxReplicas", pool.max_replicas,
        [](const VariantAnnotations& from) { return from.max_replicas; },
        [&](std::uint32_t most) {
          const std::uint32_t least = is_given(i, "min_replicas") ? pool.min_replicas : 1;
          return most >= least ? std::string{} : fmt::format("min_replicas is {}", least);
        });
    of_pool.set(
        "min_replicas", "minReplicas", pool.min_replicas,
        [](const VariantAnnotations& from) { return from.min_replicas; },
        [&](std::uint32_t least) {
          return least <= pool.max_replicas ? std::string{} : fmt::format("max_replicas is {}", pool.max_replicas);
        });
    const double configured = pool.price_per_gpu_hour * pool.gpus_per_replica;
    double cost = configured;
    of_pool.set(
        "price", "llm-d.ai/variant-cost", cost, [](const VariantAnnotations& from) { return from.cost; }, usable);
    if (cost != configured) pool.price_per_gpu_hour = cost / pool.gpus_per_replica;
    of_pool.set(
        "model", "llm-d.ai/model-id", model_of_pools,
        [](const VariantAnnotations& from) { return from.model.empty() ? std::nullopt : std::optional{from.model}; },
        [&](const std::string& found) {
          if (!has_model || found == model_of_pools) return std::string{};
          return fmt::format("another pool is of the model {}", model_of_pools);
        });
    has_model = has_model || model_of_pools != model;
    for (const VariantAnnotations& from : annotations[i])
      for (const std::string& fault : from.faults) {
        const std::size_t colon = fault.find(": ");
        of_pool.note(from, fault.substr(0, colon), {}, fault.substr(std::min(colon + 2, fault.size())));
      }
  }
  model = std::move(model_of_pools);
  return notes;
}

void AnnotationLog::write(const std::vector<AnnotationNote>& notes, logging::Log& log) {
  for (const AnnotationNote& note : notes) {
    if (std::find(written_.begin(), written_.end(), note) != written_.end()) continue;
    const std::string text =
        fmt::format("{}{}{} of {}", note.annotation, note.value.empty() ? "" : " ", note.value, note.object);
    if (note.ignored_because.empty())
      log.write(logging::Event::kActuation, {{"pool", note.pool}, {"message", text}});
    else
      log.write(logging::Event::kActuationWarning,
                {{"pool", note.pool}, {"message", fmt::format("{} is ignored: {}", text, note.ignored_because)}});
  }
  written_ = notes;
}

report::Variant variant_of(const std::vector<VariantAnnotations>& annotations, const std::string& pool,
                           const std::string& otherwise, const std::string& in_namespace) {
  report::Variant made{pool, {}, in_namespace, {}};
  const auto first = [&](std::string VariantAnnotations::*text, std::string& into) {
    for (const VariantAnnotations& from : annotations)
      if (into.empty()) into = from.*text;
  };
  first(&VariantAnnotations::variant, made.name);
  first(&VariantAnnotations::managed_name, made.name);
  if (made.name.empty()) made.name = otherwise;
  first(&VariantAnnotations::accelerator, made.accelerator);
  return made;
}

}  // namespace penstock::controller
