#include "verifier/rpc/read_gate.h"

#include <gtest/gtest.h>

#include <memory>

namespace outrider {
namespace {

struct CountedReads {
  void StartRead(int* /*message*/) { ++started; }
  int started = 0;
};

struct OpenSink {
  template <class Use>
  void IfOpen(Use&& use) {
    if (open) use();
  }
  bool open = true;
};

class ReadGateTest : public ::testing::Test {
 protected:
  // A message of so many bytes was read and waits for the engine. Returns whether the next one is
  // read at once.
  bool Pend(size_t bytes) {
    gate_.Pend(bytes);
    const int before = stream_.started;
    gate_.Read();
    return stream_.started > before;
  }
  // The engine takes a message. Returns whether the next one is read.
  bool Release(size_t bytes) {
    const int before = stream_.started;
    gate_.Release(bytes);
    return stream_.started > before;
  }

  CountedReads stream_;
  int message_ = 0;
  std::shared_ptr<OpenSink> sink_ = std::make_shared<OpenSink>();
  ReadGate<CountedReads, int, OpenSink> gate_{&stream_, &message_, sink_};
};

TEST_F(ReadGateTest, CountsMessagesThatWait) {
  for (int i = 1; i < kMaxPendingMessages; ++i) EXPECT_TRUE(Pend(1)) << i;
  EXPECT_FALSE(Pend(1));
  EXPECT_TRUE(Release(1));
  EXPECT_FALSE(Release(1)) << "one read is under way";
}

TEST_F(ReadGateTest, CountsBytesThatWait) {
  EXPECT_TRUE(Pend(kMaxPendingBytes - 1));
  EXPECT_FALSE(Pend(kMaxPendingBytes)) << "the largest message";
  EXPECT_FALSE(Release(kMaxPendingBytes - 1)) << "the other still fills the room";
  EXPECT_TRUE(Release(kMaxPendingBytes));
  EXPECT_TRUE(Pend(0));
}

TEST_F(ReadGateTest, EndedStreamIsNotRead) {
  EXPECT_FALSE(Pend(kMaxPendingBytes));
  sink_->open = false;
  EXPECT_FALSE(Release(kMaxPendingBytes));
}

}  // namespace
}  // namespace outrider
