#include "load/request_writer.h"

#include <fmt/format.h>

#include <iterator>

#include "api/json_text.h"
#include "api/prompt_keys.h"
#include "load/prompt_text.h"

namespace penstock::load {

Message write_request(const Dialect& dialect, const RequestShape& shape, std::uint64_t number) {
  const bool chat = dialect.endpoint == api::Endpoint::kChatCompletions;
  Message message;
  std::string& body = message.body;
  body.reserve(std::size_t{shape.input_tokens} * api::kBytesPerToken + 512);
  body += R"({"model":)";
  api::append_json_string(body, dialect.model);
  fmt::format_to(std::back_inserter(body), R"(,"max_tokens":{},"stream":{})", shape.output_tokens, shape.stream);
  if (shape.stream) body += R"(,"stream_options":{"include_usage":true})";
  if (dialect.ignore_eos) body += R"(,"ignore_eos":true)";
  body += chat ? R"(,"messages":[{"role":"user","content":")" : R"(,"prompt":")";
  append_prompt(body, shape, dialect.seed, number);
  body += chat ? R"("}]})" : R"("})";

  const Sender& sender = dialect.senders[shape.tenant];
  message.head =
      fmt::format("POST {}{} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
                  dialect.path_prefix, api::path_of(dialect.endpoint), dialect.host_field, body.size());
  if (!sender.key.empty()) message.head += "Authorization: Bearer " + sender.key + "\r\n";
  if (dialect.send_class)
    message.head += shape.traffic_class == workload::TrafficClass::kBatch ? "X-Traffic-Class: batch\r\n"
                                                                          : "X-Traffic-Class: interactive\r\n";
  message.head += "\r\n";
  return message;
}

}  // namespace penstock::load
