#include "config/allocation.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "config/allocation_check.h"
#include "config/scalars.h"

namespace penstock::config {
namespace {

constexpr double kFigureMax = 1e6;  // requests/s, prices, weights
constexpr std::uint64_t kGpusMax = 1'000'000;
constexpr std::uint64_t kReplicasMax = 10'000;
constexpr std::uint64_t kPromptTokensMax = 10'000'000;
constexpr std::uint64_t kPriorityMax = 1'000'000;
constexpr double kRateScaleMax = 1000.0;
constexpr std::array<std::string_view, 2> kObjectives = {"most-traffic", "max-min"};
constexpr std::array<std::string_view, 3> kRoles = {"aggregated", "prefill", "decode"};

using Put = std::function<core::Result<void>(const std::string&)>;

// A key and where its value goes: a scalar by `put`, anything else by `take`.
struct Field {
  std::string_view name;
  Put put;
  std::function<void(const YamlNode&)> take;
};

Put put_count(std::uint64_t low, std::uint64_t high, std::function<void(std::uint64_t)> set) {
  return [low, high, set = std::move(set)](const std::string& text) { return parse_count(text, low, high).map(set); };
}

Put put_number(double low, double high, std::function<void(double)> set) {
  return [low, high, set = std::move(set)](const std::string& text) { return parse_number(text, low, high).map(set); };
}

Put put_above_zero(double high, std::function<void(double)> set) {
  return [high, set = std::move(set)](const std::string& text) -> core::Result<void> {
    auto value = parse_number(text, 0.0, high);
    if (!value) return tl::make_unexpected(value.error());
    if (*value <= 0.0) return core::invalid_input({}, "must be above 0, is " + quoted(text));
    set(*value);
    return {};
  };
}

Put put_duration(core::Duration& into) {
  return [&into](const std::string& text) -> core::Result<void> {
    auto value = parse_duration(text);
    if (!value) return tl::make_unexpected(value.error());
    into = *value;
    return {};
  };
}

Put put_longer_than_zero(core::Duration& into) {
  return [&into](const std::string& text) -> core::Result<void> {
    auto value = parse_duration(text);
    if (!value) return tl::make_unexpected(value.error());
    if (*value <= core::Duration{}) return core::invalid_input({}, "must be longer than 0, is " + quoted(text));
    into = *value;
    return {};
  };
}

Put put_text_of(std::string& into) {
  return [&into](const std::string& text) -> core::Result<void> {
    if (text.empty()) return core::invalid_input({}, "is empty");
    into = text;
    return {};
  };
}

template <std::size_t kCount>
Put put_one_of(const std::array<std::string_view, kCount>& names, std::string& into) {
  return [&names, &into](const std::string& text) -> core::Result<void> {
    if (std::find(names.begin(), names.end(), text) == names.end())
      return core::invalid_input({}, fmt::format("must be {}, is {}", choices(names), quoted(text)),
                                 suggestion(text, names));
    into = text;
    return {};
  };
}

Put put_whole_number(int& into) {
  return [&into](const std::string& text) -> core::Result<void> {
    const bool negative = text.starts_with('-');
    auto value = parse_count(negative ? std::string_view{text}.substr(1) : text, 0, kPriorityMax);
    if (!value)
      return core::invalid_input(
          {}, fmt::format("must be a whole number from -{0} to {0}, is {1}", kPriorityMax, quoted(text)));
    into = negative ? -static_cast<int>(*value) : static_cast<int>(*value);
    return {};
  };
}

class AllocationLoader {
 public:
  explicit AllocationLoader(const AllocationSources& sources) : sources_(sources) {}

  tl::expected<AllocationSettings, Problems> load() {
    auto root = parse_yaml(sources_.file, sources_.yaml);
    if (!root) return tl::make_unexpected(std::move(root.error()));
    read_root(*root);
    for (const std::string& rate : sources_.rates) read_rate(rate);
    // A value that could not be read would show up again as a contradiction with the default that stands in for it.
    if (problems_.empty()) check_allocation(settings_, problems_);
    if (!problems_.empty()) return tl::make_unexpected(std::move(problems_));
    return std::move(settings_);
  }

