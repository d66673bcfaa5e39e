#include "config/replay.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "config/gateway_keys.h"
#include "config/planner_options.h"
#include "config/replay_check.h"
#include "config/replay_options.h"

namespace penstock::config {
namespace {

struct Assignment {
  std::string key;
  std::string text;
};

// "a=1,b=x,y" as a=1 and b="x,y": a part without '=' goes on with the value before it.
core::Result<std::vector<Assignment>> split_assignments(std::string_view text) {
  auto parts = parse_list(text);
  if (!parts) return tl::make_unexpected(parts.error());
  std::vector<Assignment> assignments;
  for (const std::string& part : *parts) {
    const std::size_t equals = part.find('=');
    if (equals != std::string::npos)
      assignments.push_back({part.substr(0, equals), part.substr(equals + 1)});
    else if (assignments.empty())
      return core::invalid_input({}, "must be like key=value,key=value, is " + quoted(text));
    else
      assignments.back().text += "," + part;
  }
  return assignments;
}

const Option* option_of_flag(std::string_view flag) {
  for (const Option& option : replay_options())
    if (!flag.empty() && option.flag == flag) return &option;
  return nullptr;
}

const Option* option_of_key(std::string_view key, bool in_pool) {
  for (const Option& option : replay_options())
    if (option.key == key && (in_pool ? option.per_pool : !option.pool_only)) return &option;
  return nullptr;
}

std::vector<std::string_view> keys(bool in_pool) {
  std::vector<std::string_view> names;
  for (const Option& option : replay_options())
    if (in_pool ? option.per_pool : !option.pool_only) names.push_back(option.key);
  if (in_pool) return names;
  names.push_back("pools");
  for (const std::string_view name : gateway_names())
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::string pool_prefix(std::size_t index) { return fmt::format("pools[{}].", index); }

class ReplayLoader {
 public:
  explicit ReplayLoader(const ReplaySources& sources) : sources_(sources), base_(settings_.pools.front()) {}

  tl::expected<ReplaySettings, Problems> load() {
    if (!sources_.file.empty()) read_file();
    read_flags();
    if (!sources_.traces.empty()) settings_.traces = sources_.traces;
    // A value that could not be read would show up again as a contradiction with the default that stands in for it.
    if (problems_.empty()) check_replay(settings_, {sources_.policies, sources_.predictors}, origins_, problems_);
    if (!problems_.empty()) return tl::make_unexpected(std::move(problems_));
    return std::move(settings_);
  }

 private:
  void report(std::string where, core::Error error) {
    error.where = std::move(where);
    problems_.push_back(std::move(error));
  }

  void put(const Option& option, PoolSettings& pool, std::span<const std::string> values, const std::string& where,
           const std::string& path) {
    if (auto done = option.put({settings_, pool}, values); !done) report(where, done.error());
    origins_[path] = where;
  }

  void read_file() {
    auto root = parse_yaml(sources_.file, sources_.yaml);
    if (!root) {
      problems_ = std::move(root.error());
      return;
    }
    const YamlNode* pools = nullptr;
    const std::vector<std::string_view> names = keys(false);
    read_section(sources_.file, *root, "",
                 {names,
                  [&](std::string_view name, const YamlNode& node) {
                    if (name == "pools")
                      pools = &node;
                    else if (name == "slo.segments")
                      read_items(node, name, segment_keys(), kSegmentsMax, settings_.slo_segments);
                    else if (name == "planner.schedules")
                      read_items(node, name, schedule_keys(), kSchedulesMax, settings_.planner.schedules);
                    else if (const Option* option = option_of_key(name, false))  // the gateway's keys are its own
                      take_node(*option, base_, node, "");
                  }},
                 problems_);
    for (std::size_t i = 0; i < settings_.planner.schedules.size(); ++i)
      settings_.planner.schedules[i].place = origins_[fmt::format("planner.schedules[{}].cron", i)];
    settings_.pools = {base_};
    if (pools != nullptr) read_pools(*pools);
  }

  void read_pools(const YamlNode& list) {
    if (list.kind != YamlNode::Kind::kSequence || list.items.empty()) {
      report(yaml_place(sources_.file, list, "pools"), {core::ErrorCode::kInvalidInput,
                                                        {},
                                                        "must be a list of pools, is " + list.description(),
                                                        "begin each pool with a dash"});
      return;
    }
    const std::vector<std::string_view> names = keys(true);
    settings_.pools.clear();
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      PoolSettings pool = base_;
      pool.name.clear();
      read_section(
          sources_.file, list.items[i], pool_prefix(i),
          {names, [&](std::string_view name,
                      const YamlNode& node) { take_node(*option_of_key(name, true), pool, node, pool_prefix(i)); }},
          problems_);
      origins_[fmt::format("pools[{}]", i)] = yaml_place(sources_.file, list.items[i], fmt::format("pools[{}]", i));
      settings_.pools.push_back(std::move(pool));
    }
  }

  // A list of sections, each with the keys of the table.
  template <class Item>
  void read_items(const YamlNode& list, std::string_view list_path, const std::vector<ItemKey<Item>>& table,
                  std::size_t items_max, std::vector<Item>& items) {
    const std::string place = yaml_place(sources_.file, list, list_path);
    if (list.kind != YamlNode::Kind::kSequence || list.items.empty())
      return report(place, {core::ErrorCode::kInvalidInput,
                            {},
                            "must be a list of sections, is " + list.description(),
                            "begin each with a dash"});
    if (list.items.size() > items_max)
      return report(place, {core::ErrorCode::kInvalidInput,
                            {},
                            fmt::format("must have at most {} items, has {}", items_max, list.items.size()),
                            {}});
    origins_[std::string{list_path}] = place;
    for (std::size_t i = 0; i < list.items.size(); ++i)
      items.push_back(read_item(list.items[i], fmt::format("{}[{}]", list_path, i), table));
  }

  template <class Item>
  Item read_item(const YamlNode& section, const std::string& path, const std::vector<ItemKey<Item>>& table) {
    Item item;
    std::vector<std::string_view> names;
    for (const ItemKey<Item>& key : table) names.push_back(key.key);
    const auto take = [&](std::string_view name, const YamlNode& node) {
      const auto key = std::find_if(table.begin(), table.end(), [&](const auto& each) { return each.key == name; });
      const std::string key_path = fmt::format("{}.{}", path, name);
      const std::string place = yaml_place(sources_.file, node, key_path);
      origins_[key_path] = place;
      if (node.kind != YamlNode::Kind::kScalar)
        report(place, {core::ErrorCode::kInvalidInput,
                       {},
                       fmt::format("must be a {}, is {}", key->type, node.description()),
                       {}});
      else if (auto done = key->put(item, node.text); !done)
        report(place, done.error());
    };
    const std::string place = yaml_place(sources_.file, section, path);
    origins_[path] = place;
    read_section(sources_.file, section, path + ".", {names, take}, problems_);
    if (section.kind == YamlNode::Kind::kMap)
      for (const ItemKey<Item>& key : table)
        if (key.required && !origins_.contains(fmt::format("{}.{}", path, key.key)))
          report(place, {core::ErrorCode::kInvalidInput, {}, fmt::format("needs the key {}", key.key), {}});
    return item;
  }

  void take_node(const Option& option, PoolSettings& pool, const YamlNode& node, const std::string& prefix) {
    const std::string path = prefix + std::string{option.key};
    const std::string where = yaml_place(sources_.file, node, path);
    std::vector<std::string> values;
    if (node.kind == YamlNode::Kind::kScalar) {
      values.push_back(node.text);
    } else if (option.list && node.kind == YamlNode::Kind::kSequence) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        const YamlNode& item = node.items[i];
        const std::string item_path = fmt::format("{}[{}]", path, i);
        if (item.kind != YamlNode::Kind::kScalar)
          return report(yaml_place(sources_.file, item, item_path),
                        {core::ErrorCode::kInvalidInput, {}, "must be text, is " + item.description(), {}});
        origins_[item_path] = yaml_place(sources_.file, item, item_path);
        values.push_back(item.text);
      }
    } else {
      return report(where, {core::ErrorCode::kInvalidInput,
                            {},
                            fmt::format("must be a {}, is {}", option.type, node.description()),
                            {}});
    }
    put(option, pool, values, where, path);
  }

