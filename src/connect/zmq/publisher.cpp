#include "connect/zmq/publisher.h"

#include <fmt/format.h>

#include <array>
#include <zmq.hpp>

namespace penstock::connect {
namespace {

class ZmqPublisher final : public Publisher {
 public:
  core::Result<void> open(const PublisherOptions& options) {
    const bool is_ipv6 = options.address.find(':') != std::string::npos;
    const bool needs_brackets = is_ipv6 && !options.address.starts_with('[');
    const std::string wanted =
        fmt::format("tcp://{}{}{}:{}", needs_brackets ? "[" : "", options.address, needs_brackets ? "]" : "",
                    options.port == 0 ? "*" : std::to_string(options.port));
    try {
      socket_ = zmq::socket_t(context_, zmq::socket_type::pub);
      socket_.set(zmq::sockopt::sndhwm, options.high_water_mark);
      // Messages that were not delivered when the socket closes are discarded.
      socket_.set(zmq::sockopt::linger, 0);
      socket_.set(zmq::sockopt::ipv6, is_ipv6);
      socket_.bind(wanted);
      endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
    } catch (const zmq::error_t& error) {
      return core::environment_error(wanted, fmt::format("cannot be bound: {}", error.what()),
                                     error.num() == EADDRINUSE ? "take another port, or 0 for any" : "");
    }
    unsigned port = 0;
    for (const char c : endpoint_.substr(endpoint_.rfind(':') + 1)) port = port * 10 + static_cast<unsigned>(c - '0');
    port_ = static_cast<std::uint16_t>(port);
    return {};
  }

  bool send(std::string_view topic, std::string_view payload) override {
    std::array<char, 8> number{};
    for (std::size_t i = 0; i < number.size(); ++i) number[i] = static_cast<char>(next_ >> (56 - 8 * i) & 0xff);
    ++next_;
    const bool done = send_frame(topic, zmq::send_flags::sndmore) &&
                      send_frame({number.data(), number.size()}, zmq::send_flags::sndmore) &&
                      send_frame(payload, zmq::send_flags::none);
    ++(done ? sent_ : dropped_);
    return done;
  }

  [[nodiscard]] const std::string& endpoint() const override { return endpoint_; }
  [[nodiscard]] std::uint16_t port() const override { return port_; }
  [[nodiscard]] std::uint64_t sent() const override { return sent_; }
  [[nodiscard]] std::uint64_t dropped() const override { return dropped_; }

 private:
  bool send_frame(std::string_view frame, zmq::send_flags flags) {
    try {
      return socket_.send(zmq::buffer(frame), flags | zmq::send_flags::dontwait).has_value();
    } catch (const zmq::error_t&) {
      return false;  // The caller counts the failure; the socket stays usable.
    }
  }

  zmq::context_t context_;
  zmq::socket_t socket_;  // Declared after its context, so that it is destroyed first.
  std::string endpoint_;
  std::uint16_t port_ = 0;
  std::uint64_t next_ = 0, sent_ = 0, dropped_ = 0;
};

}  // namespace

core::Result<std::unique_ptr<Publisher>> Publisher::bind(const PublisherOptions& options) {
  auto publisher = std::make_unique<ZmqPublisher>();
  if (const auto opened = publisher->open(options); !opened) return tl::make_unexpected(opened.error());
  return publisher;
}

}  // namespace penstock::connect
