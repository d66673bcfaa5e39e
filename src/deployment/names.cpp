#include "deployment/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace penstock::deployment {
namespace {

constexpr std::size_t kImageBytesMax = 512, kLinkBytesMax = 512;

constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z'); }

template <class Allowed>
bool consists_of(std::string_view text, Allowed allowed) {
  return std::all_of(text.begin(), text.end(), allowed);
}

// A label of a name, where only the first one of a Service must begin with a letter.
bool is_dns_label(std::string_view text, bool begins_with_letter) {
  const auto at_ends = [](char c) { return is_lower(c) || is_digit(c); };
  return !text.empty() && text.size() <= kLabelBytesMax &&
         (begins_with_letter ? is_lower(text.front()) : at_ends(text.front())) && at_ends(text.back()) &&
         consists_of(text, [&](char c) { return at_ends(c) || c == '-'; });
}

}  // namespace

core::Result<void> check_dns_label(std::string_view text, std::size_t bytes_max) {
  if (is_dns_label(text, true) && text.size() <= bytes_max) return {};
  return core::invalid_input({}, "is not a name that Kubernetes accepts",
                             fmt::format("use at most {} characters: lower-case letters, digits and '-', with a letter "
                                         "first and no '-' last",
                                         bytes_max));
}

core::Result<void> check_dns_name(std::string_view text, std::size_t bytes_max) {
  bool good = text.size() <= bytes_max;
  for (std::string_view rest = text; good;) {
    const std::size_t dot = rest.find('.');
    good = is_dns_label(rest.substr(0, dot), false);
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (good) return {};
  return core::invalid_input({}, "is not a name that Kubernetes accepts",
                             fmt::format("use at most {} lower-case letters, digits, '-' and '.', with a letter or a "
                                         "digit at both ends",
                                         bytes_max));
}

core::Result<void> check_label_value(std::string_view text) {
  const auto at_ends = [](char c) { return is_letter(c) || is_digit(c); };
  if (!text.empty() && text.size() <= kLabelBytesMax && at_ends(text.front()) && at_ends(text.back()) &&
      consists_of(text, [&](char c) { return at_ends(c) || c == '-' || c == '_' || c == '.'; }))
    return {};
  return core::invalid_input({}, "is not a label value that Kubernetes accepts",
                             "use at most 63 letters, digits, '-', '_' and '.', with a letter or a digit at both ends");
}

core::Result<void> check_label_key(std::string_view text) {
  const std::size_t slash = text.find('/');
  const bool has_prefix = slash != std::string_view::npos;
  if ((!has_prefix || check_dns_name(text.substr(0, slash))) &&
      check_label_value(text.substr(has_prefix ? slash + 1 : 0)))
    return {};
  return core::invalid_input({}, "is not a label that Kubernetes accepts", "as pool or example.com/pool");
}

core::Result<void> check_resource(std::string_view text) {
  if (text.find('/') != std::string_view::npos && check_label_key(text)) return {};
  return core::invalid_input({}, "is not a resource of a device", "as nvidia.com/gpu or nvidia.com/mig-3g.40gb");
}

core::Result<void> check_quantity(std::string_view text) {
  constexpr std::array<std::string_view, 10> kUnits = {"", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
  const std::size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, end), unit = text.substr(end);
  const bool is_number = !number.empty() && is_digit(number.front()) && is_digit(number.back()) &&
                         std::count(number.begin(), number.end(), '.') <= 1 &&
                         number.find_first_not_of("0.") != std::string_view::npos;
  if (is_number && std::find(kUnits.begin(), kUnits.end(), unit) != kUnits.end()) return {};
  return core::invalid_input({}, "is not a quantity above 0", "as 4, 500m or 64Gi");
}

core::Result<void> check_image(std::string_view text) {
  const auto allowed = [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view{"-_./:@+"}.find(c) != std::string_view::npos;
  };
  if (!text.empty() && text.size() <= kImageBytesMax && (is_letter(text.front()) || is_digit(text.front())) &&
      consists_of(text, allowed))
    return {};
  return core::invalid_input({}, "is not the reference of a container image", "as registry.example/penstock:1.0");
}

core::Result<void> check_link(std::string_view text) {
  const auto allowed = [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view{"-._~:/?&=%+@"}.find(c) != std::string_view::npos;
  };
  for (const std::string_view scheme : {"http://", "https://"})
    if (text.starts_with(scheme) && text.size() > scheme.size() && text.size() <= kLinkBytesMax &&
        consists_of(text, allowed))
      return {};
  return core::invalid_input({}, "is not the address of pages", "as https://wiki.example.org/penstock");
}

core::Result<void> check_variable(std::string_view text) {
  if (!text.empty() && text.size() <= kNameBytesMax && !is_digit(text.front()) &&
      consists_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; }))
    return {};
  return core::invalid_input({}, "is not the name of a variable that a container can have",
                             "use letters, digits and '_', with no digit first");
}

core::Result<void> check_secret_key(std::string_view text) {
  if (!text.empty() && text.size() <= kNameBytesMax && text != "." && !text.starts_with("..") &&
      consists_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_' || c == '.'; }))
    return {};
  return core::invalid_input({}, "is not the file of a key that a Secret can have",
                             "use letters, digits, '-', '_' and '.', and no folder");
}

}  // namespace penstock::deployment