  void read_flags() {
    const bool new_pools = std::any_of(sources_.flags.begin(), sources_.flags.end(),
                                       [](const FlagValue& flag) { return flag.flag == "--pool"; });
    // With --pool, other flags say what the new pools have in common; without, they overrule the pools of the file.
    if (new_pools) settings_.pools.clear();
    for (const FlagValue& flag : sources_.flags)
      if (flag.flag != "--pool") read_flag(flag);
    if (!new_pools) return;
    std::erase_if(origins_, [](const auto& origin) { return origin.first.starts_with("pools["); });
    for (const FlagValue& flag : sources_.flags)
      if (flag.flag == "--pool") read_pool_flag(flag);
  }

  void read_flag(const FlagValue& flag) {
    for (const CompositeFlag& composite : composite_flags())
      if (composite.flag == flag.flag) return read_composite(flag, composite);
    const Option* option = option_of_flag(flag.flag);
    PENSTOCK_ASSERT(option != nullptr, "flags are made from the table");
    std::vector<std::string> values = {flag.text};
    if (option->list) {
      auto parts = parse_list(flag.text);
      if (!parts) return report(flag.flag, parts.error());
      values = *std::move(parts);
      for (std::size_t i = 0; i < values.size(); ++i) origins_[fmt::format("{}[{}]", option->key, i)] = flag.flag;
    }
    put(*option, base_, values, flag.flag, std::string{option->key});
    if (!option->per_pool) return;
    for (std::size_t i = 0; i < settings_.pools.size(); ++i) {
      static_cast<void>(option->put({settings_, settings_.pools[i]}, values));  // what is wrong with it is told above
      origins_[pool_prefix(i) + std::string{option->key}] = flag.flag;
    }
  }

