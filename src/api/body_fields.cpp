#include "api/body_fields.h"

#include <simdjson.h>
#include <utility>

#include "api/json_text.h"

namespace penstock::api {
namespace {

namespace ondemand = simdjson::ondemand;
using core::invalid_input;
using core::Result;

Result<std::string_view> bytes_of(ondemand::value value) {
  const std::string_view token = value.raw_json_token();
  std::string_view bytes = token;
  simdjson::error_code error = simdjson::SUCCESS;
  if (token.front() == '{') {
    ondemand::object object;
    error = value.get_object().get(object);
    if (error == simdjson::SUCCESS) error = object.raw_json().get(bytes);
  } else if (token.front() == '[') {
    ondemand::array array;
    error = value.get_array().get(array);
    if (error == simdjson::SUCCESS) error = array.raw_json().get(bytes);
  } else if (token.front() == '"') {
    // Otherwise the string would be accepted as a key if a colon follows.
    error = value.get_raw_json_string().error();
  }
  bytes = without_space_behind(bytes);
  if (error != simdjson::SUCCESS || kind_of(bytes) == Kind::kNone)
    return invalid_input("", "the value is not valid JSON");
  return bytes;
}

}  // namespace

core::Result<std::vector<FieldLocation>> fields_of(std::string_view body) {
  const auto not_object = [] { return invalid_input("", "the body is not a JSON object"); };
  if (body.size() > kBodyBytesMax) return not_object();
  const simdjson::padded_string padded{body};
  ondemand::parser parser;
  ondemand::document document;
  ondemand::object object;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return not_object();
  if (document.get_object().get(object) != simdjson::SUCCESS) return not_object();
  std::vector<FieldLocation> fields;
  for (auto entry : object) {
    ondemand::field field;
    if (std::move(entry).get(field) != simdjson::SUCCESS) return not_object();
    FieldLocation location;
    location.begin = static_cast<std::size_t>(field.key().raw() - 1 - padded.data());
    std::string_view name;
    if (field.unescaped_key().get(name) != simdjson::SUCCESS) return not_object();
    location.name = name;
    const auto bytes = bytes_of(field.value());
    if (!bytes) return not_object();
    location.value = static_cast<std::size_t>(bytes->data() - padded.data());
    location.end = location.value + bytes->size();
    fields.push_back(std::move(location));
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) return not_object();
  return fields;
}

core::Result<std::vector<Location>> elements_of(std::string_view array) {
  const auto not_array = [] { return invalid_input("", "the value is not a JSON array"); };
  if (array.size() > kBodyBytesMax) return not_array();
  const simdjson::padded_string padded{array};
  ondemand::parser parser;
  ondemand::document document;
  ondemand::array elements;
  if (parser.iterate(padded).get(document) != simdjson::SUCCESS) return not_array();
  if (document.get_array().get(elements) != simdjson::SUCCESS) return not_array();
  std::vector<Location> found;
  for (auto entry : elements) {
    ondemand::value value;
    if (std::move(entry).get(value) != simdjson::SUCCESS) return not_array();
    const auto bytes = bytes_of(value);
    if (!bytes) return not_array();
    found.push_back({static_cast<std::size_t>(bytes->data() - padded.data()), bytes->size()});
  }
  if (document.current_location().error() != simdjson::OUT_OF_BOUNDS) return not_array();
  return found;
}

}  // namespace penstock::api
