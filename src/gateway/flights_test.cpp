#include "gateway/flights.h"

#include <gtest/gtest.h>

#include <set>

namespace penstock::gateway {
namespace {

TEST(Flights, AreFoundByTheirTickets) {
  Flights flights;
  Flight& first = flights.add();
  Flight& second = flights.add();
  first.tenant = 1;
  second.tenant = 2;
  EXPECT_NE(first.ticket, 0U);
  EXPECT_EQ(flights.find(first.ticket)->tenant, 1U);
  EXPECT_EQ(flights.find(second.ticket)->tenant, 2U);
  EXPECT_EQ(flights.size(), 2U);
}

TEST(Flights, ATicketIsNeverUsedTwice) {
  Flights flights;
  std::set<Ticket> seen;
  for (int i = 0; i < 1000; ++i) {
    Flight& flight = flights.add();
    EXPECT_TRUE(seen.insert(flight.ticket).second);
    if (i % 3 != 0) flights.remove(flight);
  }
  EXPECT_EQ(flights.size(), 334U);
}

TEST(Flights, AnEndedOneIsNotFoundAndLeavesNothingToTheNext) {
  Flights flights;
  Flight& flight = flights.add();
  const Ticket ended = flight.ticket;
  flight.tenant = 7;
  flight.keys = {1, 2, 3};
  flight.granted = true;
  flights.remove(flight);
  EXPECT_EQ(flights.find(ended), nullptr);
  const Flight& next = flights.add();
  EXPECT_EQ(next.tenant, 0U);
  EXPECT_TRUE(next.keys.empty());
  EXPECT_FALSE(next.granted);
  EXPECT_EQ(flights.find(ended), nullptr);
}

TEST(Flights, StrangeTicketsAreNotFound) {
  Flights flights;
  EXPECT_EQ(flights.find(0), nullptr);
  flights.add();
  for (const Ticket ticket : {Ticket{0}, Ticket{1}, Ticket{1} << 24 | 5, ~Ticket{0}})
    EXPECT_EQ(flights.find(ticket), nullptr);
}

}  // namespace
}  // namespace penstock::gateway
