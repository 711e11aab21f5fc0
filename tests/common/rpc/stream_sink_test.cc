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

namespace outrider {
namespace {

using Reactor = grpc::ServerWriteReactor<v1::GenerateResponse>;
using Sink = StreamSink<Reactor, v1::GenerateResponse>;

constexpr size_t kCapacity = 16;

// Passes every stream's sink to the test and does nothing with it.
class SinkService final : public v1::Generation::CallbackService {
 public:
  Reactor* Generate(grpc::CallbackServerContext*, const v1::GenerateRequest*) override {
    return new Stream(this);
  }

  // Blocks until `count` streams have been opened; returns all of them in that order.
  std::vector<std::shared_ptr<Sink>> WaitForStreams(size_t count) {
    MutexLock lock(mu_);
    while (opened_.size() < count) lock.Wait(changed_);
    return opened_;
  }

  void WaitUntilNoStreamIsLeft() {
    MutexLock lock(mu_);
    while (alive_ > 0) lock.Wait(changed_);
  }

 private:
  class Stream final : public Reactor {
   public:
    explicit Stream(SinkService* service)
        : service_(service), sink_(std::make_shared<Sink>(this, kCapacity)) {
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
  service_.WaitUntilNoStreamIsLeft();
}

TEST_F(StreamSinkTest, ClosesStreamWithoutMessages) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, {});
  service_.WaitForStreams(1)[0]->Close(grpc::Status::OK);
  v1::GenerateResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
  service_.WaitUntilNoStreamIsLeft();
}

TEST_F(StreamSinkTest, ClosesPeerThatDoesNotRead) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, {});
  const auto sink = service_.WaitForStreams(1)[0];
  // Far more than the transport's buffers can take.
  constexpr size_t kPadding = 1 << 20;
  uint32_t sent = 0;
  while (sink->Send(Numbered(sent, kPadding))) {
    ASSERT_LT(++sent, 1000u);
  }
  EXPECT_GE(sent, kCapacity);

  v1::GenerateResponse response;
  uint32_t read = 0;
  while (reader->Read(&response)) EXPECT_EQ(response.chunk().drafted(), read++);
  EXPECT_EQ(read, sent);  // accepted messages are delivered
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  service_.WaitUntilNoStreamIsLeft();
}

TEST_F(StreamSinkTest, IgnoresCallsAfterStreamEnds) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, {});
  const auto sink = service_.WaitForStreams(1)[0];
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  service_.WaitUntilNoStreamIsLeft();
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
  service_.WaitUntilNoStreamIsLeft();
  EXPECT_THAT(endings,
              ::testing::IsSubsetOf({static_cast<int>(grpc::StatusCode::CANCELLED),
                                     static_cast<int>(grpc::StatusCode::ABORTED),
                                     static_cast<int>(grpc::StatusCode::RESOURCE_EXHAUSTED)}));
  EXPECT_THAT(endings, ::testing::Contains(static_cast<int>(grpc::StatusCode::CANCELLED)));
  EXPECT_THAT(endings, ::testing::Contains(static_cast<int>(grpc::StatusCode::ABORTED)));
}

}  // namespace
}  // namespace outrider
