#include "net/resolver.h"

#include <utility>

namespace penstock::net {

Resolver::Resolver(Loop& loop, Lookup lookup) : loop_(loop), lookup_(std::move(lookup)), thread_{[this] { work(); }} {}

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
    queries_.push_back({std::move(host), port, std::move(done)});
  }
  wake_.notify_all();
}

void Resolver::work() {
  std::unique_lock lock{mutex_};
  for (;;) {
    wake_.wait(lock, [this] { return stopping_ || !queries_.empty(); });
    if (stopping_) return;
    Query query = std::move(queries_.front());
    queries_.pop_front();
    lock.unlock();
    loop_.post([alive = std::weak_ptr<int>{alive_}, done = std::move(query.done),
                addresses = lookup_(query.host, query.port)]() mutable {
      if (!alive.expired()) done(std::move(addresses));
    });
    lock.lock();
  }
}

}  // namespace penstock::net
