// A picture as text: the few marks that a chart is made of.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::evaluation {

struct SvgPoint {
  double x = 0.0, y = 0.0;  // pixels from the upper left corner
};

struct SvgStroke {
  std::string_view colour = "#000";
  double width = 1.0;
  std::string_view dashes = {};  // "4 3"; empty: none
};

struct SvgFont {
  double size = 12.0;
  std::string_view colour = "#222";
  std::string_view anchor = "start";  // or "middle", "end"
  bool bold = false;
};

// Later marks cover earlier ones. Coordinates keep one decimal, so that equal figures give equal bytes. Text is
// escaped; colours are trusted.
class Svg {
 public:
  // `title` and `description` are for those who cannot see it.
  Svg(double width, double height, std::string_view title, std::string_view description);

  void rectangle(SvgPoint corner, double width, double height, std::string_view fill);
  void line(SvgPoint from, SvgPoint to, const SvgStroke& stroke);
  void path(std::span<const SvgPoint> points, const SvgStroke& stroke);
  void circle(SvgPoint centre, double radius, std::string_view fill, const SvgStroke& stroke);
  void text(SvgPoint at, std::string_view words, const SvgFont& font);
  void text_upwards(SvgPoint at, std::string_view words, const SvgFont& font);  // turned a quarter to the left

  [[nodiscard]] std::string str() const;  // ends with a newline

 private:
  void add_text(SvgPoint at, std::string_view words, const SvgFont& font, std::string_view transform);

  std::string marks_;
};

}  // namespace penstock::evaluation
