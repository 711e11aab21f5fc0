#include "common/rpc/stream_sink.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "outrider/v1/generation.grpc.pb.h"
#include "tests/support/allocation_watch.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using Reactor = grpc::ServerWriteReactor<v1::GenerateResponse>;
using Sink = StreamSink<Reactor, v1::GenerateResponse>;

constexpr size_t kCapacity = 16;

// Passes every stream's sink to the test and does nothing with it.
class SinkService final : public v1::Generation::CallbackService {
 public:
  Reactor* Generate(grpc::CallbackServerContext* context, const v1::GenerateRequest*) override {
    return new Stream(this, context);
  }

  Duration write_timeout = std::chrono::hours(1);  // of streams that are opened later

  // Blocks until `count` streams have been opened; returns all of them in that order.
  std::vector<std::shared_ptr<Sink>> WaitForStreams(size_t count) {
    MutexLock lock(mu_);
    while (opened_.size() < count) lock.Wait(changed_);
    return opened_;
  }

  // Returns false if one is left after a long time.
  bool AwaitNoStream() {
    const auto until = std::chrono::steady_clock::now() + testing::kTimeLimit;
    MutexLock lock(mu_);
    while (alive_ > 0) {
      if (lock.WaitUntil(changed_, until) == std::cv_status::timeout) return false;
    }
    return true;
  }

 private:
  class Stream final : public Reactor {
   public:
    Stream(SinkService* service, grpc::CallbackServerContext* context)
        : service_(service),
          sink_(std::make_shared<Sink>(this, context, kCapacity, service->write_timeout)) {
      MutexLock lock(service_->mu_);
      ++service_->alive_;
      service_->opened_.push_back(sink_);
      service_->changed_.notify_all();
    }
    void OnWriteDone(bool ok) override { sink_->WriteDone(ok); }
    void OnCancel() override { sink_->Close(grpc::Status::CANCELLED); }
    void OnDone() override {
      sink_->Detach();
      {
        MutexLock lock(service_->mu_);
        --service_->alive_;
        service_->changed_.notify_all();
      }
      delete this;
    }

   private:
    SinkService* const service_;
    const std::shared_ptr<Sink> sink_;
  };

  Mutex mu_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Sink>> opened_ OUTRIDER_GUARDED_BY(mu_);
  int alive_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

v1::GenerateResponse Numbered(uint32_t number, size_t padding = 0) {
  v1::GenerateResponse response;
  response.mutable_chunk()->set_drafted(number);
  response.mutable_chunk()->set_text(std::string(padding, 'x'));
  return response;
}

class StreamSinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = RpcServer::Start({.listen = "127.0.0.1:0"}, {&service_});
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
    stub_ =
        v1::Generation::NewStub(MakeChannel("127.0.0.1:" + std::to_string(server_->port()), {}));
  }

  SinkService service_;
  std::unique_ptr<RpcServer> server_;
  std::unique_ptr<v1::Generation::Stub> stub_;
};

TEST_F(StreamSinkTest, DeliversInOrderBeforeStatus) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, {});
  const auto sink = service_.WaitForStreams(1)[0];
  for (uint32_t i = 0; i < kCapacity; ++i) EXPECT_TRUE(sink->Send(Numbered(i)));
  sink->Close({grpc::StatusCode::ABORTED, "first"});
  sink->Close({grpc::StatusCode::INTERNAL, "second"});
  EXPECT_FALSE(sink->Send(Numbered(99)));

  v1::GenerateResponse response;
  for (uint32_t i = 0; i < kCapacity; ++i) {
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.chunk().drafted(), i);
  }
  EXPECT_FALSE(reader->Read(&response));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "first");
  EXPECT_TRUE(service_.AwaitNoStream());
}

TEST_F(StreamSinkTest, ClosesStreamWithoutMessages) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, {});
  service_.WaitForStreams(1)[0]->Close(grpc::Status::OK);
  v1::GenerateResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(service_.AwaitNoStream());
}

// Sends far more than the transport's buffers can take, until a message is refused. Returns how
// many were accepted.
size_t SendUntilRefused(Sink& sink) {
  size_t sent = 0;
  while (sent < 1000 && sink.Send(Numbered(0, 1 << 20))) ++sent;
  return sent;
}

