#include "cli/endpoint_picker_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "options/scalars.h"

namespace penstock::cli {
namespace {

using options::YamlNode;

// What these count is in the gateway's own choice: load, KV usage, cached prefixes, sessions, roles. Their weights have
// no counterpart, because the gateway compares times.
constexpr std::array<std::string_view, 20> kReplacedPlugins{"queue-scorer",
                                                            "kv-cache-utilization-scorer",
                                                            "running-requests-size-scorer",
                                                            "load-aware-scorer",
                                                            "active-request-scorer",
                                                            "token-load-scorer",
                                                            "prefix-cache-scorer",
                                                            "precise-prefix-cache-scorer",
                                                            "no-hit-lru-scorer",
                                                            "session-affinity-scorer",
                                                            "utilization-detector",
                                                            "concurrency-detector",
                                                            "max-score-picker",
                                                            "weighted-random-picker",
                                                            "random-picker",
                                                            "single-profile-handler",
                                                            "decode-filter",
                                                            "prefill-filter",
                                                            "approx-prefix-cache-producer",
                                                            "openai-parser"};

const YamlNode* field_of(const YamlNode& node, std::string_view key) {
  for (std::size_t i = 0; i < node.keys.size(); ++i)
    if (node.keys[i].text == key) return &node.items[i];
  return nullptr;
}
std::string text_of(const YamlNode& node, std::string_view key) {
  const YamlNode* const field = field_of(node, key);
  return field != nullptr && field->kind == YamlNode::Kind::kScalar ? field->text : "";
}

// Quantities of Kubernetes that are whole numbers: "5000", "5k", "1M".
core::Result<std::uint64_t> parse_quantity(std::string_view text, std::uint64_t high) {
  std::uint64_t unit = 1;
  if (text.ends_with('k')) unit = 1000;
  if (text.ends_with('M')) unit = 1'000'000;
  if (unit > 1) text.remove_suffix(1);
  return options::parse_count(text, 1, high / unit).map([&](std::uint64_t number) { return number * unit; });
}

class ConfigReader {
 public:
  explicit ConfigReader(std::string_view file) : file_(file) {}

  tl::expected<EndpointPickerConfig, options::Problems> read(const YamlNode& root) {
    if (const std::string kind = text_of(root, "kind"); kind != "EndpointPickerConfig")
      return tl::make_unexpected(
          options::Problems{core::Error{core::ErrorCode::kInvalidInput, std::string{file_},
                                        "the kind must be EndpointPickerConfig, is " + options::quote(kind),
                                        "give the configuration of Penstock as --config"}});
    for (std::size_t i = 0; i < root.keys.size(); ++i) {
      const std::string& key = root.keys[i].text;
      const YamlNode& part = root.items[i];
      if (key == "plugins") {
        for (const YamlNode& plugin : part.items) read_plugin(plugin);
      } else if (key == "flowControl") {
        read_flow_control(part);
      } else if (std::find(kQuiet.begin(), kQuiet.end(), key) == kQuiet.end()) {
        ignore(root.keys[i].text);
      }
    }
    if (!problems_.empty()) return tl::make_unexpected(std::move(problems_));
    return std::move(made_);
  }

 private:
  // Profiles only weigh and order plugins, which are named themselves.
  static constexpr std::array<std::string_view, 6> kQuiet{"apiVersion",   "kind",     "schedulingProfiles",
                                                          "featureGates", "metadata", "saturationDetector"};

  void ignore(const std::string& what) {
    made_.warnings.push_back(fmt::format("{}: {} has no counterpart and is ignored", file_, what));
  }
  void read_plugin(const YamlNode& plugin) {
    const std::string type = text_of(plugin, "type"), name = text_of(plugin, "name");
    if (std::find(kReplacedPlugins.begin(), kReplacedPlugins.end(), type) != kReplacedPlugins.end()) return;
    ignore(name.empty() || name == type ? "the plugin " + type : fmt::format("the plugin {} ({})", name, type));
  }
  void read_flow_control(const YamlNode& section) {
    for (std::size_t i = 0; i < section.keys.size(); ++i) {
      const std::string path = "flowControl." + section.keys[i].text;
      const YamlNode& value = section.items[i];
      if (section.keys[i].text == "defaultRequestTTL")
        set(made_.queue_time, options::parse_duration(value.text), value, path);
      else if (section.keys[i].text == "maxRequests")
        set(made_.queue_requests, parse_quantity(value.text, 1'000'000), value, path);
      else
        ignore(path);
    }
  }
  template <class Field, class Parsed>
  void set(std::optional<Field>& field, Parsed parsed, const YamlNode& node, const std::string& path) {
    if (parsed) {
      field = static_cast<Field>(*parsed);
      return;
    }
    core::Error error = parsed.error();
    error.where = options::yaml_place(file_, node, path);
    problems_.push_back(std::move(error));
  }

  const std::string_view file_;
  EndpointPickerConfig made_;
  options::Problems problems_;
};

}  // namespace

tl::expected<EndpointPickerConfig, options::Problems> parse_endpoint_picker_config(std::string_view file,
                                                                                   std::string_view text) {
  const auto root = options::parse_yaml(file, text);
  if (!root) return tl::make_unexpected(root.error());
  return ConfigReader{file}.read(*root);
}

}  // namespace penstock::cli
