#include "gateway/prompt_fit.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace penstock::gateway {
namespace {

// After this time the estimate decides, because the count is late.
constexpr core::Duration kCountWait = std::chrono::seconds{1};

// A prompt is truncated again if its new estimate or count exceeds the context, too.
constexpr std::uint32_t kTruncationsMax = 4;

}  // namespace

struct PromptFit::Uncounted {
  ReadRequest read;
  api::InferenceRequest request;
  std::vector<std::uint64_t> keys;
  Done done;
  net::Loop::Timer timer = 0;
};

void PromptFit::start(const RoutedArrival& arrival, const ReadRequest& read, const net::Exchange& exchange,
                      api::Endpoint endpoint, Done done) {
  if (arrival.count_prompt) return count(read, std::move(done));
  truncate(arrival, read, exchange, endpoint, std::move(done));
}

void PromptFit::truncate(const RoutedArrival& arrival, const ReadRequest& read, const net::Exchange& exchange,
                         api::Endpoint endpoint, Done done) {
  const auto finish = [this, read, &exchange, endpoint, prompt_tokens = arrival.prompt_tokens,
                       done = std::move(done)](std::optional<std::uint32_t> messages) {
    ReadRequest again = read;
    describe_prompt(context_, exchange, endpoint, again);
    if (messages) {
      truncated_messages_ += *messages;
      if (read.info.untruncated_prompt_tokens == 0) again.info.untruncated_prompt_tokens = prompt_tokens;
    } else {
      // A count of the prompt still holds.
      again.info.may_count_prompt = read.info.may_count_prompt;
      again.info.prompt_tokens_given = read.info.prompt_tokens_given;
    }
    again.info.may_truncate_prompt = messages && ++truncations_ < kTruncationsMax;
    done(again);
  };
  body_.truncate(endpoint, *arrival.prompt_excess, finish);
}

void PromptFit::count(const ReadRequest& read, Done done) {
  uncounted_ = std::make_shared<Uncounted>();
  uncounted_->read = read;
  uncounted_->done = std::move(done);
  std::swap(uncounted_->request, context_.scratch);
  std::swap(uncounted_->keys, context_.keys);
  body_.prepare_count([this, handle = uncounted_](std::string text) {
    if (uncounted_ != handle) return;
    handle->timer = context_.loop.after(kCountWait, [this, handle] { finish_count(handle, std::nullopt); });
    context_.count_prompt(
        {handle->request.model, std::move(text), [this, handle](std::optional<std::uint32_t> prompt_tokens) {
           context_.loop.post([this, handle, prompt_tokens] { finish_count(handle, prompt_tokens); });
         }});
  });
}

void PromptFit::cancel() {
  end_count();
  truncations_ = truncated_messages_ = 0;
}

void PromptFit::end_count() {
  if (uncounted_) context_.loop.cancel(uncounted_->timer);
  uncounted_.reset();
}

void PromptFit::finish_count(const Handle& uncounted, std::optional<std::uint32_t> prompt_tokens) {
  if (uncounted_ != uncounted) return;
  const Handle kept = uncounted;  // The timer that holds the argument is cancelled.
  end_count();
  guard_.run([&] {
    std::swap(kept->request, context_.scratch);
    std::swap(kept->keys, context_.keys);
    ReadRequest& read = kept->read;
    read.cache_salt = context_.settings->cache_salts[read.info.tenant];
    read.info.model = context_.scratch.model;
    read.info.keys = context_.keys;
    read.info.may_count_prompt = false;
    read.info.prompt_tokens_given = prompt_tokens.value_or(0);
    read.info.prompt_was_counted = prompt_tokens.has_value();
    kept->done(read);
  });
}

}  // namespace penstock::gateway
