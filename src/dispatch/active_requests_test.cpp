#include "dispatch/active_requests.h"

#include <gtest/gtest.h>

#include <set>

namespace penstock::dispatch {
namespace {

TEST(ActiveRequests, AreFoundByTheirTickets) {
  ActiveRequests active_requests;
  ActiveRequest& first = active_requests.add();
  ActiveRequest& second = active_requests.add();
  first.tenant = 1;
  second.tenant = 2;
  EXPECT_NE(first.ticket, 0U);
  EXPECT_EQ(active_requests.find(first.ticket)->tenant, 1U);
  EXPECT_EQ(active_requests.find(second.ticket)->tenant, 2U);
  EXPECT_EQ(active_requests.size(), 2U);
}

TEST(ActiveRequests, ATicketIsNeverUsedTwice) {
  ActiveRequests active_requests;
  std::set<Ticket> seen;
  for (int i = 0; i < 1000; ++i) {
    ActiveRequest& request = active_requests.add();
    EXPECT_TRUE(seen.insert(request.ticket).second);
    if (i % 3 != 0) active_requests.remove(request);
  }
  EXPECT_EQ(active_requests.size(), 334U);
}

TEST(ActiveRequests, AnEndedOneIsNotFoundAndLeavesNothingToTheNext) {
  ActiveRequests active_requests;
  ActiveRequest& request = active_requests.add();
  const Ticket ended = request.ticket;
  request.tenant = 7;
  request.keys = {1, 2, 3};
  request.granted = true;
  active_requests.remove(request);
  EXPECT_EQ(active_requests.find(ended), nullptr);
  const ActiveRequest& next = active_requests.add();
  EXPECT_EQ(next.tenant, 0U);
  EXPECT_TRUE(next.keys.empty());
  EXPECT_FALSE(next.granted);
  EXPECT_EQ(active_requests.find(ended), nullptr);
}

TEST(ActiveRequests, StrangeTicketsAreNotFound) {
  ActiveRequests active_requests;
  EXPECT_EQ(active_requests.find(0), nullptr);
  active_requests.add();
  for (const Ticket ticket : {Ticket{0}, Ticket{1}, Ticket{1} << 24 | 5, ~Ticket{0}})
    EXPECT_EQ(active_requests.find(ticket), nullptr);
}

}  // namespace
}  // namespace penstock::dispatch
