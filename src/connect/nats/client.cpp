#include "connect/nats/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace penstock::connect {
namespace {

// An attempt has three times the time of a connection: for the look-up of the name, and for several addresses. libnats
// sets no limit to a TLS handshake.
constexpr int kAttemptTimes = 3;
constexpr std::size_t kGivenUpMax = 4;  // No further attempt begins while so many have not ended.

}  // namespace

NatsClient::NatsClient(net::Loop& loop, NatsEndpoint server, Listener listener, NatsOptions options)
    : loop_(loop),
      server_(std::move(server)),
      listener_(std::move(listener)),
      options_(std::move(options)),
      backoff_(options_.backoff) {
  timer_ = loop_.after(core::Duration{}, [this] { open(); });
}

NatsClient::~NatsClient() { loop_.cancel(timer_); }

core::Result<void> NatsClient::subscribe(const std::string& subject) {
  if (!is_nats_subject(subject)) return core::invalid_input(subject, "is not a subject of NATS");
  if (subjects_.contains(subject)) return {};
  if (subjects_.size() >= kSubjectsMax)
    return core::invalid_input(subject, fmt::format("is one subject too many, of at most {}", kSubjectsMax));
  subjects_.insert(subject);
  if (session_) session_->set_subjects(subjects_);
  return {};
}

void NatsClient::unsubscribe(const std::string& subject) {
  if (subjects_.erase(subject) > 0 && session_) session_->set_subjects(subjects_);
}

std::uint64_t NatsClient::dropped() const { return dropped_before_ + (session_ ? session_->dropped() : 0); }

void NatsClient::open() {
  timer_ = 0;
  std::erase_if(given_up_, [](const auto& thread) { return thread.expired(); });
  if (given_up_.size() >= kGivenUpMax) return fail("the server does not answer in time");
  session_.emplace(loop_, server_, options_, subjects_,
                   NatsSession::Listener{[this] {
                                           loop_.cancel(std::exchange(timer_, 0));
                                           is_connected_ = true;
                                           backoff_ = options_.backoff;
                                           report({});
                                         },
                                         [this](const std::string& cause) { report(cause); },
                                         [this](const std::string& cause) { fail(cause); },
                                         [this](const std::string& subject, std::string_view payload) {
                                           // Messages may be on their way after unsubscribe().
                                           if (subjects_.contains(subject)) listener_.message(subject, payload);
                                         }});
  timer_ = loop_.after(kAttemptTimes * options_.connect_time, [this] { give_up(); });
}

void NatsClient::give_up() {
  timer_ = 0;
  given_up_.push_back(session_->thread());
  fail("the server does not answer in time");
}

void NatsClient::fail(const std::string& cause) {
  loop_.cancel(std::exchange(timer_, 0));
  end_session();
  report(cause);
  timer_ = loop_.after(backoff_, [this] { open(); });
  backoff_ = std::min(options_.backoff_max, 2 * backoff_);
}

void NatsClient::end_session() {
  is_connected_ = false;
  if (!session_) return;
  dropped_before_ += session_->dropped();
  session_.reset();
}

void NatsClient::report(const std::string& cause) {
  if (reported_ == cause) return;
  reported_ = cause;
  if (listener_.report) listener_.report(cause);
}

}  // namespace penstock::connect
