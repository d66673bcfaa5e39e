// Bytes of a client of the external scaler. With an even first byte they are a whole connection, cut into pieces of any
// size: the answers do not depend on the cuts, and nothing stays open. With an odd one they are a message.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "connect/keda/external_scaler.h"
#include "core/protobuf.h"
#include "net/loop.h"

namespace {

using namespace penstock;

void check(bool holds) {
  if (!holds) std::abort();
}

class World {
 public:
  World() : scaler_{loop_, listen(), [] { return pools(); }} {}

  // Returns the statuses of the calls.
  std::string send(std::string_view bytes, std::size_t step) {
    const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(::connect(client, reinterpret_cast<const sockaddr*>(&address_), length_) == 0);
    const auto before = scaler_.calls();
    turn();
    while (!bytes.empty()) {
      const ssize_t sent = ::send(client, bytes.data(), std::min(step, bytes.size()), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0) break;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      turn();
      read(client);
    }
    ::close(client);
    for (int i = 0; i < 10 && scaler_.connections() > 0; ++i) turn();
    check(scaler_.connections() == 0);
    std::string made;
    for (const auto& count : scaler_.calls()) {
      std::uint64_t earlier = 0;
      for (const auto& each : before)
        if (each.method == count.method && each.status == count.status) earlier = each.calls;
      if (count.calls > earlier)
        made.append(count.method).append(count.status).append(std::to_string(count.calls - earlier));
    }
    return made;
  }

 private:
  static std::vector<connect::RecommendedReplicas> pools() {
    return {{"chat", "llama", 3, {}}, {"other", {}, std::nullopt, "no data"}};
  }
  int listen() {
    const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address_.sun_family = AF_UNIX;
    check(::bind(listening, reinterpret_cast<sockaddr*>(&address_), sizeof(sa_family_t)) == 0);
    check(::listen(listening, 16) == 0);
    length_ = sizeof address_;
    check(::getsockname(listening, reinterpret_cast<sockaddr*>(&address_), &length_) == 0);
    return listening;
  }
  void turn() {
    for (int i = 0; i < 2; ++i) {
      loop_.after({}, [this] { loop_.stop(); });
      loop_.run();
    }
  }
  static void read(int client) {
    std::array<char, 65536> piece;
    while (::recv(client, piece.data(), piece.size(), MSG_DONTWAIT) > 0) continue;
  }

  net::Loop loop_;
  sockaddr_un address_{};
  socklen_t length_ = 0;
  connect::ExternalScaler scaler_;
};

void read_message(std::string_view message) {
  core::protobuf::Reader reader{message};
  while (const auto field = reader.next()) {
    check(field->number > 0);
    check(field->bytes.empty() ||
          (field->bytes.data() >= message.data() && field->bytes.end() <= message.data() + message.size()));
    core::protobuf::Writer writer;
    writer.varint(field->number, field->value);
    core::protobuf::Reader again{writer.message()};
    const auto same = again.next();
    check(same && same->number == field->number && same->value == field->value);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes{reinterpret_cast<const char*>(data) + 2, size - 2};
  if ((data[0] & 1) != 0) {
    read_message(bytes);
    return 0;
  }
  static World world;
  check(world.send(bytes, 60'000) == world.send(bytes, 1 + data[1] * std::size_t{4}));
  return 0;
}
