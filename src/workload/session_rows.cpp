#include "workload/session_rows.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "workload/line_reader.h"

namespace penstock::workload {
namespace {

namespace dom = simdjson::dom;

constexpr std::size_t kSessionRequestsMax = 1'000'000;  // Of a session.
constexpr double kSessionSecondsMax = 1e9;
constexpr std::uint64_t kSessionBlockTokensMax = 1'000'000;

Parsed<core::Duration> session_seconds(dom::object entry, const char* key, double scale = 1.0) {
  double value = 0.0;
  const auto found = entry[key];
  if (found.error() == simdjson::NO_SUCH_FIELD || found.is_null()) return core::Duration{};
  if (found.get_double().get(value) != simdjson::SUCCESS) return wrong(fmt::format("{} is not a number", key));
  value *= scale;
  if (!(value >= 0.0 && value <= kSessionSecondsMax))
    return wrong(fmt::format("{} is {:g} s, must be from 0 to {:g}", key, value, kSessionSecondsMax));
  return core::from_seconds(value);
}

Parsed<std::uint32_t> session_tokens(dom::object entry, const char* key) {
  std::uint64_t tokens = 0;
  if (entry[key].get_uint64().get(tokens) != simdjson::SUCCESS || tokens > kTokensMax)
    return wrong(fmt::format("{} is not a whole number from 0 to {}", key, kTokensMax));
  return static_cast<std::uint32_t>(tokens);
}

}  // namespace

class SessionParser::Reader {
 public:
  explicit Reader(std::optional<core::Duration> think_time_max) : think_time_max_{think_time_max} {}

  Parsed<Session> read(std::string_view line) {
    ends_.clear();
    dom::object document;
    dom::array requests;
    if (parser_.parse(line.data(), line.size(), false).get_object().get(document) != simdjson::SUCCESS)
      return wrong("is not one JSON object");
    session_ = {};
    std::string_view id;
    if (document["id"].get_string().get(id) == simdjson::SUCCESS) session_.id = id;
    if (session_.id.size() > kNameBytesMax) return wrong(fmt::format("id has more than {} bytes", kNameBytesMax));
    if (const auto size = document["block_size"]; size.error() == simdjson::SUCCESS) {
      std::uint64_t tokens = 0;
      if (size.get_uint64().get(tokens) != simdjson::SUCCESS || tokens == 0 || tokens > kSessionBlockTokensMax)
        return wrong(fmt::format("block_size is not a whole number from 1 to {}", kSessionBlockTokensMax));
      session_.block_tokens = static_cast<std::uint32_t>(tokens);
    }
    if (document["requests"].get_array().get(requests) != simdjson::SUCCESS) return wrong("has no list of requests");
    if (auto good = read_conversation(requests); !good) return wrong(good.error());
    return std::move(session_);
  }

 private:
  // The request before the next one of the main conversation, and the subagents since.
  struct Conversation {
    std::optional<std::uint32_t> last;
    core::Duration last_end{};                                        // As estimated.
    core::Duration recorded_end{};                                    // As recorded.
    std::vector<std::pair<std::uint32_t, core::Duration>> subagents;  // Their last request and how long they took.
  };

  Parsed<void> read_conversation(dom::array requests) {
    Conversation conversation;
    std::size_t number = 0;
    for (const dom::element element : requests) {
      ++number;
      const auto in_place = [&](const std::string& what) {
        return wrong(fmt::format("requests[{}]: {}", number - 1, what));
      };
      dom::object entry;
      if (element.get_object().get(entry) != simdjson::SUCCESS) return in_place("is not an object");
      std::string_view type;
      if (entry["type"].get_string().get(type) != simdjson::SUCCESS) type = "s";
      auto good = type == "subagent" ? read_subagent(entry, conversation) : read_turn(entry, type, conversation);
      if (!good) return in_place(good.error());
    }
    return {};
  }

  [[nodiscard]] core::Duration think(core::Duration recorded) const {
    return think_time_max_ ? std::min(recorded, *think_time_max_) : recorded;
  }

  // Appends a request that waits for `waits_for`, or arrives at `at` without one. Returns when it ends, as estimated.
  Parsed<core::Duration> append(dom::object entry, std::string_view type, core::Duration at,
                                std::vector<SessionRequest::Previous> waits_for) {
    if (session_.requests.size() == kSessionRequestsMax)
      return wrong(fmt::format("is the {}th request", kSessionRequestsMax + 1));
    if (at > std::chrono::seconds{kTimeMaxS} / 2) return wrong("is too long after the start of the session");
    SessionRequest request;
    const auto input = session_tokens(entry, "in"), output = session_tokens(entry, "out");
    const auto answer = session_seconds(entry, "api_time");
    if (!input) return wrong(input.error());
    if (!output) return wrong(output.error());
    if (!answer) return wrong(answer.error());
    request.at = at;
    request.input_tokens = *input;
    request.output_tokens = *output;
    request.streamed = type != "n";
    request.waits_for = std::move(waits_for);
    if (auto good = read_hash_ids(entry, request); !good) return wrong(good.error());
    session_.requests.push_back(std::move(request));
    return at + *answer;
  }

