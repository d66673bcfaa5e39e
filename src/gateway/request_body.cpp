#include "gateway/request_body.h"

#include <memory>
#include <new>

#include "api/prompt_truncation.h"
#include "gateway/buffers.h"

namespace penstock::gateway {
namespace {

// Memory that the parser takes for a body, as a multiple of its size: an index of 32 bits for each byte, room for
// strings, and the text of the prompt.
constexpr std::size_t kParserFactor = 8;

}  // namespace

void RequestBody::take(net::Exchange& exchange) {
  exchange.take_body(body_);
  body_.pad();
}

std::optional<Refusal> RequestBody::charge_to(std::uint32_t tenant, net::Exchange& exchange) {
  tenant_ = tenant;
  net::MemoryAccount& account = *context_.accounts[tenant];
  exchange.charge_to(account);
  if (body_.charge_to(account)) return std::nullopt;
  ++context_.memory_refusals;
  return memory_refusal();
}

std::optional<Refusal> RequestBody::refusal_of(const core::Result<void>& parsed) {
  if (parsed) return std::nullopt;
  const core::Error& error = parsed.error();
  if (error.code != core::ErrorCode::kEnvironment) {
    // The field is the subject of the sentence.
    std::string message = error.where.empty() ? error.what : error.where + ' ' + error.what;
    if (!error.hint.empty()) message += "; " + error.hint;
    return make_refusal(400, "invalid_request_error", "invalid_request", std::move(message), error.where);
  }
  ++context_.memory_refusals;
  return memory_refusal();
}

bool RequestBody::take_settings(const ReadRequest& read) {
  const GatewayOptions& options = context_.settings->options;
  const dispatch::Tenant& tenant = options.dispatch.tenants[read.info.tenant];
  if (out_ == nullptr) out_ = std::make_unique<Outgoing>();
  out_->edit = std::move(context_.scratch.edit);
  out_->cache_salt = read.cache_salt;
  api::BodyChanges& changes = out_->changes;
  changes = {};
  changes.kept_controls = context_.settings->kept_controls;
  changes.cache_salt = out_->cache_salt;
  changes.include_usage = read.adds_usage;
  if (options.engine_priority && tenant.priority != 0) changes.priority = tenant.priority;
  return options.expose_routing == ExposeRouting::kAlways ||
         (options.expose_routing == ExposeRouting::kOperators && tenant.is_operator);
}

void RequestBody::offer_prefixes(const ReadRequest& read) const {
  HotPrefixCache* hot_prefixes = context_.dispatcher.hot_prefixes();
  // The texts of an isolated tenant warm no cache that others use.
  if (hot_prefixes != nullptr && read.cache_salt.empty())
    hot_prefixes->offer(context_.scratch, body_.view(), context_.keys, read.info.received_at);
}

void RequestBody::parse_elsewhere(api::Endpoint endpoint, std::function<void()> first, Parsed done) {
  large_ = std::make_unique<LargeBody>();
  large_->hold = net::MemoryHold{context_.settings->options.server.memory->unattributed()};
  const std::uint32_t key_tokens = context_.settings->options.dispatch.key_tokens;
  const auto work = [this, endpoint, key_tokens, first = std::move(first)] {
    if (!large_->hold.resize(kParserFactor * body_.size())) throw std::bad_alloc{};
    if (first) first();
    {
      api::RequestReader reader;
      large_->parsed = parse_body(reader, endpoint, body_, key_tokens, large_->request, large_->keys);
    }
    free_memory(large_->request.text);
    large_->hold.release();
  };
  run_elsewhere(work, [this, done = std::move(done)] {
    const std::unique_ptr<LargeBody> large = std::move(large_);
    std::swap(context_.scratch, large->request);
    std::swap(context_.keys, large->keys);
    done(refusal_of(large->parsed));
  });
}

std::optional<std::uint32_t> RequestBody::drop_oldest(api::Endpoint endpoint, const core::PromptExcess& excess) {
  const auto made = api::truncated_prompt(endpoint, body_.view(), excess);
  if (!made) return std::nullopt;
  net::Body shorter;
  if (!shorter.charge_to(*body_.account()) || !shorter.append(made->body)) throw std::bad_alloc{};
  shorter.pad();
  body_ = std::move(shorter);
  return made->messages;
}

void RequestBody::truncate(api::Endpoint endpoint, const core::PromptExcess& excess, Truncated done) {
  const auto messages = std::make_shared<std::optional<std::uint32_t>>();
  const auto drop = [this, endpoint, excess, messages] { *messages = drop_oldest(endpoint, excess); };
  const auto finish = [this, messages, done = std::move(done)](const std::optional<Refusal>& refusal) {
    if (refusal) throw std::bad_alloc{};  // The body was parsed before.
    out_->edit = std::move(context_.scratch.edit);
    done(*messages);
  };
  if (is_large()) return parse_elsewhere(endpoint, drop, finish);
  hold_copy();
  drop();
  changed_hold_.release();
  parse(endpoint, finish);
}

void RequestBody::hold_copy() {
  if (body_.size() <= net::ExchangeHandler::kAdmittedBytes) return;
  changed_hold_ = net::MemoryHold{*context_.accounts[tenant_]};
  if (!changed_hold_.resize(body_.size())) throw std::bad_alloc{};
}

void RequestBody::prepare(const ClientRequest& client, const RoutedGrant& grant, std::string kv_transfer_params,
                          std::function<void()> done) {
  is_released_ = was_waiting_ = false;
  if (body_.size() <= net::ExchangeHandler::kAdmittedBytes) {
    upstream().write_body(client, grant, kv_transfer_params);
    return done();
  }
  hold_copy();
  const auto write = [this, client, grant, params = std::move(kv_transfer_params)] {
    upstream().write_body(client, grant, params);
    static_cast<void>(changed_hold_.resize(upstream().changed_bytes()));
  };
  if (is_large()) return run_elsewhere(write, std::move(done));
  write();
  done();
}

void RequestBody::prepare_count(std::function<void(std::string)> done) {
  hold_copy();
  if (!is_large()) return done(api::tokenize_body(body_.view()));
  const auto made = std::make_shared<std::string>();
  run_elsewhere([this, made] { *made = api::tokenize_body(body_.view()); },
                [made, done = std::move(done)] { done(std::move(*made)); });
}

void RequestBody::run_elsewhere(std::function<void()> work, std::function<void()> done) {
  has_failed_ = false;
  ticket_ = context_.large_bodies.submit(tenant_, [this, work = std::move(work), done = std::move(done)] {
    try {
      work();
    } catch (const std::bad_alloc&) {
      has_failed_ = true;
    }
    context_.loop.post([this, done] { finish(done); });
  });
}

void RequestBody::finish(const std::function<void()>& done) {
  ticket_ = 0;
  if (released_) {
    clear(false);
    return std::exchange(released_, nullptr)();
  }
  guard_.run([&] {
    if (has_failed_) throw std::bad_alloc{};
    done();
  });
}

void RequestBody::release_if_last(Phase phase, dispatch::Ticket ticket, ReplicaCall& call) {
  if (!awaits_answer(phase) || is_released_ || body_.size() <= net::kUncountedBytesMax) return;
  if (!std::exchange(was_waiting_, true)) return;
  if (context_.front.is_proxy() && context_.dispatcher.may_retry(ticket, context_.loop.now())) return;
  is_released_ = call.release_request();
  if (is_released_) sent_for_the_last_time(true);
}

void RequestBody::sent_for_the_last_time(bool keep_memory) {
  body_.clear(keep_memory ? kKeptBytesMax : 0);
  if (keep_memory && out_ != nullptr)
    out_->upstream.clear();
  else
    out_.reset();
  changed_hold_.release();
}

void RequestBody::clear(bool keep_memory) {
  large_.reset();
  sent_for_the_last_time(keep_memory);
}

void RequestBody::release(bool keep_memory, std::function<void()> done) {
  if (ticket_ != 0 && !context_.large_bodies.cancel(tenant_, ticket_)) {
    released_ = std::move(done);
    return;
  }
  ticket_ = 0;
  clear(keep_memory);
  done();
}

}  // namespace penstock::gateway
