#include "net/sse.h"

namespace penstock::net {

void SseReader::take_line() {
  const std::string_view line{line_};
  if (!line.starts_with("data")) return;
  std::string_view value = line.substr(4);
  if (!value.empty()) {
    if (value.front() != ':') return;  // Another field, such as "database".
    value.remove_prefix(1);
    if (value.starts_with(' ')) value.remove_prefix(1);
  }
  if (has_data_) data_ += '\n';
  data_.append(value);
  has_data_ = true;
}

}  // namespace penstock::net
