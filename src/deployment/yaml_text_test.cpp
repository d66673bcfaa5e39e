#include "deployment/yaml_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/random.h"
#include "options/yaml.h"

namespace penstock::deployment {
namespace {

using Json = nlohmann::ordered_json;

TEST(YamlText, WritesObjectsAsAPersonWould) {
  const Json object{{"kind", "Role"},
                    {"metadata", {{"name", "a"}, {"labels", {{"a.b/c", "on"}}}}},
                    {"rules", Json::array({{{"verbs", {"list", "watch"}}, {"apiGroups", {""}}}})},
                    {"empty", Json::object()},
                    {"none", Json::array()},
                    {"count", 3},
                    {"text", "a: 1\n\nb: 2\n"},
                    {"version", "0.1"}};
  EXPECT_EQ(to_yaml({object, {{"kind", "B"}}}), R"(kind: Role
metadata:
  name: a
  labels:
    a.b/c: "on"
rules:
  - verbs:
      - list
      - watch
    apiGroups:
      - ""
empty: {}
none: []
count: 3
text: |
  a: 1

  b: 2
version: "0.1"
---
kind: B
)");
}

// Returns what another reader of YAML finds under the key.
std::string read_back(const Json& object, const std::string& key) {
  const auto root = options::parse_yaml("m.yaml", to_yaml({object}), {1U << 24U, 16, 100'000});
  if (!root) return "not YAML: " + root.error().front().message();
  for (std::size_t i = 0; i < root->keys.size(); ++i)
    if (root->keys[i].text == key) return root->items[i].text;
  return "no key";
}

TEST(YamlText, AnyTextIsReadAsItWasWritten) {
  const std::vector<std::string> pieces = {"\n",
                                           " ",
                                           "a",
                                           ":",
                                           "#",
                                           "\"",
                                           "\\",
                                           "'",
                                           "-",
                                           "---\n",
                                           "...",
                                           "{",
                                           "[",
                                           "\t",
                                           "&",
                                           "!!",
                                           "|",
                                           "%",
                                           "\xc3\xa4",
                                           "\xf0\x9f\x98\x80",
                                           "0",
                                           "~",
                                           "\r",
                                           "\x01",
                                           "\x7f",
                                           "\xe2\x80\xa8",
                                           "\xef\xbb\xbf",
                                           "\xc2\x85"};
  core::RandomStream random{1};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t i = random.below(12); i > 0; --i) text += pieces[random.below(pieces.size())];
    ASSERT_EQ(read_back({{"before", "x"}, {"text", text}, {"after", "y"}}, "text"), text) << Json(text).dump();
    ASSERT_EQ(read_back({{"text", text}, {"after", "y"}}, "after"), "y") << Json(text).dump();
  }
}

TEST(YamlText, BytesThatAreNotUtf8AreReportedWithTheirLine) {
  EXPECT_TRUE(check_utf8("a\n\xc3\xa4"));
  const auto bad = check_utf8("a\nb\xff");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().what, "line 2 is not UTF-8");
}

}  // namespace
}  // namespace penstock::deployment