// The status of a stream after all that has arrived has been read.
grpc::StatusCode EndOf(grpc::ClientReader<v1::GenerateResponse>& reader) {
  v1::GenerateResponse response;
  while (reader.Read(&response)) {
  }
  return reader.Finish().error_code();
}

TEST_F(StreamSinkTest, CancelsPeerThatDoesNotRead) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, {});
  const auto sink = service_.WaitForStreams(1)[0];
  const testing::AllocationWatch watch;
  EXPECT_GE(SendUntilRefused(*sink), kCapacity);
  EXPECT_TRUE(service_.AwaitNoStream()) << "though nothing was read";
  EXPECT_TRUE(sink->WasUnread());
  constexpr int64_t kHalf = (kCapacity / 2) << 20;
  EXPECT_LT(watch.held(), kHalf) << "messages are kept";
  EXPECT_EQ(EndOf(*reader), grpc::StatusCode::CANCELLED);
}

TEST_F(StreamSinkTest, CancelsPeerThatReadsTooLate) {
  service_.write_timeout = Duration::zero();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, {});
  const auto sink = service_.WaitForStreams(1)[0];
  EXPECT_LT(SendUntilRefused(*sink), kCapacity) << "as many may wait";
  EXPECT_TRUE(service_.AwaitNoStream());
  EXPECT_TRUE(sink->WasUnread());
  EXPECT_EQ(EndOf(*reader), grpc::StatusCode::CANCELLED);
}

TEST_F(StreamSinkTest, IgnoresCallsAfterStreamEnds) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, {});
  const auto sink = service_.WaitForStreams(1)[0];
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(service_.AwaitNoStream());
  EXPECT_FALSE(sink->Send(Numbered(0)));
  sink->Close(grpc::Status::OK);
  sink->WriteDone(false);
}

// Clients cancel streams at random points while several threads send and close: nothing is written
// or finished twice (gRPC would abort the process), no stream remains, and the address sanitizer
// sees no use of a reactor after its end.
TEST_F(StreamSinkTest, SurvivesCancelsAtAnyPoint) {
  constexpr int kStreams = 120;
  constexpr int kClients = 4;
  constexpr int kSenders = 3;
  std::atomic<bool> stop = false;
  std::vector<std::jthread> senders;
  for (int s = 0; s < kSenders; ++s) {
    senders.emplace_back([this, s, &stop] {
      std::mt19937 random(static_cast<unsigned>(s));
      while (!stop) {
        for (const auto& sink : service_.WaitForStreams(1)) {
          if (random() % 64 == 0) {
            sink->Close({grpc::StatusCode::ABORTED, "closed by a sender"});
          } else {
            (void)sink->Send(Numbered(random() % 1000, random() % 2000));
          }
        }
      }
    });
  }
  std::atomic<int> next = 0;
  std::set<int> endings;
  {
    Mutex mu;
    std::vector<std::jthread> clients;
    for (int c = 0; c < kClients; ++c) {
      clients.emplace_back([&, c] {
        std::mt19937 random(static_cast<unsigned>(100 + c));
        while (next.fetch_add(1) < kStreams) {
          grpc::ClientContext context;
          const auto reader = stub_->Generate(&context, {});
          const unsigned cancel_after = random() % 32;
          v1::GenerateResponse response;
          for (unsigned read = 0; reader->Read(&response); ++read) {
            if (read == cancel_after) context.TryCancel();
          }
          const int code = reader->Finish().error_code();
          MutexLock lock(mu);
          endings.insert(code);
        }
      });
    }
  }
  stop = true;
  senders.clear();
  EXPECT_TRUE(service_.AwaitNoStream());
  EXPECT_THAT(endings, ::testing::IsSubsetOf({static_cast<int>(grpc::StatusCode::CANCELLED),
                                              static_cast<int>(grpc::StatusCode::ABORTED)}));
  EXPECT_THAT(endings, ::testing::Contains(static_cast<int>(grpc::StatusCode::CANCELLED)));
  EXPECT_THAT(endings, ::testing::Contains(static_cast<int>(grpc::StatusCode::ABORTED)));
}

}  // namespace
}  // namespace outrider