 private:
  void report(std::string where, std::string what, std::string hint = {}) {
    problems_.push_back({core::ErrorCode::kInvalidInput, std::move(where), std::move(what), std::move(hint)});
  }

  [[nodiscard]] std::string place(const YamlNode& node, std::string_view path) const {
    return yaml_place(sources_.file, node, path);
  }

  void read(const YamlNode& node, const std::string& prefix, const std::vector<Field>& fields,
            std::initializer_list<std::string_view> required = {}) {
    std::vector<std::string_view> names, seen;
    for (const Field& field : fields) names.push_back(field.name);
    const auto take = [&](std::string_view name, const YamlNode& value) {
      const std::string path = prefix + std::string{name};
      settings_.origins[path] = place(value, path);
      seen.push_back(name);
      const Field& field = *std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
      if (field.take && (!field.put || value.kind != YamlNode::Kind::kScalar)) return field.take(value);
      if (value.kind != YamlNode::Kind::kScalar)
        return report(place(value, path), "must be a single value, is " + value.description());
      if (auto done = field.put(value.text); !done)
        report(place(value, path), std::move(done.error().what), std::move(done.error().hint));
    };
    read_section(sources_.file, node, prefix, {names, take}, problems_);
    if (node.kind != YamlNode::Kind::kMap) return;
    for (const std::string_view name : required)
      if (std::find(seen.begin(), seen.end(), name) == seen.end())
        report(place(node, prefix + std::string{name}), "is missing");
  }

  // Calls `each` with every item of a list and the prefix of its keys.
  void read_list(const YamlNode& list, const std::string& path,
                 const std::function<void(const YamlNode&, const std::string&)>& each) {
    if (list.kind != YamlNode::Kind::kSequence || list.items.empty())
      return report(place(list, path),
                    "must be a list, is " + (list.kind == YamlNode::Kind::kSequence ? "empty" : list.description()),
                    "begin each item with a dash");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const std::string item = fmt::format("{}[{}]", path, i);
      settings_.origins[item] = place(list.items[i], item);
      each(list.items[i], item + ".");
    }
  }

  void read_root(const YamlNode& root) {
    const auto list = [this](const char* name, void (AllocationLoader::*each)(const YamlNode&, const std::string&)) {
      return [this, name, each](const YamlNode& node) {
        read_list(node, name, [&](const YamlNode& item, const std::string& prefix) { (this->*each)(item, prefix); });
      };
    };
    read(root, "",
         {{"hardware", {}, list("hardware", &AllocationLoader::read_hardware)},
          {"budget.gpus", put_count(0, kGpusMax, [this](std::uint64_t gpus) { settings_.budget_gpus = gpus; }), {}},
          {"budget.money_per_hour",
           put_number(0.0, 1e12, [this](double money) { settings_.budget_money_per_hour = money; }),
           {}},
          {"objective", put_one_of(kObjectives, settings_.objective), {}},
          {"deployments", {}, list("deployments", &AllocationLoader::read_deployment)},
          {"previous", {}, list("previous", &AllocationLoader::read_previous)},
          {"every", put_duration(settings_.every), {}}},
         {"hardware", "deployments"});
  }

  void read_hardware(const YamlNode& node, const std::string& prefix) {
    AllocationHardware hardware;
    read(node, prefix,
         {{"name", put_text_of(hardware.name), {}},
          {"price", put_number(0.0, kFigureMax, [&](double price) { hardware.price = price; }), {}},
          {"gpus", put_count(0, kGpusMax, [&](std::uint64_t gpus) { hardware.gpus = gpus; }), {}}},
         {"name", "price"});
    settings_.hardware.push_back(std::move(hardware));
  }

