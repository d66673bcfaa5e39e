#include "workload/csv.h"

#include <gtest/gtest.h>

namespace penstock::workload {
namespace {

using Fields = std::vector<std::string>;

Fields split(std::string_view line) {
  CsvSplitter splitter;
  const auto fields = splitter.split(line);
  return fields ? Fields(fields->begin(), fields->end()) : Fields{"error: " + fields.error()};
}

TEST(Csv, FieldsAreSplitAtCommasAndTrimmed) {
  EXPECT_EQ(split("a,b,c"), (Fields{"a", "b", "c"}));
  EXPECT_EQ(split(" a ,\tb , c d "), (Fields{"a", "b", "c d"}));
  EXPECT_EQ(split(",,"), (Fields{"", "", ""}));
  EXPECT_EQ(split("a"), (Fields{"a"}));
}

TEST(Csv, QuotedFieldsKeepCommasSpacesAndDoubledQuotes) {
  EXPECT_EQ(split(R"("a,b",c)"), (Fields{"a,b", "c"}));
  EXPECT_EQ(split(R"(" a ", "b" ,c)"), (Fields{" a ", "b", "c"}));
  EXPECT_EQ(split(R"("say ""hi""","""","")"), (Fields{"say \"hi\"", "\"", ""}));
  EXPECT_EQ(split(R"(a"b,c)"), (Fields{"a\"b", "c"}));
  EXPECT_EQ(split(R"("a",)"), (Fields{"a", ""}));
}

TEST(Csv, SeparatorsMayBeSemicolonsOrTabs) {
  EXPECT_EQ(separator_of("a,b;c,d"), ',');
  EXPECT_EQ(separator_of("a;\"b,c,d,e\";f"), ';');
  EXPECT_EQ(separator_of("a\tb\tc"), '\t');
  EXPECT_EQ(separator_of("a"), ',');
  CsvSplitter semicolons{';'}, tabs{'\t'};
  const auto by_semicolon = semicolons.split(R"(a , b;"c;d";)").value();
  EXPECT_EQ(Fields(by_semicolon.begin(), by_semicolon.end()), (Fields{"a , b", "c;d", ""}));
  const auto by_tab = tabs.split("\t\"a\tb\"\t c ").value();
  EXPECT_EQ(Fields(by_tab.begin(), by_tab.end()), (Fields{"", "a\tb", "c"}));
}

TEST(Csv, BrokenQuotesAreErrors) {
  EXPECT_EQ(split(R"(a,"b)"), (Fields{"error: a quoted field does not end on its line"}));
  EXPECT_EQ(split(R"("a"b,c)"), (Fields{"error: text follows the quoted field \"a\""}));
}

TEST(Csv, ColumnsAreLimited) {
  EXPECT_EQ(split(std::string(999, ',')).size(), 1000U);
  EXPECT_EQ(split(std::string(1000, ',')), (Fields{"error: has more than 1000 columns"}));
}

}  // namespace
}  // namespace penstock::workload
