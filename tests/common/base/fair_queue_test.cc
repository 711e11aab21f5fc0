#include "common/base/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace outrider {
namespace {

using ::testing::ElementsAre;

using Queue = FairQueue<int>;

constexpr FairQueueLimits kRoomy{.max_tasks = 1000, .max_bytes = 1000, .running_per_client = 1};

int PopTask(Queue& queue) {
  const auto turn = queue.Pop();
  return turn.has_value() ? turn->task : -1;
}

TEST(FairQueue, ClientsTakeTurns) {
  Queue queue({.max_tasks = 100, .max_bytes = 100, .running_per_client = 10});
  for (const int task : {1, 2, 3}) ASSERT_TRUE(queue.Push("a", 1, task));
  ASSERT_TRUE(queue.Push("b", 1, 11));
  ASSERT_TRUE(queue.Push("c", 1, 21));
  std::vector<int> order;
  for (int task = PopTask(queue); task >= 0; task = PopTask(queue)) order.push_back(task);
  EXPECT_THAT(order, ElementsAre(1, 11, 21, 2, 3));
}

TEST(FairQueue, LimitsRunningItemsPerClient) {
  Queue queue(kRoomy);
  for (const int task : {1, 2}) ASSERT_TRUE(queue.Push("a", 1, task));
  EXPECT_EQ(PopTask(queue), 1);
  EXPECT_FALSE(queue.Pop().has_value()) << "one of a's runs";
  ASSERT_TRUE(queue.Push("b", 1, 11));
  EXPECT_EQ(PopTask(queue), 11);
  queue.Done("a");
  EXPECT_EQ(PopTask(queue), 2);
}

TEST(FairQueue, OneClientFillsAtMostHalf) {
  Queue tasks({.max_tasks = 4, .max_bytes = 1000, .running_per_client = 1});
  EXPECT_TRUE(tasks.Push("a", 1, 1) && tasks.Push("a", 1, 2));
  EXPECT_FALSE(tasks.Push("a", 1, 3));
  const auto ticket = tasks.Push("b", 1, 4);
  EXPECT_TRUE(ticket && tasks.Push("c", 1, 5));
  EXPECT_FALSE(tasks.Push("d", 1, 6)) << "full";
  EXPECT_EQ(tasks.Remove(*ticket), 4);
  EXPECT_FALSE(tasks.Remove(*ticket).has_value());
  EXPECT_TRUE(tasks.Push("d", 1, 6));

  Queue bytes({.max_tasks = 100, .max_bytes = 100, .running_per_client = 1});
  EXPECT_TRUE(bytes.Push("a", 80, 1)) << "more than half, but alone";
  EXPECT_FALSE(bytes.Push("a", 1, 2));
  EXPECT_TRUE(bytes.Push("b", 20, 3));
  EXPECT_FALSE(bytes.Push("c", 1, 4)) << "full";
  EXPECT_EQ(PopTask(bytes), 1);
  EXPECT_EQ(bytes.bytes(), 20u);
}

// Checks the header's guarantees: order within a client, turns, and the two bounds.
TEST(FairQueue, RandomWalkKeepsEveryPromise) {
  std::mt19937 random(7);
  Queue queue({.max_tasks = 12, .max_bytes = 60, .running_per_client = 2});
  struct Waiting {
    std::string client;
    uint64_t ticket;
    size_t bytes;
  };
  std::map<int, Waiting> waiting;  // by task, in ascending order
  std::map<std::string, int> running;
  for (int task = 0; task < 20000; ++task) {
    const std::string client(1, static_cast<char>('a' + random() % 5));
    const size_t bytes = random() % 12;
    switch (random() % 4) {
      case 0:
      case 1:
        if (const auto ticket = queue.Push(client, bytes, task)) {
          waiting[task] = {client, *ticket, bytes};
        }
        break;
      case 2:
        if (const auto turn = queue.Pop()) {
          ASSERT_EQ(waiting.at(turn->task).client, turn->client);
          for (const auto& [other, w] : waiting) {
            if (w.client == turn->client) {
              ASSERT_EQ(other, turn->task) << "out of order";
              break;
            }
          }
          ASSERT_LE(++running[turn->client], 2);
          waiting.erase(turn->task);
        } else {
          for (const auto& [other, w] : waiting) ASSERT_EQ(running[w.client], 2);
        }
        break;
      default:
        if (running[client] > 0) {
          --running[client];
          queue.Done(client);
        } else if (!waiting.empty()) {
          ASSERT_EQ(queue.Remove(waiting.begin()->second.ticket), waiting.begin()->first);
          waiting.erase(waiting.begin());
        }
    }
    size_t held = 0;
    for (const auto& [other, w] : waiting) held += w.bytes;
    ASSERT_EQ(queue.size(), waiting.size());
    ASSERT_EQ(queue.bytes(), held);
    ASSERT_TRUE(queue.size() <= 12 && held <= 60);
  }
  std::vector<int> rest;
  for (const auto& [task, w] : waiting) rest.push_back(task);
  EXPECT_EQ(queue.Clear(), rest);
  EXPECT_EQ(queue.bytes(), 0u);
}

}  // namespace
}  // namespace outrider
