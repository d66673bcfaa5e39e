#include "config/gateway.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "config/gateway_keys.h"
#include "config/replay_options.h"

namespace penstock::config {
namespace {

constexpr std::size_t kItemsMax = 10'000;

class GatewayLoader {
 public:
  explicit GatewayLoader(const GatewaySources& sources) : sources_(sources) {}

  tl::expected<GatewaySettings, Problems> load() {
    if (!sources_.file.empty()) read_file();
    for (const FlagValue& flag : sources_.flags) read_flag(flag);
    if (!sources_.replicas.empty()) {
      settings_.replicas.clear();
      for (const std::string& url : sources_.replicas) {
        settings_.replicas.emplace_back();
        settings_.replicas.back().url = url;
      }
    }
    if (problems_.empty()) check();
    if (!problems_.empty()) return tl::make_unexpected(std::move(problems_));
    return std::move(settings_);
  }

 private:
  void report(std::string where, core::Error error) {
    error.where = std::move(where);
    problems_.push_back(std::move(error));
  }
  void report(std::string where, std::string what, std::string hint = {}) {
    report(std::move(where), core::Error{core::ErrorCode::kInvalidInput, {}, std::move(what), std::move(hint)});
  }
  [[nodiscard]] std::string place(const YamlNode& node, std::string_view path) const {
    return yaml_place(sources_.file, node, path);
  }

  void read_file() {
    const auto root = parse_yaml(sources_.file, sources_.yaml);
    if (!root) {
      problems_ = root.error();
      return;
    }
    std::vector<std::string_view> names = gateway_names();
    // The planner's keys may stand beside ours; its own reader looks at them.
    for (const Option& option : replay_options())
      if (!option.pool_only && std::find(names.begin(), names.end(), option.key) == names.end())
        names.push_back(option.key);
    names.push_back("pools");
    read_section(sources_.file, *root, "",
                 {names, [&](std::string_view name, const YamlNode& node) { take(name, node); }}, problems_);
  }

  void take(std::string_view name, const YamlNode& node) {
    if (name == "gateway.replicas") return read_items(node, name, replica_keys(), settings_.replicas);
    if (name == "tenants") return read_items(node, name, tenant_keys(), settings_.tenants);
    if (name == "models") return read_items(node, name, model_keys(), settings_.models);
    if (name == "slo.segments") return read_items(node, name, segment_keys(), settings_.slo_segments);
    for (const GatewayKey& key : gateway_keys()) {
      if (key.key != name) continue;
      const std::optional<std::string> text = text_of(node, key.type, place(node, name));
      if (!text) return;
      if (auto done = key.put(settings_, *text); !done) report(place(node, name), done.error());
      places_[std::string{name}] = place(node, name);
    }
  }

  // A scalar, or a list as text with commas. None: what it is instead has been reported.
  std::optional<std::string> text_of(const YamlNode& node, std::string_view type, const std::string& where) {
    if (node.kind == YamlNode::Kind::kScalar) return node.text;
    if (type != "list" || node.kind != YamlNode::Kind::kSequence) {
      report(where, fmt::format("must be a {}, is {}", type, node.description()));
      return std::nullopt;
    }
    std::string text;
    for (const YamlNode& item : node.items) {
      if (item.kind != YamlNode::Kind::kScalar || item.text.find(',') != std::string::npos) {
        report(where, "must be a list of texts without commas");
        return std::nullopt;
      }
      text += (text.empty() ? "" : ",") + item.text;
    }
    return text;
  }

  template <class Item>
  void read_items(const YamlNode& list, std::string_view path, const std::vector<ItemKey<Item>>& keys,
                  std::vector<Item>& items) {
    if (list.kind != YamlNode::Kind::kSequence || list.items.empty())
      return report(place(list, path), "must be a list of sections, is " + list.description(),
                    "begin each with a dash");
    if (list.items.size() > kItemsMax)
      return report(place(list, path), fmt::format("must have at most {} items", kItemsMax));
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const std::string item_path = fmt::format("{}[{}]", path, i);
      places_[item_path] = place(list.items[i], item_path);
      items.push_back(read_item(list.items[i], item_path, keys));
    }
  }

