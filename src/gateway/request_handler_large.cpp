// Large bodies, which other threads parse and change, and requests for which there is no memory.
#include <exception>
#include <utility>

#include "gateway/buffers.h"
#include "gateway/request_handler.h"

namespace penstock::gateway {
namespace {

// Memory that the parser takes for a body, as a multiple of its size: an index of 32 bits for each byte, room for
// strings, and the text of the prompt.
constexpr std::size_t kParserFactor = 8;

}  // namespace

void RequestHandler::read_elsewhere(const ReadRequest& read) {
  large_ = std::make_unique<LargeBody>();
  large_->read = read;
  large_->hold = net::MemoryHold{context_.settings->options.server.memory->unattributed()};
  const std::uint32_t key_tokens = context_.settings->options.dispatch.key_tokens;
  const auto work = [this, key_tokens] {
    if (!large_->hold.resize(kParserFactor * body_.size())) throw std::bad_alloc{};
    {
      api::RequestReader reader;
      large_->parsed = parse_body(reader, endpoint_, body_, key_tokens, large_->request, large_->keys);
    }
    large_->text_bytes = large_->request.text.size();
    free_memory(large_->request.text);
    large_->hold.release();
  };
  run_elsewhere(work, [this] {
    const std::unique_ptr<LargeBody> large = std::move(large_);
    std::swap(context_.scratch, large->request);
    std::swap(context_.keys, large->keys);
    finish_reading(large->parsed, large->text_bytes, large->read);
  });
}

void RequestHandler::prepare(std::string kv_transfer_params) {
  attempt_open_ = true;
  const ClientRequest client = client_request();
  if (body_.size() <= net::ExchangeHandler::kAdmittedBytes) {
    upstream_.write_body(client, grant_, kv_transfer_params);
    return attempt();
  }
  // The body that is sent may be a changed copy.
  changed_hold_ = net::MemoryHold{*context_.accounts[tenant_]};
  if (!changed_hold_.resize(body_.size())) return out_of_memory();
  const auto write = [this, client, grant = grant_, params = std::move(kv_transfer_params)] {
    upstream_.write_body(client, grant, params);
    static_cast<void>(changed_hold_.resize(upstream_.changed_bytes()));
  };
  if (body_.size() <= net::ExchangeHandler::kLargeBytes) {
    write();
    return attempt();
  }
  enter(grant_.prefill_only ? Phase::kPrefilling : Phase::kConnecting);
  run_elsewhere(write, [this] { attempt(); });
}

void RequestHandler::run_elsewhere(std::function<void()> work, std::function<void()> next) {
  elsewhere_failed_ = false;
  elsewhere_ = context_.large_bodies.submit(tenant_, [this, work = std::move(work), next = std::move(next)] {
    try {
      work();
    } catch (const std::bad_alloc&) {
      elsewhere_failed_ = true;
    }
    context_.loop.post([this, next] { finish_elsewhere(next); });
  });
}

void RequestHandler::finish_elsewhere(const std::function<void()>& next) {
  elsewhere_ = 0;
  if (exchange_ == nullptr) return recycle();
  guard_.run([&] { elsewhere_failed_ ? out_of_memory() : next(); });
}

void RequestHandler::out_of_memory() {
  if (exchange_ == nullptr) return;
  ++context_.memory_refusals;
  call_.cancel();
  context_.waiting.erase(ticket_);
  const bool begun = has_begun(phase_);
  end(ledger::Outcome::kFailed);
  if (begun) return release().abort();
  net::Exchange& exchange = *exchange_;
  try {
    refuse_request(memory_refusal());
  } catch (const std::bad_alloc&) {
    if (exchange_ != nullptr) static_cast<void>(release());
    exchange.abort();
  }
}

}  // namespace penstock::gateway
