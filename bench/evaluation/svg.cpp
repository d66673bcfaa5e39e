#include "evaluation/svg.h"

#include <fmt/format.h>

#include "report/format.h"
#include "report/page_template.h"

namespace penstock::evaluation {
namespace {

std::string attributes(const SvgStroke& stroke) {
  std::string text = fmt::format(" stroke=\"{}\" stroke-width=\"{:.1f}\"", stroke.colour, stroke.width);
  if (!stroke.dashes.empty()) text += fmt::format(" stroke-dasharray=\"{}\"", stroke.dashes);
  return text;
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title, std::string_view description) {
  marks_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">\n"
      "<title>{2}</title>\n<desc>{3}</desc>\n",
      width, height, report::escape_markup(report::printable(title)),
      report::escape_markup(report::printable(description)));
}

void Svg::rectangle(SvgPoint corner, double width, double height, std::string_view fill) {
  marks_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", corner.x,
                        corner.y, width, height, fill);
}

void Svg::line(SvgPoint from, SvgPoint to, const SvgStroke& stroke) {
  marks_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"{}/>\n", from.x, from.y, to.x,
                        to.y, attributes(stroke));
}

void Svg::path(std::span<const SvgPoint> points, const SvgStroke& stroke) {
  std::string corners;
  for (const SvgPoint& point : points)
    corners += fmt::format("{}{:.1f},{:.1f}", corners.empty() ? "" : " ", point.x, point.y);
  marks_ += fmt::format("<polyline points=\"{}\" fill=\"none\"{}/>\n", corners, attributes(stroke));
}

void Svg::circle(SvgPoint centre, double radius, std::string_view fill, const SvgStroke& stroke) {
  marks_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"{}\"{}/>\n", centre.x, centre.y,
                        radius, fill, attributes(stroke));
}

void Svg::text(SvgPoint at, std::string_view words, const SvgFont& font) { add_text(at, words, font, {}); }

void Svg::text_upwards(SvgPoint at, std::string_view words, const SvgFont& font) {
  add_text(at, words, font, fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", at.x, at.y));
}

void Svg::add_text(SvgPoint at, std::string_view words, const SvgFont& font, std::string_view transform) {
  marks_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"{:.0f}\" fill=\"{}\"{}{}{}>{}</text>\n", at.x, at.y,
                  font.size, font.colour, font.anchor == "start" ? "" : fmt::format(" text-anchor=\"{}\"", font.anchor),
                  font.bold ? " font-weight=\"600\"" : "", transform, report::escape_markup(report::printable(words)));
}

std::string Svg::str() const { return marks_ + "</svg>\n"; }

}  // namespace penstock::evaluation
