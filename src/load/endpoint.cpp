#include "load/endpoint.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "net/client.h"
#include "net/tls.h"
#include "options/values.h"

namespace penstock::load {
namespace {

constexpr core::Duration kAnswerTime = std::chrono::seconds{10};
constexpr std::uint64_t kContextTokensMax = 1'000'000'000;

core::Result<ServedModel> model_of(const net::FetchAnswer& answer, const std::string& name) {
  const bool is_refused = answer.status == 401 || answer.status == 403;
  if (answer.status != 200)
    return core::environment_error("/v1/models", fmt::format("status {}", answer.status),
                                   is_refused ? "give a valid key by --api-key or OPENAI_API_KEY" : "");
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  const nlohmann::json* entries = json.is_object() && json.contains("data") ? &json.at("data") : nullptr;
  for (const nlohmann::json& entry : entries != nullptr && entries->is_array() ? *entries : nlohmann::json::array()) {
    if (!entry.is_object() || !entry.contains("id") || !entry.at("id").is_string()) continue;
    ServedModel model{entry.at("id").get<std::string>(), 0};
    if (!name.empty() && model.id != name) continue;
    if (const auto length = entry.find("max_model_len"); length != entry.end() && length->is_number_unsigned())
      if (const auto tokens = length->get<std::uint64_t>(); tokens <= kContextTokensMax)
        model.context_tokens_max = static_cast<std::uint32_t>(tokens);
    return model;
  }
  return core::environment_error("/v1/models", "the answer names no model" + (name.empty() ? "" : " " + name));
}

}  // namespace

void add_endpoint(options::Table& table, EndpointOptions& made) {
  using namespace options;
  table.add({"", "--model", "model of the requests"}, text(made.model))
      .placeholder("NAME")
      .by_default("the first of /v1/models");
  table.add({"", "--api-key", "sent as a bearer token"}, word(made.api_key, kApiKeyBytesMax))
      .placeholder("KEY")
      .by_default("the variable OPENAI_API_KEY");
  table.add({"", "--tls-ca", "certificates that are trusted, for https"}, text(made.tls_ca))
      .placeholder("FILE")
      .by_default("the system's");
}

core::Result<net::Url> parse_endpoint(const std::string& url) {
  auto parsed = net::parse_url(url);
  if (parsed && (parsed->path == "/v1" || parsed->path.ends_with("/v1"))) parsed->path.resize(parsed->path.size() - 3);
  return parsed;
}

core::Result<std::string> api_key_of(const EndpointOptions& options, const options::Arguments& given) {
  const char* variable = std::getenv("OPENAI_API_KEY");
  if (variable == nullptr || given.has("--api-key")) return options.api_key;
  std::string key = variable;
  if (const auto word = options::parse_word(key, options::kApiKeyBytesMax); !word && !key.empty())
    return core::invalid_input("OPENAI_API_KEY", word.error().what);
  return key;
}

core::Result<void> find_server(const net::Url& url, const EndpointOptions& options, GeneratorOptions& generator) {
  if (auto numeric = net::Address::parse(url.host, url.port)) {
    generator.address = *numeric;
  } else {
    auto resolved = net::Address::resolve(url.host, url.port);
    if (!resolved) return tl::make_unexpected(resolved.error());
    generator.address = resolved->front();
  }
  if (!url.tls) return {};
  auto tls = net::TlsContext::client(options.tls_ca);
  if (!tls) return tl::make_unexpected(tls.error());
  generator.tls = *std::move(tls);
  generator.tls_host = url.host;
  return {};
}

core::Result<net::FetchAnswer> get_from_server(net::Loop& loop, net::Client& client, const GeneratorOptions& generator,
                                               std::string_view path) {
  const std::string& key = generator.dialect.senders.front().key;
  net::FetchRequest request;
  request.call.address = generator.address;
  request.call.tls = generator.tls;
  request.call.host = generator.tls_host;
  request.call.head_time = request.call.silence = kAnswerTime;
  request.host_field = generator.dialect.host_field;
  request.target = generator.dialect.path_prefix + std::string{path};
  const std::string authorization = "Bearer " + key;
  if (!key.empty()) request.fields.push_back({"Authorization", authorization});
  core::Result<net::FetchAnswer> result;
  net::fetch(client, std::move(request), [&](core::Result<net::FetchAnswer> answer) {
    result = std::move(answer);
    loop.stop();
  });
  loop.run();
  return result;
}

core::Result<ServedModel> request_model(net::Loop& loop, const GeneratorOptions& generator, const std::string& name) {
  net::Client client{loop};
  auto model = get_from_server(loop, client, generator, "/v1/models").and_then([&](const net::FetchAnswer& answer) {
    return model_of(answer, name);
  });
  if (!model) {
    core::Error error = model.error();
    // The place is a path, or the address itself.
    error.where = generator.dialect.host_field + (error.where.starts_with('/') ? " " + error.where : "");
    if (error.hint.empty()) error.hint = "name the model with --model if the server does not list its models";
    return tl::make_unexpected(std::move(error));
  }
  return model;
}

}  // namespace penstock::load
