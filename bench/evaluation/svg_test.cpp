#include "evaluation/svg.h"

#include <gtest/gtest.h>

#include <array>

namespace penstock::evaluation {
namespace {

TEST(Svg, HasATitleForScreenReaders) {
  const std::string text = Svg{300, 200, "a title", "what it shows"}.str();
  EXPECT_TRUE(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 300 200\""));
  EXPECT_NE(text.find("<title>a title</title>\n<desc>what it shows</desc>"), std::string::npos);
  EXPECT_TRUE(text.ends_with("</svg>\n"));
}

TEST(Svg, EscapesTextAndDropsControlCharacters) {
  Svg svg{10, 10, "<&\">", ""};
  svg.text({1, 2}, "a<b\x1b", {});
  EXPECT_NE(svg.str().find("<title>&lt;&amp;&quot;&gt;</title>"), std::string::npos);
  EXPECT_NE(svg.str().find(">a&lt;b?</text>"), std::string::npos);
}

TEST(Svg, KeepsOneDecimalOfACoordinate) {
  Svg svg{10, 10, "", ""};
  const std::array points = {SvgPoint{1.0 / 3.0, 2.0}, SvgPoint{3.0, 4.25}};
  svg.path(points, {"#123456", 2.0, "4 3"});
  EXPECT_NE(svg.str().find("points=\"0.3,2.0 3.0,4.2\" fill=\"none\" stroke=\"#123456\" stroke-width=\"2.0\" "
                           "stroke-dasharray=\"4 3\""),
            std::string::npos);
}

TEST(Svg, RotatesTextAroundItsPosition) {
  Svg svg{10, 10, "", ""};
  svg.text_upwards({5, 6}, "up", {.size = 11, .anchor = "middle", .bold = true});
  EXPECT_NE(svg.str().find("text-anchor=\"middle\" font-weight=\"600\" transform=\"rotate(-90 5.0 6.0)\">up<"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock::evaluation
