#include "api/kv_transfer.h"

#include <nlohmann/json.hpp>

#include "api/request_parts.h"

namespace penstock::api {
namespace {

using JsonValue = nlohmann::json;
using core::Result;

Kind kind_of_value(const JsonValue& value) {
  switch (value.type()) {
    case JsonValue::value_t::null: return Kind::kNull;
    case JsonValue::value_t::boolean: return Kind::kBool;
    case JsonValue::value_t::string: return Kind::kString;
    case JsonValue::value_t::array: return Kind::kArray;
    case JsonValue::value_t::object: return Kind::kObject;
    default: return Kind::kNumber;
  }
}

Result<void> wrong(std::string_view where, std::string_view expected, const JsonValue& value) {
  return wrong_kind(where, expected, kind_of_value(value));
}

Result<void> read_flag(const JsonValue& value, std::string_view where, bool& flag) {
  if (!value.is_boolean()) return wrong(where, "a boolean", value);
  flag = value.get<bool>();
  return {};
}

Result<void> read_text(const JsonValue& value, std::string_view where, std::string& text) {
  if (!value.is_string()) return wrong(where, "a string", value);
  text = value.get<std::string>();
  if (text.empty()) return core::invalid_input(std::string{where}, "must not be empty");
  return {};
}

template <class Number>
Result<void> read_number(const JsonValue& value, std::string_view where, Number low, Number high, Number& number) {
  if (!value.is_number()) return wrong(where, "a whole number", value);
  return read_whole_number(value.dump(), where, low, high, number);
}

// Flat, or one array per group of layers.
Result<void> read_block_ids(const JsonValue& value, std::string_view where, std::vector<std::uint64_t>& ids) {
  if (!value.is_array()) return wrong(where, "an array", value);
  for (const JsonValue& element : value) {
    auto read = element.is_array() ? read_block_ids(element, where, ids)
                                   : read_number<std::uint64_t>(element, where, 0, UINT64_MAX, ids.emplace_back());
    if (!read) return read;
  }
  return {};
}

Result<void> read_field(std::string_view name, const JsonValue& value, KvTransfer& transfer) {
  if (value.is_null()) return {};
  if (name == "do_remote_decode") return read_flag(value, name, transfer.do_remote_decode);
  if (name == "do_remote_prefill") return read_flag(value, name, transfer.do_remote_prefill);
  if (name == "remote_engine_id") return read_text(value, name, transfer.remote_engine_id);
  if (name == "remote_host") return read_text(value, name, transfer.remote_host);
  if (name == "remote_port") return read_number(value, name, 0U, 65'535U, transfer.remote_port);
  if (name == "remote_block_ids") return read_block_ids(value, name, transfer.remote_block_ids);
  return {};
}

}  // namespace

core::Result<KvTransfer> read_kv_transfer(std::string_view json) {
  constexpr std::string_view kName = "kv_transfer_params";
  const JsonValue params = JsonValue::parse(json, nullptr, false);
  if (!params.is_object()) return wrong_kind(kName, "an object", kind_of(json));
  KvTransfer transfer;
  for (const auto& [name, value] : params.items())
    if (auto read = within("kv_transfer_params.", read_field(name, value, transfer)); !read)
      return tl::make_unexpected(read.error());
  return transfer;
}

}  // namespace penstock::api
