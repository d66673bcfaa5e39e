#include "gateway/budget_document.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::gateway {
namespace {

dispatch::BudgetReport report_with(std::string tenant) {
  dispatch::BudgetReport report;
  report.process = "a1b2";
  report.number = 7;
  report.age = std::chrono::milliseconds{1'500};
  report.tenants.emplace_back(std::move(tenant), admission::SharedUse{12'345, 67.5, 3});
  report.classes[1] = {5, 0.25, 0};
  return report;
}

TEST(BudgetDocument, IsReadAsItWasWritten) {
  for (const std::string name : {"shop", "a \"b\" \\ \n\t\x01", "größe 価格", "../../etc", " "}) {
    const auto read = read_budget_document(budget_document(report_with(name)));
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->process, "a1b2");
    EXPECT_EQ(read->number, 7U);
    EXPECT_EQ(read->age, std::chrono::milliseconds{1'500});
    ASSERT_EQ(read->tenants.size(), 1U);
    EXPECT_EQ(read->tenants[0].first, name);
    EXPECT_EQ(read->tenants[0].second.taken, 12'345U);
    EXPECT_EQ(read->tenants[0].second.missing, 67.5);
    EXPECT_EQ(read->tenants[0].second.running, 3U);
    EXPECT_EQ(read->classes[0].taken, 0U);
    EXPECT_EQ(read->classes[1].taken, 5U);
    EXPECT_EQ(read->classes[1].missing, 0.25);
  }
}

TEST(BudgetDocument, ANameThatIsNotUtf8IsReplaced) {
  EXPECT_TRUE(read_budget_document(budget_document(report_with("\xff\xfe"))));
}

TEST(BudgetDocument, RefusesWhatIsNoReport) {
  const std::string good = budget_document(report_with("t"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = good;
    EXPECT_NE(good.find(from), std::string::npos);
    return changed.replace(good.find(from), from.size(), to);
  };
  const std::string deep(100'000, '[');
  for (const std::string& text :
       {std::string{}, std::string{"[]"}, std::string{"{}"}, good.substr(0, good.size() / 2), deep,
        with("\"taken\":12345", "\"taken\":-1"), with("\"taken\":12345", "\"taken\":1e3"),
        with("\"taken\":12345", "\"taken\":18446744073709551615"), with("\"taken\":12345", "\"taken\":\"5\""),
        with("\"missing\":67.5", "\"missing\":-0.5"), with("\"missing\":67.5", "\"missing\":1e300"),
        with("\"missing\":67.5", "\"missing\":null"), with("\"running\":3", "\"running\":4294967295"),
        with("\"age_s\":1.5", "\"age_s\":1e10"), with("\"boot\":\"a1b2\"", "\"boot\":\"\""),
        with("\"name\":\"t\"", "\"name\":\"\""), with("\"tenants\":[", "\"tenants\":[7,"),
        with("\"tenants\"", "\"tenant\"")}) {
    const auto read = read_budget_document(text);
    ASSERT_FALSE(read) << text.substr(0, 200);
    EXPECT_EQ(read.error().message().find('\n'), std::string::npos);
  }
}

TEST(BudgetDocument, RefusesMoreTenantsAndBytesThanAGatewayHas) {
  std::string many = R"({"boot":"a","number":1,"age_s":1,"classes":[],"tenants":[)";
  const std::string tenant = R"({"name":"t","taken":1,"missing":0,"running":0},)";
  for (int i = 0; i < 100'001; ++i) many += tenant;
  many.back() = ']';
  EXPECT_FALSE(read_budget_document(many + "}"));
  EXPECT_FALSE(read_budget_document(std::string(kBudgetDocumentBytesMax + 1, ' ')));
}

}  // namespace
}  // namespace penstock::gateway
