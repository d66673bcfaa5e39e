// Every key and every flag of the table sets its own field of the struct that acts on it, and no other.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "configuration/configuration.h"
#include "core/source_root_testing.h"
#include "options/reference.h"

namespace penstock::configuration {
namespace {

using options::Option;
using options::Table;

// A value of the option's type that is not its default.
std::string other_value(const Option& option) {
  static const std::map<std::string_view, std::string> kByKey = {{"format", "csv"},
                                                                 {"columns", "time=When,input=In"},
                                                                 {"to", "2h"},
                                                                 {"gateway.retries", "7"},
                                                                 {"gateway.large_body_threads", "7"},
                                                                 {"engine.max_batched_tokens", "7777"},
                                                                 {"planner.utilisation", "0.6"},
                                                                 {"planner.predictor", "constant"}};
  static const std::map<std::string_view, std::string> kByType = {{"address", "127.0.0.1:4711"},
                                                                  {"text", "some.file"},
                                                                  {"list", "some.file,another.file"},
                                                                  {"count", "77"},
                                                                  {"counts", "77,78"},
                                                                  {"whole number", "-7"},
                                                                  {"number", "77"},
                                                                  {"duration", "77s"},
                                                                  {"share", "0.37"},
                                                                  {"bytes", "77B"},
                                                                  {"bytes per second", "77B/s"},
                                                                  {"range", "2..7"},
                                                                  {"timestamp", "2024-05-13T08:00:00Z"},
                                                                  {"offset", "+02:00"}};
  if (const auto known = kByKey.find(option.names.key); known != kByKey.end()) return known->second;
  if (option.value.type == "boolean") return option.fallback == "true" ? "false" : "true";
  if (option.value.type == "choice")
    return std::string{option.value.choices.back() == option.fallback ? option.value.choices.front()
                                                                      : option.value.choices.back()};
  const auto known = kByType.find(option.value.type);
  EXPECT_NE(known, kByType.end()) << option.names.key << " has the new type " << option.value.type;
  return known == kByType.end() ? "" : known->second;
}

// "a.b" as sections in each other.
std::string as_yaml(std::string_view key, const std::string& value) {
  const std::size_t dot = key.find('.');
  const std::string name{key.substr(0, dot)};
  if (dot == std::string_view::npos) return name + ": '" + value + "'";
  return name + ": {" + as_yaml(key.substr(dot + 1), value) + "}";
}

std::vector<std::string> contents_of(const Table& table) {
  std::vector<std::string> contents;
  for (const Option& option : table.options()) contents.push_back(option.value.format());
  return contents;
}

// Which fields differ from the defaults after reading.
std::set<std::string_view> keys_that_differ(const options::Source& source) {
  Configuration made;
  const Table table = configuration_table(made);
  const std::vector<std::string> before = contents_of(table);
  const options::Reading reading = options::read(table, source);
  for (const core::Error& error : reading.problems()) ADD_FAILURE() << error.message();
  const std::vector<std::string> after = contents_of(table);
  std::set<std::string_view> differ;
  for (std::size_t i = 0; i < before.size(); ++i)
    if (before[i] != after[i]) differ.insert(table.options()[i].names.key);
  return differ;
}

TEST(EveryKey, SetsItsOwnFieldAndNoOther) {
  Configuration made;
  const Table table = configuration_table(made);
  for (const Option& option : table.options()) {
    const std::set<std::string_view> own = {option.names.key};
    EXPECT_EQ(keys_that_differ({"p.yaml", as_yaml(option.names.key, other_value(option)), {}}), own)
        << option.names.key;
  }
}

TEST(EveryKey, HasAFlagThatSetsTheSame) {
  Configuration made;
  const Table table = configuration_table(made);
  for (const Option& option : table.options()) {
    if (option.names.flag.empty()) continue;
    const std::string value = option.implied.empty() ? other_value(option) : std::string{option.implied};
    const std::set<std::string_view> own = {option.names.key};
    EXPECT_EQ(keys_that_differ({{}, {}, {{std::string{option.names.flag}, value}}}), own) << option.names.flag;
  }
}

TEST(EveryKey, OfAnItemSetsItsOwnFieldAndNoOther) {
  Configuration made;
  const Table table = configuration_table(made);
  for (const options::List& list : table.lists())
    for (const Option& option : list.rows->options()) {
      const std::vector<std::string> before = contents_of(*list.rows);
      const std::string was = option.value.format(), value = other_value(option);
      std::vector<std::string> texts = {value};
      if (option.value.is_list) texts = {"some.file", "another.file"};
      ASSERT_TRUE(option.value.parse(texts)) << list.names.key << "[]." << option.names.key;
      const std::vector<std::string> after = contents_of(*list.rows);
      std::size_t changed = 0;
      for (std::size_t i = 0; i < before.size(); ++i) changed += before[i] != after[i] ? 1 : 0;
      EXPECT_EQ(changed, 1U) << list.names.key << "[]." << option.names.key;
      EXPECT_NE(option.value.format(), was) << list.names.key << "[]." << option.names.key;
    }
}

TEST(EveryKey, ReadsItsDefaultBack) {
  Configuration made;
  const Table table = configuration_table(made);
  for (const Option& option : table.options()) {
    const std::string content = option.value.format();
    if (content.empty() || option.value.is_list) continue;
    const std::vector<std::string> texts = {content};
    EXPECT_TRUE(option.value.parse(texts)) << option.names.key;
    EXPECT_EQ(option.value.format(), content) << option.names.key;
  }
}

TEST(EveryKey, IsDeclaredOnceAndExplained) {
  Configuration made;
  const Table table = configuration_table(made);
  std::set<std::string_view> keys, flags;
  for (const std::string_view key : table.keys()) EXPECT_TRUE(keys.insert(key).second) << key;
  for (const Option& option : table.options()) {
    EXPECT_FALSE(option.names.help.empty() || option.names.help.ends_with('.')) << option.names.key;
    EXPECT_FALSE(option.group.empty()) << option.names.key;
    EXPECT_TRUE(option.names.flag.empty() || flags.insert(option.names.flag).second) << option.names.flag;
  }
  for (const options::List& list : table.lists()) flags.insert(list.names.flag);
  for (const options::Renamed& renamed : table.renames()) {
    const auto& names = renamed.from.starts_with("--") ? flags : keys;
    EXPECT_FALSE(names.contains(renamed.from)) << renamed.from;
    // A hint for a name of other programs has several words.
    EXPECT_TRUE(names.contains(renamed.to) || renamed.to.find(' ') != std::string_view::npos) << renamed.to;
  }
}

std::string committed(const std::string& name) {
  std::ifstream file{core::testing::source_root() / "docs/reference" / name};
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

TEST(Reference, SchemaIsUpToDate) {
  Configuration made;
  EXPECT_EQ(committed("penstock.schema.json"), options::to_json_schema(configuration_table(made), "penstock.yaml"))
      << "write it with: penstock check --schema";
}

TEST(Reference, PagesAreUpToDate) {
  Configuration made;
  const Table table = configuration_table(made);
  EXPECT_NE(committed("replay-options.md").find(options::to_markdown(table, replay_groups(), true)), std::string::npos)
      << "write it with: penstock replay --options-markdown";
  EXPECT_NE(committed("replay-options.md").find(options::to_markdown(table, planner_groups(), true)), std::string::npos)
      << "write it with: penstock replay --options-markdown";
  EXPECT_NE(committed("gateway-options.md").find(options::to_markdown(table, gateway_groups(), true)),
            std::string::npos)
      << "write it with: penstock gateway --options-markdown";
}

}  // namespace
}  // namespace penstock::configuration
