#include "common/base/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <ctime>

namespace outrider {
namespace {

// A program that is told to stop before it has started must not start.
TEST(StopOnSignal, TakesAPendingSignalAtOnce) {
  sigset_t terminate, before;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &terminate, &before);
  raise(SIGTERM);
  {
    const StopOnSignal signals;
    EXPECT_EQ(signals.signal(), SIGTERM);
    EXPECT_TRUE(signals.token().stop_requested());
  }
  const timespec at_once = {};
  EXPECT_EQ(sigtimedwait(&terminate, nullptr, &at_once), -1) << "it is still pending";
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace outrider
