// The workload that is used when no trace is given.
#include <vector>

#include "core/random.h"
#include "core/result.h"
#include "workload/synthetic.h"
#include "workload/transform.h"

namespace penstock::workload {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// Sized for NVIDIA Dynamo's default timing: one replica suffices at dawn, two at noon, three or four during the flash
// crowd, and no prompt takes longer than half of the usual two seconds of TTFT.

// Chat about pasted text: sessions of a few turns, with a rate that rises over the morning.
SyntheticSpec morning_chat() {
  SyntheticSpec spec;
  spec.rate = {RateShape::kDiurnal, 0.2, 1.5, {}, minutes{80}};
  spec.arrival_cv = 1.5;
  spec.input = {4000.0, 0.8, 24'000};
  spec.output = {300.0, 0.8, 2'048};
  spec.prefix_groups = 3;
  spec.prefix_tokens = 1024;
  spec.turns = 3.5;
  spec.think_time = seconds{40};
  return spec;
}

// A product launch: for six minutes many users arrive at once, each with a separate document.
SyntheticSpec flash_crowd() {
  SyntheticSpec spec;
  spec.rate = {RateShape::kBurst, 0.0, 4.5, minutes{38}, minutes{6}};
  spec.input = {9000.0, 0.4, 24'000};
  spec.output = {200.0, 0.6, 1'024};
  spec.prefix_groups = 1;
  spec.prefix_tokens = 1024;
  return spec;
}

// Background summaries of reports from the twelfth minute on.
SyntheticSpec document_batch() {
  SyntheticSpec spec;
  spec.rate = {RateShape::kStep, 0.02, 0.2, minutes{12}, {}};
  spec.arrival_cv = 2.0;
  spec.input = {12'000.0, 0.5, 28'000};
  spec.output = {500.0, 0.4, 2'048};
  spec.batch_share = 1.0;
  return spec;
}

// Agents that call tools in a loop: one long system prompt and many short turns with tool results.
SyntheticSpec tool_agent() {
  SyntheticSpec spec;
  spec.rate = {RateShape::kConstant, 0.25, 0.25, {}, {}};
  spec.input = {7500.0, 0.1, 28'000};
  spec.output = {90.0, 0.7, 1'024};
  spec.prefix_groups = 2;
  spec.prefix_tokens = 6144;
  spec.turns = 9.0;
  spec.think_time = seconds{6};
  return spec;
}

}  // namespace

Workload built_in_workload(std::uint64_t seed) {
  struct Part {
    const char* tenant;
    SyntheticSpec spec;
  };
  const Part parts[] = {
      {"chat", morning_chat()}, {"chat", flash_crowd()}, {"documents", document_batch()}, {"agents", tool_agent()}};
  std::vector<Workload> workloads;
  const core::RandomStream random{seed};
  for (const Part& part : parts) {
    SyntheticSpec spec = part.spec;
    spec.duration = std::chrono::hours{1};
    auto made = make_synthetic(spec, random.fork(workloads.size()).next());
    PENSTOCK_ASSERT(made.has_value(), "the built-in settings are sound");
    made->tenants = {part.tenant};
    workloads.push_back(std::move(*made));
  }
  auto merged = merge(workloads);
  PENSTOCK_ASSERT(merged.has_value(), "the built-in parts have blocks of one size");
  merged->name = "built-in";
  return std::move(*merged);
}

}  // namespace penstock::workload
