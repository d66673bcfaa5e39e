// The value of --columns; a mapping that is read is written so that it reads the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "workload/columns.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using penstock::workload::ColumnMapping;
  const auto mapping = ColumnMapping::parse({reinterpret_cast<const char*>(data), size});
  if (!mapping) return 0;
  const auto again = ColumnMapping::parse(mapping->text());
  if (!again || again->text() != mapping->text()) std::abort();
  return 0;
}