  Parsed<void> read_hash_ids(dom::object entry, SessionRequest& request) const {
    dom::array ids;
    const auto found = entry["hash_ids"];
    if (found.error() == simdjson::NO_SUCH_FIELD) return {};
    if (found.get_array().get(ids) != simdjson::SUCCESS) return wrong("hash_ids is not a list");
    const std::uint64_t tokens = std::uint64_t{request.input_tokens} + request.output_tokens;
    const std::uint64_t most = (tokens + session_.block_tokens - 1) / session_.block_tokens;
    for (const dom::element element : ids) {
      std::uint64_t id = 0;
      if (element.get_uint64().get(id) != simdjson::SUCCESS || id > UINT32_MAX)
        return wrong("hash_ids holds a value that is not a whole number of 32 bits");
      if (request.hash_ids.size() == most)
        return wrong(fmt::format("hash_ids holds more than {} ids for {} tokens", most, tokens));
      request.hash_ids.push_back(id);
    }
    return {};
  }

  Parsed<void> read_turn(dom::object entry, std::string_view type, Conversation& conversation) {
    const auto at = session_seconds(entry, "t"), thought = session_seconds(entry, "think_time");
    const auto answer = session_seconds(entry, "api_time");
    if (!at) return wrong(at.error());
    if (!thought) return wrong(thought.error());
    if (!answer) return wrong(answer.error());
    std::vector<SessionRequest::Previous> waits;
    core::Duration arrival = conversation.last ? core::Duration{} : *at;
    for (const auto& [last, took] : conversation.subagents)
      if (took <= *thought || !conversation.last) waits.push_back({last, think(*thought - std::min(*thought, took))});
    if (waits.empty() && conversation.last) waits.push_back({*conversation.last, think(*thought)});
    for (const auto& wait : waits) arrival = std::max(arrival, ends_[wait.index] + wait.after);
    const auto end = append(entry, type, arrival, std::move(waits));
    if (!end) return wrong(end.error());
    ends_.push_back(*end);
    conversation = {static_cast<std::uint32_t>(session_.requests.size() - 1), *end, *at + *answer, {}};
    return {};
  }

  // Its requests follow each other.
  Parsed<void> read_subagent(dom::object entry, Conversation& conversation) {
    dom::array requests;
    const auto ended = session_seconds(entry, "t"), took = session_seconds(entry, "duration_ms", 1e-3);
    if (!ended) return wrong(ended.error());
    if (!took) return wrong(took.error());
    if (entry["requests"].get_array().get(requests) != simdjson::SUCCESS) return wrong("has no list of requests");
    const core::Duration started = *ended - std::min(*ended, *took);
    std::optional<std::uint32_t> last = conversation.last;
    core::Duration after =
        conversation.last ? think(started - std::min(started, conversation.recorded_end)) : core::Duration{};
    core::Duration arrival = conversation.last ? conversation.last_end + after : started;
    for (const dom::element element : requests) {
      dom::object turn;
      if (element.get_object().get(turn) != simdjson::SUCCESS) return wrong("requests holds what is not an object");
      std::string_view type;
      if (turn["type"].get_string().get(type) != simdjson::SUCCESS) type = "s";
      if (type == "subagent") return wrong("a subagent holds another one");
      if (last != conversation.last) {
        const auto thought = session_seconds(turn, "think_time");
        if (!thought) return wrong(thought.error());
        after = think(*thought);
        arrival = ends_[*last] + after;
      }
      std::vector<SessionRequest::Previous> waits;
      if (last) waits.push_back({*last, after});
      const auto end = append(turn, type, arrival, std::move(waits));
      if (!end) return wrong(end.error());
      ends_.push_back(*end);
      last = static_cast<std::uint32_t>(session_.requests.size() - 1);
    }
    if (last && last != conversation.last) conversation.subagents.emplace_back(*last, *took);
    return {};
  }

  std::optional<core::Duration> think_time_max_;
  dom::parser parser_;
  Session session_;
  std::vector<core::Duration> ends_;  // Of the requests, as estimated.
};

SessionParser::SessionParser(std::optional<core::Duration> think_time_max)
    : reader_{std::make_unique<Reader>(think_time_max)} {}
SessionParser::~SessionParser() = default;

Parsed<Session> SessionParser::parse(std::string_view line) { return reader_->read(line); }

}  // namespace penstock::workload
