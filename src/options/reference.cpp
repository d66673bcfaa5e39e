#include "options/reference.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace penstock::options {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(std::string_view text) { return text.empty() ? "" : fmt::format("`{}`", text); }

// A page has a column for the mark if any of its options has it.
std::string reload_cell(bool has_column, bool is_reloadable) {
  return !has_column ? "" : is_reloadable ? " yes |" : "  |";
}

std::string row(std::string_view prefix, const Option& option, std::string_view mark, bool has_reload,
                bool in_reloadable_list = false) {
  return fmt::format("| {} | {} | {} | {} |{} {}{} |\n",
                     cell(option.names.key.empty() ? "" : fmt::format("{}{}", prefix, option.names.key)),
                     cell(option.names.flag), option.value.type,
                     option.is_required ? "required" : cell(option.fallback),
                     reload_cell(has_reload, option.is_reloadable || in_reloadable_list), option.names.help, mark);
}

// Whether the table has the same option for all items.
bool is_repeated(const Table& table, const List& list, const Option& option) {
  const Option* shared = table.with_key(option.names.key);
  return shared != nullptr && (!list.names.flag.empty() || shared->names.help == option.names.help);
}

bool is_repeated(const Table& table, const List& below) {
  return std::any_of(table.lists().begin(), table.lists().end(), [&](const List& list) {
    return list.names.key == below.names.key && list.names.help == below.names.help;
  });
}

// Appends the keys of the items of a list, except keys that the table has for all items.
void append_items(std::string& page, const Table& table, const List& list, const std::string& prefix, bool has_reload) {
  const std::string inner = fmt::format("{}{}[].", prefix, list.names.key);
  for (const Option& option : list.rows->options())
    if (!is_repeated(table, list, option)) page += row(inner, option, "", has_reload, list.is_reloadable);
  for (const List& below : list.rows->lists())
    if (!is_repeated(table, below)) append_items(page, table, below, inner, has_reload);
}

bool is_shared(const Table& table, const Option& option) {
  return !option.names.key.empty() && std::any_of(table.lists().begin(), table.lists().end(), [&](const List& list) {
    return list.rows->with_key(option.names.key) != nullptr && !list.names.flag.empty();
  });
}

Json schema_of(const Option& option) {
  const std::string_view type = option.value.type;
  Json made;
  if (type == "count" || type == "whole number") {
    made["type"] = "integer";
  } else if (type == "number") {
    made["type"] = "number";
  } else if (type == "boolean") {
    made["type"] = "boolean";
  } else if (type == "choice") {
    made["enum"] = option.value.choices;
  } else if (type == "share") {
    made["anyOf"] = Json::array(
        {{{"type", "number"}, {"minimum", 0}, {"maximum", 1}}, {{"type", "string"}, {"pattern", "^[0-9.]+%?$"}}});
  } else if (type == "duration") {
    made["anyOf"] =
        Json::array({{{"const", 0}}, {{"type", "string"}, {"pattern", "^(0|([0-9.]+(ns|us|ms|s|m|h|d))+)$"}}});
  } else if (type == "counts") {
    const Json item{{"type", "integer"}};
    made["anyOf"] = Json::array({item, {{"type", "string"}}, {{"type", "array"}, {"items", item}}});
  } else if (option.value.is_list) {
    made["anyOf"] = Json::array({{{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}}});
  } else {
    made["type"] = Json::array({"string", "number"});  // YAML reads 131072 and 1.5 as numbers
  }
  // Larger bounds are not exact in JSON and catch no typing errors.
  const bool is_number = type == "count" || type == "number" || type == "whole number";
  const auto bound = [&](double value) { return type == "number" ? Json(value) : Json(std::llround(value)); };
  if (is_number && option.value.low) made["minimum"] = bound(*option.value.low);
  if (is_number && option.value.high && *option.value.high < 1e15) made["maximum"] = bound(*option.value.high);
  made["description"] = option.names.help;
  if (option.is_reloadable) made["x-reloadable"] = true;
  // A text such as "limit of the model" is not a JSON value.
  const Json typed = Json::parse(option.fallback, nullptr, false);
  if ((is_number && typed.is_number()) || typed.is_boolean())
    made["default"] = typed;
  else if (!is_number && !option.fallback.empty())
    made["default"] = option.fallback;
  return made;
}

Json object() { return {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}}; }

// Returns the object that holds the key "a.b.c", which is that of "a.b", and creates it if it is missing. A key that is
// both a value and a section ("demand: 3" or "demand: {trace: …}") becomes a choice of both.
Json& parent_of(Json& root, std::string_view& key) {
  Json* at = &root;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    Json& child = (*at)["properties"][std::string{key.substr(0, dot)}];
    key.remove_prefix(dot + 1);
    if (child.is_null()) {
      child = object();
    } else if (child.contains("type") && child["type"] != "object") {
      child = {{"anyOf", Json::array({child, object()})}};
    }
    at = child.contains("anyOf") ? &child["anyOf"].back() : &child;
  }
  return *at;
}

void add(Json& root, std::string_view key, Json schema, bool required) {
  if (key.empty()) return;
  const std::string first{key.substr(0, key.find('.'))};
  Json& parent = parent_of(root, key);
  parent["properties"][std::string{key}] = std::move(schema);
  if (required && std::find(root["required"].begin(), root["required"].end(), first) == root["required"].end())
    root["required"].push_back(first);
}

Json schema_of(const Table& table) {
  Json root = object();
  for (const Option& option : table.options()) add(root, option.names.key, schema_of(option), option.is_required);
  for (const List& list : table.lists())
    add(root, list.names.key,
        {{"type", "array"},
         {"minItems", 1},
         {"maxItems", list.items_max},
         {"description", list.names.help},
         {"items", schema_of(*list.rows)}},
        list.is_required);
  return root;
}

}  // namespace

std::string to_markdown(const Table& table, const std::vector<std::string_view>& groups, bool has_reload) {
  std::vector<std::string_view> headings;
  const auto note = [&](std::string_view group) {
    const bool wanted = groups.empty() || std::find(groups.begin(), groups.end(), group) != groups.end();
    if (wanted && std::find(headings.begin(), headings.end(), group) == headings.end()) headings.push_back(group);
  };
  for (const Option& option : table.options()) note(option.group);
  for (const List& list : table.lists()) note(list.group);
  std::string page;
  for (const std::string_view group : headings) {
    page += fmt::format("\n## {}\n\n", group);
    for (const SectionFlag& flag : table.section_flags())
      if (flag.group == group) page += fmt::format("`{}`: {}.\n\n", flag.flag, flag.help);
    for (const List& list : table.lists())
      if (list.group == group && !list.names.flag.empty())
        page += fmt::format("`{}`: {}.\n\n", list.names.flag, list.names.help);
    page += has_reload ? "| key | flag | type | default | reload | meaning |\n|---|---|---|---|---|---|\n"
                       : "| key | flag | type | default | meaning |\n|---|---|---|---|---|\n";
    for (const Option& option : table.options())
      if (option.group == group) page += row("", option, is_shared(table, option) ? " ¹" : "", has_reload);
    for (const List& list : table.lists()) {
      if (list.group != group) continue;
      page += fmt::format("| `{}` | {} | list of sections |  |{} {} |\n", list.names.key, cell(list.names.flag),
                          reload_cell(has_reload, list.is_reloadable), list.names.help);
      append_items(page, table, list, "", has_reload);
    }
  }
  return page;
}

std::string to_json_schema(const Table& table, std::string_view title) {
  Json made = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  made.update(schema_of(table));
  return made.dump(1) + "\n";
}

}  // namespace penstock::options
