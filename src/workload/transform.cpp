#include "workload/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "workload/assembly.h"

namespace penstock::workload {
namespace {

// Everything except requests and blocks.
Workload frame_of(const Workload& workload) {
  Workload frame;
  frame.name = workload.name;
  frame.block_tokens = workload.block_tokens;
  frame.tenants = workload.tenants;
  frame.skipped_rows = workload.skipped_rows;
  frame.long_gaps = workload.long_gaps;
  return frame;
}

core::Result<Workload> split_blocks(const Workload& workload, std::uint32_t block_tokens) {
  const std::uint32_t parts = workload.block_tokens / block_tokens;
  const CompactIds compact = compact_ids(workload);
  std::uint64_t blocks = 0;
  for (const auto& request : workload.requests)
    blocks += blocks_for(named_tokens(request, workload.block_tokens), block_tokens);
  const auto fits = check_size(workload.name, workload.requests.size(), blocks, compact.bound * parts, 0);
  if (!fits) return tl::make_unexpected(fits.error());

  Workload out = frame_of(workload);
  out.block_tokens = block_tokens;
  out.waits = workload.waits;
  out.requests.reserve(workload.requests.size());
  out.block_ids.reserve(blocks);
  for (Request request : workload.requests) {
    const auto first = out.block_ids.size();
    const auto count = blocks_for(named_tokens(request, workload.block_tokens), block_tokens);
    for (std::uint64_t block = 0; block < count; ++block) {
      const std::uint32_t whole = compact.ids[request.first_block + block / parts];
      out.block_ids.push_back(whole * parts + static_cast<std::uint32_t>(block % parts));
    }
    request.first_block = count == 0 ? 0 : static_cast<std::uint32_t>(first);
    request.block_count = static_cast<std::uint32_t>(count);
    out.requests.push_back(request);
  }
  return out;
}

core::Result<Workload> join_blocks(const Workload& workload, std::uint32_t block_tokens) {
  const std::uint32_t parts = block_tokens / workload.block_tokens;
  const CompactIds compact = compact_ids(workload);
  std::uint64_t tails_max = 0;
  for (const auto& request : workload.requests) tails_max += request.block_count % parts != 0 ? 1 : 0;
  const auto fits = check_size(workload.name, workload.requests.size(), 0, compact.bound + tails_max, 0);
  if (!fits) return tl::make_unexpected(fits.error());

  Workload out = frame_of(workload);
  out.block_tokens = block_tokens;
  out.waits = workload.waits;
  out.requests.reserve(workload.requests.size());
  out.block_ids.reserve(workload.block_ids.size() / parts + tails_max);
  // A partial tail differs from a full block, although both may end in the same id, so tails get ids above all others.
  std::unordered_map<std::uint64_t, std::uint32_t> tails;
  for (Request request : workload.requests) {
    const auto first = out.block_ids.size();
    for (std::uint32_t end = parts; end <= request.block_count && end >= parts; end += parts)
      out.block_ids.push_back(compact.ids[request.first_block + end - 1]);
    const std::uint32_t tail = request.block_count % parts;
    // If ids end before the prompt does, the rest of the larger block, and so the block itself, has no id.
    if (tail != 0 && request.block_count >= blocks_for(request.input_tokens, workload.block_tokens)) {
      const std::uint64_t last = compact.ids[request.first_block + request.block_count - 1];
      const auto next = static_cast<std::uint32_t>(compact.bound + tails.size());
      out.block_ids.push_back(tails.emplace(last * parts + tail, next).first->second);
    }
    request.block_count = static_cast<std::uint32_t>(out.block_ids.size() - first);
    request.first_block = request.block_count == 0 ? 0 : static_cast<std::uint32_t>(first);
    out.requests.push_back(request);
  }
  return out;
}

// Returns the index of `name` in `tenants` and adds it if necessary.
std::uint32_t tenant_index(std::vector<std::string>& tenants, const std::string& name) {
  const auto found = std::find(tenants.begin(), tenants.end(), name);
  if (found != tenants.end()) return static_cast<std::uint32_t>(found - tenants.begin());
  tenants.push_back(name);
  return static_cast<std::uint32_t>(tenants.size() - 1);
}

// Checks the total size; returns the name, block size and skipped rows of the result.
core::Result<Workload> joint_frame(const std::vector<Workload>& workloads) {
  Workload frame;
  frame.tenants.clear();
  std::uint64_t requests = 0;
  std::uint64_t blocks = 0;
  std::uint64_t bound = 0;
  std::uint64_t sessions = 0;
  const Workload* sized = nullptr;  // The first workload with block ids; others have no block size.
  for (const auto& workload : workloads) {
    frame.name += (frame.name.empty() ? "" : "+") + workload.name;
    frame.skipped_rows += workload.skipped_rows;
    frame.long_gaps.insert(frame.long_gaps.end(), workload.long_gaps.begin(), workload.long_gaps.end());
    requests += workload.requests.size();
    blocks += workload.block_ids.size();
    bound += compact_ids(workload).bound;
    sessions += session_bound(workload);
    if (workload.block_ids.empty()) continue;
    if (sized == nullptr) sized = &workload;
    if (workload.block_tokens != sized->block_tokens)
      return core::invalid_input(workload.name,
                                 fmt::format("has blocks of {} tokens, but {} has blocks of {}", workload.block_tokens,
                                             sized->name, sized->block_tokens),
                                 "give all of them blocks of one size");
  }
  const auto fits = check_size(frame.name, requests, blocks, bound, sessions);
  if (!fits) return tl::make_unexpected(fits.error());
  frame.block_tokens = (sized == nullptr ? workloads.front() : *sized).block_tokens;
  frame.requests.reserve(requests);
  frame.block_ids.reserve(blocks);
  return frame;
}

}  // namespace

core::Result<Workload> crop_window(const Workload& workload, core::Duration from, std::optional<core::Duration> to) {
  if (from < core::Duration{})
    return core::invalid_input(workload.name, "a window cannot begin before the workload does");
  const auto before = [](const Request& request, core::Duration time) {
    return request.arrival.time_since_epoch() < time;
  };
  const auto& requests = workload.requests;
  const auto first = std::lower_bound(requests.begin(), requests.end(), from, before);
  const auto last = to ? std::lower_bound(first, requests.end(), std::max(from, *to), before) : requests.end();
  if (first == last) {
    const auto end = to ? fmt::format("{:g} s", core::to_seconds(*to)) : std::string{"the end"};
    return core::invalid_input(workload.name,
                               fmt::format("no request arrives between {:g} s and {}", core::to_seconds(from), end),
                               fmt::format("the last one arrives at {:g} s", core::to_seconds(workload.span())));
  }
  Workload out = frame_of(workload);
  out.requests.reserve(static_cast<std::size_t>(last - first));
  for (auto request = first; request != last; ++request) {
    append(out, *request, workload.blocks_of(*request), 0);
    out.requests.back().arrival -= from;
  }
  if (workload.waits.empty()) return out;
  std::vector<std::uint32_t> places(requests.size(), kNoPlace);
  std::iota(places.begin() + (first - requests.begin()), places.begin() + (last - requests.begin()), 0U);
  append_waits(out, workload.waits, places);
  return out;
}

core::Result<Workload> merge(const std::vector<Workload>& workloads) {
  if (workloads.empty()) return core::invalid_input({}, "there are no workloads to merge");
  auto joint = joint_frame(workloads);
  if (!joint) return joint;
  Workload out = std::move(*joint);
  std::uint64_t ids_before = 0;
  std::uint64_t sessions_before = 0;
  for (const auto& workload : workloads) {
    std::vector<std::uint32_t> tenants;
    for (const auto& name : workload.tenants) tenants.push_back(tenant_index(out.tenants, name));
    const CompactIds compact = compact_ids(workload);
    std::vector<std::uint32_t> places(workload.waits.empty() ? 0 : workload.requests.size());
    std::iota(places.begin(), places.end(), static_cast<std::uint32_t>(out.requests.size()));
    append_waits(out, workload.waits, places);
    for (Request request : workload.requests) {
      const auto ids = std::span{compact.ids}.subspan(request.first_block, request.block_count);
      request.tenant = tenants[request.tenant];
      if (request.session != kNoSession) request.session += static_cast<std::uint32_t>(sessions_before);
      append(out, request, ids, ids_before);
    }
    ids_before += compact.bound;
    sessions_before += session_bound(workload);
  }
  sort_by_arrival(out);
  return out;
}

core::Result<Workload> reblock(const Workload& workload, std::uint32_t block_tokens) {
  if (block_tokens == workload.block_tokens) return workload;
  if (block_tokens != 0 && workload.block_ids.empty()) {
    Workload out = workload;
    out.block_tokens = block_tokens;
    return out;
  }
  if (block_tokens != 0 && workload.block_tokens % block_tokens == 0) return split_blocks(workload, block_tokens);
  if (block_tokens != 0 && block_tokens % workload.block_tokens == 0) return join_blocks(workload, block_tokens);
  return core::invalid_input(
      workload.name,
      fmt::format("blocks of {} tokens cannot be converted to blocks of {}", workload.block_tokens, block_tokens),
      "one size must divide the other");
}

}  // namespace penstock::workload
