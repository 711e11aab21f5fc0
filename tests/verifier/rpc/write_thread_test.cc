#include "verifier/rpc/write_thread.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

namespace outrider {
namespace {

TEST(WriteThread, RunsInOrderOnOwnThread) {
  std::vector<int> seen;
  std::vector<int> expected;
  std::thread::id writer;
  {
    WriteThread thread;
    for (int i = 0; i < 1000; ++i) {
      expected.push_back(i);
      thread.Post([&, i] {
        writer = std::this_thread::get_id();
        seen.push_back(i);
      });
    }
  }  // ends after the posted tasks
  EXPECT_EQ(seen, expected);
  EXPECT_NE(writer, std::this_thread::get_id());
}

TEST(WriteThread, TakesMoreWhileItIsBusy) {
  std::promise<void> release;
  bool second = false;
  {
    WriteThread thread;
    thread.Post([&] { release.get_future().wait(); });
    thread.Post([&] { second = true; });  // does not wait for the first
    release.set_value();
  }
  EXPECT_TRUE(second);
}

}  // namespace
}  // namespace outrider