  void read_deployment(const YamlNode& node, const std::string& prefix) {
    AllocationDeployment made;
    const auto tokens = [](std::uint32_t& into) {
      return put_count(1, kPromptTokensMax, [&into](std::uint64_t value) { into = static_cast<std::uint32_t>(value); });
    };
    read(node, prefix,
         {{"name", put_text_of(made.name), {}},
          {"priority", put_whole_number(made.priority), {}},
          {"weight", put_above_zero(kFigureMax, [&](double weight) { made.weight = weight; }), {}},
          {"demand", put_number(0.0, kFigureMax, [&](double rps) { made.demand.rps = rps; }),
           [&](const YamlNode& demand) { read_demand(demand, prefix + "demand.", made.demand); }},
          {"slo.ttft", put_longer_than_zero(made.slo_ttft), {}},
          {"slo.itl", put_longer_than_zero(made.slo_itl), {}},
          {"shape.input", tokens(made.input_tokens), {}},
          {"shape.output", tokens(made.output_tokens), {}},
          {"pools",
           {},
           [&](const YamlNode& list) {
             read_list(list, prefix + "pools", [&](const YamlNode& pool, const std::string& pool_prefix) {
               read_pool(pool, pool_prefix, made.pools);
             });
           }}},
         {"name", "demand", "pools"});
    settings_.deployments.push_back(std::move(made));
  }

  void read_demand(const YamlNode& node, const std::string& prefix, AllocationDemand& demand) {
    read(node, prefix,
         {{"trace", put_text_of(demand.trace), {}},
          {"rate_scale", put_above_zero(kRateScaleMax, [&](double scale) { demand.rate_scale = scale; }), {}}},
         {"trace"});
  }

  void read_pool(const YamlNode& node, const std::string& prefix, std::vector<AllocationPool>& pools) {
    AllocationPool made;
    const auto replicas = [](std::uint32_t& into, std::uint64_t low) {
      return put_count(low, kReplicasMax, [&into](std::uint64_t value) { into = static_cast<std::uint32_t>(value); });
    };
    read(node, prefix,
         {{"name", put_text_of(made.name), {}},
          {"hardware", put_text_of(made.hardware), {}},
          {"role", put_one_of(kRoles, made.role), {}},
          {"gpus", replicas(made.gpus, 1), {}},
          {"engine", put_text_of(made.engine), {}},
          {"min_replicas", replicas(made.min_replicas, 0), {}},
          {"max_replicas", replicas(made.max_replicas, 0), {}},
          {"capacity", put_above_zero(kFigureMax, [&](double rps) { made.capacity = rps; }), {}},
          {"start_up", put_duration(made.start_up), {}}},
         {"hardware"});
    pools.push_back(std::move(made));
  }

  void read_previous(const YamlNode& node, const std::string& prefix) {
    AllocationPrevious made;
    read(node, prefix,
         {{"deployment", put_text_of(made.deployment), {}},
          {"pool", put_text_of(made.pool), {}},
          {"replicas",
           put_count(0, kReplicasMax, [&](std::uint64_t value) { made.replicas = static_cast<std::uint32_t>(value); }),
           {}}},
         {"deployment", "pool", "replicas"});
    settings_.previous.push_back(std::move(made));
  }

  void read_rate(const std::string& rate) {
    const std::size_t equals = rate.rfind('=');
    if (equals == std::string::npos || equals == 0)
      return report("--rate", "must be like NAME=RPS, is " + quoted(rate));
    auto rps = parse_number(rate.substr(equals + 1), 0.0, kFigureMax);
    if (!rps) return report("--rate", rps.error().what, rps.error().hint);
    const std::string name = rate.substr(0, equals);
    std::vector<std::string_view> names;
    for (AllocationDeployment& deployment : settings_.deployments) {
      names.push_back(deployment.name);
      if (deployment.name != name) continue;
      deployment.demand = {*rps, {}, 1.0};
      return;
    }
    if (names.empty()) return;  // told already
    const std::string close = suggestion(name, names);
    report("--rate", "no deployment is called " + quoted(name), close.empty() ? "there are " + choices(names) : close);
  }

  const AllocationSources& sources_;
  AllocationSettings settings_;
  Problems problems_;
};

}  // namespace

bool AllocationSettings::has_traces() const {
  return std::any_of(deployments.begin(), deployments.end(),
                     [](const AllocationDeployment& deployment) { return !deployment.demand.trace.empty(); });
}

std::string AllocationSettings::place(const std::string& path) const {
  const auto found = origins.find(path);
  return found == origins.end() ? path : found->second;
}

tl::expected<AllocationSettings, Problems> load_allocation(const AllocationSources& sources) {
  return AllocationLoader{sources}.load();
}

}  // namespace penstock::config
