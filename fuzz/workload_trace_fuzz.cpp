// A trace of any format, plain or packed; what is read must be a workload that holds its promises.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "workload/reader.h"

namespace {

using namespace penstock;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const workload::Workload& trace, const workload::ReadReport& report) {
  require(!trace.requests.empty() && trace.requests.size() + report.skipped_rows <= report.rows);
  core::Instant last = core::kStart;
  for (const auto& request : trace.requests) {
    require(request.arrival >= last && request.input_tokens > 0 && request.output_tokens > 0);
    require(request.tenant < trace.tenants.size());
    require(request.first_block <= trace.block_ids.size());
    require(request.block_count <= trace.block_ids.size() - request.first_block);
    last = request.arrival;
  }
  for (const auto& wait : trace.waits) {
    require(wait.request < trace.requests.size() && wait.previous < trace.requests.size());
    require(wait.request != wait.previous && wait.after >= core::Duration{});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const bool skip : {false, true}) {
    for (const bool window : {false, true}) {
      workload::ReadOptions options;
      options.skip_bad_rows = skip;
      if (skip || window) options.session_rate = 0.5;
      if (skip) options.think_time_max = std::chrono::seconds{5};
      if (window) options.from = std::chrono::seconds{1};
      if (window) options.time_format = static_cast<workload::TimeFormat>(size % workload::kTimeFormats);
      if (skip) options.model = workload::kAllModels;
      if (skip && window)
        options.columns =
            workload::ColumnMapping::parse("time=Request Time,input=Prompt Tok,output=Completion Tok").value();
      if (window) options.to = std::chrono::seconds{10};
      workload::ReadReport report;
      const auto trace = workload::read_workload_bytes("fuzz", std::span{data, size}, options, &report);
      if (trace)
        check(*trace, report);
      else
        require(trace.error().message().find('\n') == std::string::npos);
    }
  }
  return 0;
}
