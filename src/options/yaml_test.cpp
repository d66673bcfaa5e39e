#include "options/yaml.h"

#include <gtest/gtest.h>

#include <fstream>
#include <utility>

namespace penstock::options {
namespace {

std::string first_problem(std::string_view text, const YamlLimits& limits = {}) {
  const auto parsed = parse_yaml("p.yaml", text, limits);
  return parsed ? "" : parsed.error().front().message();
}

TEST(Yaml, KeepsLinesColumnsAndOrder) {
  const auto root = parse_yaml("p.yaml", "a: 1\nb:\n  - x\n  - {y: 'z'}\nc:\n");
  ASSERT_TRUE(root);
  ASSERT_EQ(root->keys.size(), 3U);
  EXPECT_EQ(root->items[0].text, "1");
  EXPECT_EQ(root->items[0].column, 4U);
  EXPECT_EQ(root->items[1].items[1].items[0].line, 4U);
  EXPECT_EQ(root->items[2].kind, YamlNode::Kind::kNull);
}

TEST(Yaml, AValueThatIsLeftOutHasThePlaceOfItsKey) {
  const auto root = parse_yaml("p.yaml", "a:\nb: 2\nc:\n  d:\n\n# end\n");
  ASSERT_TRUE(root);
  const YamlNode &a = root->items[0], &d = root->items[2].items[0];
  EXPECT_EQ((std::pair{a.line, a.column}), (std::pair{std::size_t{1}, std::size_t{1}}));
  EXPECT_EQ((std::pair{d.line, d.column}), (std::pair{std::size_t{4}, std::size_t{3}}));
}

TEST(Yaml, EmptyDocumentIsAnEmptySection) {
  for (const char* text : {"", "\n", "# nothing\n", "---\n"}) {
    const auto root = parse_yaml("p.yaml", text);
    ASSERT_TRUE(root) << text;
    EXPECT_EQ(root->kind, YamlNode::Kind::kMap);
    EXPECT_EQ(root->line, 1U);
    EXPECT_EQ(root->column, 1U);
  }
}

TEST(Yaml, NamesEveryKeyThatIsThereTwice) {
  const auto root = parse_yaml("p.yaml", "a: 1\nb: 2\na: 3\nc: {d: 1, d: 2}\n");
  ASSERT_FALSE(root);
  ASSERT_EQ(root.error().size(), 2U);
  EXPECT_EQ(root.error()[0].message(), "p.yaml:3:1: duplicate key 'a', first in line 1");
  EXPECT_EQ(root.error()[1].message(), "p.yaml:4:11: duplicate key 'd', first in line 4");
}

TEST(Yaml, PointsAtTabsAndSyntaxErrors) {
  EXPECT_EQ(first_problem("a:\n\tb: 1\n"), "p.yaml:2:1: indented with a tab; indent with blanks");
  EXPECT_TRUE(first_problem("a: [1, 2\nb: 3\n").starts_with("p.yaml:2:")) << first_problem("a: [1, 2\nb: 3\n");
  EXPECT_EQ(first_problem("a: 'x\n"), "p.yaml:3:1: is not valid YAML: a quote is opened and not closed");
  EXPECT_EQ(first_problem("a: \"x"), "p.yaml:2:1: is not valid YAML: a quote is opened and not closed");
  EXPECT_TRUE(first_problem("a: b: c\n").starts_with("p.yaml:1:"));
  EXPECT_EQ(first_problem(std::string_view{"a\0b", 3}), "p.yaml:1:1: has a zero byte; it is no text");
}

TEST(Yaml, RefusesTagsOddKeysAndSecondDocuments) {
  EXPECT_EQ(first_problem("a: !!int 3\n"),
            "p.yaml:1:4: tags are not supported, has 'tag:yaml.org,2002:int'; remove it");
  EXPECT_EQ(first_problem("[1]: 2\n"), "p.yaml:1:1: a key must be plain text, is a list");
  EXPECT_EQ(first_problem("a: 1\n---\nb: 2\n"), "p.yaml:1:1: has more than one document");
}

TEST(Yaml, ReadsAliasesAsWhatTheyStandFor) {
  const auto root = parse_yaml("p.yaml", "a: &x {k: 1}\nb: *x\n");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->items[1].items[0].text, "1");
}

TEST(Yaml, StopsAliasBombsAndDeepNestingEarly) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 9; ++j) bomb += "," + before;
    bomb += "]\n";
  }
  EXPECT_NE(first_problem(bomb).find("has more than 20000 values, aliases counted"), std::string::npos);
  EXPECT_NE(
      first_problem("a: " + std::string(20, '[') + std::string(20, ']') + "\n").find("nests deeper than 16 levels"),
      std::string::npos);
  EXPECT_FALSE(first_problem(std::string(100'000, '[')).empty());
  std::string dashes;
  for (int i = 0; i < 10'000; ++i) dashes += "- ";
  EXPECT_NE(first_problem(dashes).find("nests deeper than 16 levels"), std::string::npos);
  EXPECT_NE(first_problem(std::string(50, 'x'), {.bytes_max = 49}).find("at most 49 are read"), std::string::npos);
}

TEST(TextFiles, MissingAndLargeOnesAreRefused) {
  EXPECT_EQ(read_text_file("/nowhere/p.yaml", 10).error().message(),
            "/nowhere/p.yaml: cannot be opened: No such file or directory; is the name right?");
  EXPECT_EQ(read_text_file("/", 10).error().message(), "/: cannot be read: Is a directory");
  const std::string path = ::testing::TempDir() + "config_reader_large.yaml";
  std::ofstream{path} << "0123456789";
  EXPECT_EQ(read_text_file(path, 10).value(), "0123456789");
  EXPECT_EQ(read_text_file(path, 9).error().message(), path + ": is larger than 9 bytes");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace penstock::options
