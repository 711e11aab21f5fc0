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
  bool TakeRoom(size_t bytes) {
    gate_.TakeRoom(bytes);
    const int before = stream_.started;
    gate_.Read();
    return stream_.started > before;
  }
  // The engine takes a message. Returns whether the next one is read.
  bool ReturnRoom(size_t bytes) {
    const int before = stream_.started;
    gate_.ReturnRoom(bytes);
    return stream_.started > before;
  }

  CountedReads stream_;
  int message_ = 0;
  std::shared_ptr<OpenSink> sink_ = std::make_shared<OpenSink>();
  ReadGate<CountedReads, int, OpenSink> gate_{&stream_, &message_, sink_};
};

TEST_F(ReadGateTest, CountsMessagesThatWait) {
  for (int i = 1; i < kMaxPendingMessages; ++i) EXPECT_TRUE(TakeRoom(1)) << i;
  EXPECT_FALSE(TakeRoom(1));
  EXPECT_TRUE(ReturnRoom(1));
  EXPECT_FALSE(ReturnRoom(1)) << "one read is under way";
}

TEST_F(ReadGateTest, CountsBytesThatWait) {
  EXPECT_TRUE(TakeRoom(kMaxPendingBytes - 1));
  EXPECT_FALSE(TakeRoom(kMaxPendingBytes)) << "the largest message";
  EXPECT_FALSE(ReturnRoom(kMaxPendingBytes - 1)) << "the other still fills the room";
  EXPECT_TRUE(ReturnRoom(kMaxPendingBytes));
  EXPECT_TRUE(TakeRoom(0));
}

TEST_F(ReadGateTest, EndedStreamIsNotRead) {
  EXPECT_FALSE(TakeRoom(kMaxPendingBytes));
  sink_->open = false;
  EXPECT_FALSE(ReturnRoom(kMaxPendingBytes));
}

}  // namespace
}  // namespace outrider
