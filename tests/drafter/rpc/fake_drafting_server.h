// A scripted Drafting service of a verifier, over TCP: it records what a drafter sends and sends
// the answers set by the test.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/server.h"
#include "common/rpc/stream_sink.h"
#include "outrider/v1/drafting.grpc.pb.h"

namespace outrider {

class FakeDraftingServer : private v1::Drafting::CallbackService {
 public:
  using Reactor = grpc::ServerBidiReactor<v1::FromDrafter, v1::FromVerifier>;
  using Sink = StreamSink<Reactor, v1::FromVerifier>;
  // Called with every message of a drafter, on gRPC's thread.
  using Behaviour = std::function<void(const v1::FromDrafter&, Sink&)>;

  // `port` 0: any free port. Without `reads`, only the first message is read.
  explicit FakeDraftingServer(Behaviour behaviour, int port = 0, bool reads = true);
  ~FakeDraftingServer() override;

  int port() const { return server_->port(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }

  // To the latest stream.
  void Send(v1::FromVerifier message);
  void End(grpc::Status status);
  void Cancel();

  // Waits until `condition` holds for everything received so far (on all streams, in order);
  // returns false if it does not within a minute.
  bool Await(const std::function<bool(const std::vector<v1::FromDrafter>&)>& condition);
  std::vector<v1::FromDrafter> received();
  // Waits for streams whose drafter has closed its half.
  bool AwaitHalfClosed(int streams);

  static v1::FromVerifier Welcome();
  // Welcomes every Hello and answers nothing else.
  static void Welcomer(const v1::FromDrafter& message, Sink& sink);

 private:
  class Stream;

  Reactor* Attach(grpc::CallbackServerContext* context) override;

  const Behaviour behaviour_;
  const bool reads_;
  std::unique_ptr<RpcServer> server_;
  Mutex mu_;
  std::condition_variable changed_;
  std::vector<v1::FromDrafter> received_ OUTRIDER_GUARDED_BY(mu_);
  int half_closed_ OUTRIDER_GUARDED_BY(mu_) = 0;
  std::shared_ptr<Sink> latest_ OUTRIDER_GUARDED_BY(mu_);
  // For the latest stream while it is open.
  grpc::CallbackServerContext* context_ OUTRIDER_GUARDED_BY(mu_) = nullptr;
};

}  // namespace outrider
