#include "dashboard/page.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>

#include "core/result.h"
#include "dashboard/assets.h"
#include "report/page_template.h"

namespace penstock::dashboard {
namespace {

void fill(std::string& page, std::string_view mark, std::string_view content) {
  const std::size_t at = page.find(mark);
  PENSTOCK_ASSERT(at != std::string::npos, "the page has a mark for each of its parts");
  page.replace(at, mark.size(), content);
}

// The name of an inline style or script in the policy: 'sha256-…' of the content of its element.
std::string source_of(std::string_view content) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest.data());
  std::array<unsigned char, 4 * (SHA256_DIGEST_LENGTH + 2) / 3 + 1> text{};
  const int length = ::EVP_EncodeBlock(text.data(), digest.data(), SHA256_DIGEST_LENGTH);
  return fmt::format("'sha256-{}'",
                     std::string_view{reinterpret_cast<const char*>(text.data()), static_cast<std::size_t>(length)});
}

}  // namespace

Page make_page(const PageParts& parts) {
  Page made{std::string{parts.page}, {}};
  fill(made.html, "/*STYLE*/", parts.style);
  fill(made.html, "/*LIBRARY*/", parts.library);
  fill(made.html, "/*SCRIPTS*/", parts.scripts);
  made.policy = fmt::format(
      "default-src 'none'; style-src {}; script-src {} {}; connect-src 'self'; img-src data:; base-uri 'none'; "
      "form-action 'none'; frame-ancestors 'none'",
      source_of(parts.style), source_of(parts.library), source_of(parts.scripts));
  return made;
}

std::string report_page(std::string_view state, std::string_view history, std::string_view points, double unix_s) {
  std::string html = make_page().html;
  const std::size_t end = html.rfind("</body>");
  PENSTOCK_ASSERT(end != std::string::npos, "the page has a body");
  const std::string data =
      fmt::format(R"({{"unix_s":{:.3f},"state":{},"history":{},"points":{}}})", unix_s, state, history, points);
  html.insert(end,
              fmt::format("<script type=\"application/json\" id=\"report\">{}</script>\n", report::escape_json(data)));
  return html;
}

Page make_page() { return make_page({assets::page(), assets::style(), assets::library(), assets::scripts()}); }

}  // namespace penstock::dashboard
