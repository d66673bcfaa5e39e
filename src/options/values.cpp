#include "options/values.h"

namespace penstock::options {

Value texts(std::vector<std::string>& field) {
  Value made;
  made.type = "list";
  made.is_list = true;
  made.parse = [&field](std::span<const std::string> parts) -> core::Result<void> {
    if (parts.empty()) return core::invalid_input({}, "must have at least one item");
    for (const std::string& part : parts)
      if (auto checked = parse_text(part); !checked) return tl::make_unexpected(checked.error());
    field.assign(parts.begin(), parts.end());
    return {};
  };
  made.format = [&field] {
    std::string joined;
    for (const std::string& part : field) joined += (joined.empty() ? "" : ",") + part;
    return joined;
  };
  return made;
}

Value names(std::vector<std::string>& field) {
  Value made = texts(field);
  made.splits_text = true;
  made.parse = [parse = std::move(made.parse)](std::span<const std::string> parts) -> core::Result<void> {
    for (const std::string& part : parts)
      if (part.find(',') != std::string::npos) return core::invalid_input({}, "must be a list of texts without commas");
    return parse(parts);
  };
  return made;
}

}  // namespace penstock::options
