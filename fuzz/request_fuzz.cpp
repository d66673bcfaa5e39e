// Bodies of requests: what is taken is JSON to another parser, too, and what is sent on for it reads as it was but for
// the fields that were meant.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "api/kv_transfer.h"
#include "api/prompt_truncation.h"
#include "api/request.h"

namespace {

using namespace penstock;

bool is_json(std::string_view body) {
  try {
    return nlohmann::json::parse(body).is_object();
  } catch (const nlohmann::json::out_of_range&) {
    return true;  // a number that no double holds
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

void expect(bool holds) {
  if (!holds) std::abort();
}

bool same_prompt(const api::InferenceRequest& a, const api::InferenceRequest& b) {
  return a.model == b.model && a.text == b.text && a.choices == b.choices && a.stop == b.stop && a.user == b.user;
}

// What is left of a prompt is a shorter one that may be truncated again, until nothing more may be dropped.
void truncate(api::RequestReader& reader, const api::InferenceRequest& request, std::string_view body, double bytes) {
  if (!api::can_truncate(request)) return;
  const auto made = api::truncated_prompt(request.endpoint, body, {bytes, 1.0, 1.0});
  if (!made) return;
  api::InferenceRequest shorter;
  expect(reader.read(request.endpoint, made->body, shorter) && api::can_truncate(shorter));
  expect(made->body.size() < body.size() && !shorter.text.empty());
  const bool is_chat = request.endpoint == api::Endpoint::kChatCompletions;
  expect(is_chat ? made->messages > 0 : made->messages == 0 && request.text.ends_with(shorter.text));
  expect(shorter.size.text_bytes + shorter.size.rendered_bytes < request.size.text_bytes + request.size.rendered_bytes);
  expect(shorter.model == request.model && shorter.max_tokens == request.max_tokens && shorter.stop == request.stop);
  truncate(reader, shorter, made->body, 2.0 * bytes);
}

void follow(api::RequestReader& reader, api::Endpoint endpoint, std::string_view body) {
  api::InferenceRequest request;
  if (const auto read = reader.read(endpoint, body, request); !read) return expect(!read.error().what.empty());
  expect(is_json(body) && !request.model.empty() && body.at(request.edit.object_end) == '}');
  expect(request.choices >= 1 && request.choices <= api::kChoicesMax && request.stop.size() <= api::kStopsMax);

  if (!request.kv_transfer_params.empty()) static_cast<void>(api::read_kv_transfer(request.kv_transfer_params));
  api::InferenceRequest other;
  if (!api::traits_of(endpoint).splits) return;
  for (const double bytes : {1.0, 40.0, 1e6}) truncate(reader, request, body, bytes);
  api::BodyChanges changes;
  changes.max_tokens = 77;
  changes.priority = 5;
  changes.cache_salt = "salt";
  std::string changed;
  expect(api::append_changed_body(changed, body, endpoint, request.edit, changes));
  expect(reader.read(endpoint, changed, other) && same_prompt(request, other) && other.max_tokens == 77U);
  expect(other.priority == 5 && other.cache_salt == "salt" && other.edit.controls.size() == 2);
  expect(other.stream == request.stream && other.include_usage == request.include_usage);
  const auto document = nlohmann::json::parse(changed, nullptr, false);
  if (document.is_object() && document.contains("min_tokens") && document["min_tokens"].is_number())
    expect(document["min_tokens"].get<double>() <= 77.0);

  const auto prefill = api::prefill_body(body);
  expect(prefill && reader.read(endpoint, *prefill, other) && same_prompt(request, other) && other.max_tokens == 1U);
  const auto kept = api::read_kv_transfer(other.kv_transfer_params);
  expect(!other.stream && kept && kept->do_remote_decode);

  const auto decode = api::decode_body(body, R"({"do_remote_prefill":true,"remote_block_ids":[5]})");
  expect(decode && reader.read(endpoint, *decode, other) && same_prompt(request, other));
  expect(other.max_tokens == request.max_tokens && other.stream == request.stream);
  const auto fetched = api::read_kv_transfer(other.kv_transfer_params);
  expect(fetched && fetched->do_remote_prefill && fetched->remote_block_ids.size() == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body{reinterpret_cast<const char*>(data), size};
  api::RequestReader reader;
  for (const api::Endpoint endpoint : api::kEndpoints) follow(reader, endpoint, body);
  if (const auto prefill = api::prefill_body(body)) expect(api::prefill_body(*prefill).has_value());
  static_cast<void>(api::kv_transfer_params_of(body));
  return 0;
}
