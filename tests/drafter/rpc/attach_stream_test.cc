#include "drafter/rpc/attach_stream.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/rpc/channel.h"
#include "tests/drafter/rpc/fake_drafting_server.h"
#include "tests/drafter/rpc/recorded_link.h"

namespace outrider {
namespace {

// A reference that the call held would be dropped on gRPC's thread, with the channel where it was
// the last: that aborts the process now and then.
TEST(AttachStream, CallHoldsNoReference) {
  FakeDraftingServer server([](const v1::FromDrafter&, FakeDraftingServer::Sink&) {});
  RecordedEvents events;
  RecordedObserver observer;
  const auto stub = v1::Drafting::NewStub(MakeChannel(server.address(), {}));
  const std::shared_ptr<AttachStream> stream =
      AttachStream::Start(*stub, server.address(), 1, "", {.name = "d0"}, &events, &observer);
  EXPECT_EQ(stream.use_count(), 1);
  stream->Cancel();
  EXPECT_EQ(stream->WaitForEnd(std::nullopt)->code(), Code::kCancelled);
  EXPECT_EQ(stream.use_count(), 1);
}

}  // namespace
}  // namespace outrider
