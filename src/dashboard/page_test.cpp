#include "dashboard/page.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::dashboard {
namespace {

constexpr PageParts kSmall{"<style>/*STYLE*/</style><script>/*LIBRARY*/</script><script>/*SCRIPTS*/</script>", "p{}",
                           "abc", "alert(1)"};

TEST(Page, HasItsPartsInTheirPlaces) {
  EXPECT_EQ(make_page(kSmall).html, "<style>p{}</style><script>abc</script><script>alert(1)</script>");
}

// The digest of "abc" is the first example of FIPS 180-2.
TEST(Page, NamesItsScriptsByTheirHashes) {
  const std::string policy = make_page(kSmall).policy;
  EXPECT_NE(policy.find("script-src 'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=' 'sha256-"), std::string::npos)
      << policy;
}

TEST(Page, AllowsNoOtherScriptsOrLoads) {
  const std::string policy = make_page(kSmall).policy;
  EXPECT_EQ(policy.find("default-src 'none'; "), 0U);
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_NE(policy.find("connect-src 'self'"), std::string::npos);
}

TEST(Page, OfTheProgramIsCompleteAndSelfContained) {
  const std::string html = make_page().html;
  for (const char* mark : {"/*STYLE*/", "/*LIBRARY*/", "/*SCRIPTS*/", "src=\"", "@import"})
    EXPECT_EQ(html.find(mark), std::string::npos) << mark;
  for (const char* part : {"uPlot", ".u-wrap", "EventSource", "</html>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

// A script may not hold what would end it.
TEST(Page, OfTheProgramHasOneStyleAndTwoScripts) {
  const std::string html = make_page().html;
  const auto count = [&](std::string_view text) {
    std::size_t found = 0;
    for (std::size_t at = html.find(text); at != std::string::npos; at = html.find(text, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("</style"), 1U);
  EXPECT_EQ(count("</script"), 2U);
}

TEST(Page, AReportHasItsDataWhichCannotEndItsElement) {
  const std::string html = report_page(R"x({"policy":"</script><script>alert(1)"})x", "[1]", "[2]", 1.5);
  EXPECT_NE(html.find(R"(id="report">{"unix_s":1.500,"state":{"policy":"\u003c/script\u003e)"), std::string::npos);
  EXPECT_NE(html.find(R"("history":[1],"points":[2]}</script>)"), std::string::npos);
  EXPECT_EQ(html.find("<script>alert(1)"), std::string::npos);
}

}  // namespace
}  // namespace penstock::dashboard