  template <class Item>
  Item read_item(const YamlNode& section, const std::string& path, const std::vector<ItemKey<Item>>& keys) {
    Item item;
    std::vector<std::string_view> names, seen;
    for (const ItemKey<Item>& key : keys) names.push_back(key.key);
    const auto take_key = [&](std::string_view name, const YamlNode& node) {
      seen.push_back(name);
      const auto key = std::find_if(keys.begin(), keys.end(), [&](const auto& each) { return each.key == name; });
      const std::string where = place(node, fmt::format("{}.{}", path, name));
      const std::optional<std::string> text = text_of(node, key->type, where);
      if (!text) return;
      if (auto done = key->put(item, *text); !done) {
        // What stands in these keys is nobody's business but the tenant's.
        if (name == "keys") done.error().what = "must be a list of API keys";
        report(where, done.error());
      }
    };
    read_section(sources_.file, section, path + ".", {names, take_key}, problems_);
    if (section.kind == YamlNode::Kind::kMap)
      for (const ItemKey<Item>& key : keys)
        if (key.required && std::find(seen.begin(), seen.end(), key.key) == seen.end())
          report(place(section, path), fmt::format("needs the key {}", key.key));
    return item;
  }

  void read_flag(const FlagValue& flag) {
    for (const GatewayKey& key : gateway_keys()) {
      if (key.flag != flag.flag) continue;
      if (auto done = key.put(settings_, flag.text); !done) report(flag.flag, done.error());
      places_[std::string{key.key}] = flag.flag;
    }
  }

  [[nodiscard]] std::string place_of(const std::string& path) const {
    const auto known = places_.find(path);
    return known == places_.end() ? path : known->second;
  }

  // Contradictions between values that are each fine alone.
  void check() {
    for (const auto& [key, time] : {std::pair{"gateway.dns_interval", settings_.dns_interval},
                                    {"gateway.health_interval", settings_.health_interval},
                                    {"gateway.scrape_interval", settings_.scrape_interval},
                                    {"gateway.first_byte_time", settings_.first_byte_time},
                                    {"gateway.silence", settings_.silence},
                                    {"slo.ttft", settings_.slo_ttft},
                                    {"slo.itl", settings_.slo_itl}})
      if (time <= core::Duration{}) report(place_of(key), "must be longer than 0");
    check_lists();
    if (settings_.tls_certificate.empty() != settings_.tls_key.empty())
      report(place_of(settings_.tls_key.empty() ? "gateway.tls.certificate" : "gateway.tls.key"),
             "needs a certificate and a key, there is one of them");
    if (settings_.kv_reject < settings_.kv_throttle)
      report(place_of("gateway.admission.kv_reject"),
             fmt::format("must be at least kv_throttle ({}), is {}", settings_.kv_throttle, settings_.kv_reject));
    // Who names tenants means to know who asks.
    if (!settings_.tenants.empty() && !places_.contains("gateway.anonymous")) settings_.anonymous = false;
    for (SegmentSettings& segment : settings_.slo_segments) {
      if (!segment.ttft) segment.ttft = settings_.slo_ttft;
      if (!segment.itl) segment.itl = settings_.slo_itl;
      if (!segment.goal) segment.goal = settings_.slo_goal;
    }
  }

  void check_lists() {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < settings_.tenants.size(); ++i) {
      const TenantSettings& tenant = settings_.tenants[i];
      const std::string where = place_of(fmt::format("tenants[{}]", i));
      if (tenant.name == "anonymous") report(where, "the name anonymous is that of requests without a key");
      if (!names.insert(tenant.name).second) report(where, "the name " + quoted(tenant.name) + " is there twice");
      if (tenant.keys.empty() && tenant.key_files.empty() && tenant.key_envs.empty())
        report(where, "needs keys, key_files or key_envs: nobody could be this tenant");
    }
    std::set<std::string_view> models;
    for (std::size_t i = 0; i < settings_.models.size(); ++i)
      if (!models.insert(settings_.models[i].name).second)
        report(place_of(fmt::format("models[{}]", i)),
               "the name " + quoted(settings_.models[i].name) + " is there twice");
    std::set<std::string_view> urls;
    for (std::size_t i = 0; i < settings_.replicas.size(); ++i)
      if (!urls.insert(settings_.replicas[i].url).second)
        report(place_of(fmt::format("gateway.replicas[{}]", i)),
               "the url " + quoted(settings_.replicas[i].url) + " is there twice");
  }

  const GatewaySources& sources_;
  GatewaySettings settings_;
  std::map<std::string, std::string, std::less<>> places_;
  Problems problems_;
};

}  // namespace

tl::expected<GatewaySettings, Problems> load_gateway(const GatewaySources& sources) {
  return GatewayLoader{sources}.load();
}

}  // namespace penstock::config
