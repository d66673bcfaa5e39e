#include "report/json.h"

#include <nlohmann/json.hpp>

#include "report/document.h"

namespace penstock::report {

std::string to_json(const Report& report) { return write_json(make_document(report, {}), {}) + "\n"; }

}  // namespace penstock::report
