#include "net/resolver.h"

#include <utility>

namespace penstock::net {

Resolver::Resolver(Loop& loop, Ask ask) : loop_(loop), ask_(std::move(ask)), thread_{[this] { work(); }} {}

Resolver::~Resolver() {
  {
    const std::scoped_lock lock{mutex_};
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Resolver::resolve(std::string host, std::uint16_t port, std::function<void(Addresses)> done) {
  {
    const std::scoped_lock lock{mutex_};
    questions_.push_back({std::move(host), port, std::move(done)});
  }
  wake_.notify_all();
}

void Resolver::work() {
  std::unique_lock lock{mutex_};
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !questions_.empty(); });
    if (stopping_) return;
    Question question = std::move(questions_.front());
    questions_.pop_front();
    lock.unlock();
    loop_.post([alive = std::weak_ptr<int>{alive_}, done = std::move(question.done),
                addresses = ask_(question.host, question.port)]() mutable {
      if (!alive.expired()) done(std::move(addresses));
    });
    lock.lock();
  }
}

}  // namespace penstock::net