  void read_composite(const FlagValue& flag, const CompositeFlag& composite) {
    const std::string prefix = std::string{composite.section} + ".";
    std::vector<std::string_view> names;
    for (const Option& option : replay_options())
      if (option.key.starts_with(prefix) && !option.items) names.push_back(option.key.substr(prefix.size()));
    assign(
        flag, base_, names,
        [&](std::string_view key) {
          const Option* option = option_of_key(prefix + std::string{key}, false);
          return option == nullptr || option->items ? nullptr : option;
        },
        "");
  }

  void read_pool_flag(const FlagValue& flag) {
    const std::size_t index = settings_.pools.size();
    PoolSettings pool = base_;
    pool.name.clear();
    assign(
        flag, pool, keys(true), [](std::string_view key) { return option_of_key(key, true); }, pool_prefix(index));
    origins_[fmt::format("pools[{}]", index)] = flag.flag;
    settings_.pools.push_back(std::move(pool));
  }

  template <class Find>
  void assign(const FlagValue& flag, PoolSettings& pool, const std::vector<std::string_view>& names, Find find,
              const std::string& prefix) {
    auto assignments = split_assignments(flag.text);
    if (!assignments) return report(flag.flag, assignments.error());
    for (const Assignment& assignment : *assignments) {
      const Option* option = find(assignment.key);
      if (option == nullptr) {
        report(flag.flag, {core::ErrorCode::kInvalidInput,
                           {},
                           "has no key " + quoted(assignment.key),
                           "its keys are " + choices(names)});
        continue;
      }
      const std::vector<std::string> values = {assignment.text};
      put(*option, pool, values, flag.flag + " " + assignment.key, prefix + std::string{option->key});
    }
  }

  const ReplaySources& sources_;
  ReplaySettings settings_;
  PoolSettings base_;  // what pools have in common
  Origins origins_;
  Problems problems_;
};

}  // namespace

tl::expected<ReplaySettings, Problems> load_replay(const ReplaySources& sources) {
  return ReplayLoader{sources}.load();
}

}  // namespace penstock::config
