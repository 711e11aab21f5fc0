#include "tests/drafter/rpc/fake_drafting_server.h"

#include <utility>

#include "common/base/check.h"
#include "common/spec/drafter_hello.h"

namespace outrider {
namespace {

constexpr size_t kQueue = 100000;
constexpr Duration kTimeout = std::chrono::minutes(1);

}  // namespace

class FakeDraftingServer::Stream final : public Reactor {
 public:
  Stream(FakeDraftingServer* owner, grpc::CallbackServerContext* context)
      : owner_(owner), context_(context), sink_(std::make_shared<Sink>(this, context, kQueue)) {
    {
      MutexLock lock(owner_->mu_);
      owner_->latest_ = sink_;
      owner_->context_ = context;
    }
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      MutexLock lock(owner_->mu_);
      if (!context_->IsCancelled()) ++owner_->half_closed_;
      owner_->changed_.notify_all();
      sink_->Close(grpc::Status::OK);
      return;
    }
    {
      MutexLock lock(owner_->mu_);
      owner_->received_.push_back(message_);
      owner_->changed_.notify_all();
    }
    owner_->behaviour_(message_, *sink_);
    message_.Clear();
    if (owner_->reads_) StartRead(&message_);
  }

  void OnWriteDone(bool ok) override { sink_->WriteDone(ok); }
  void OnCancel() override { sink_->Close(grpc::Status::CANCELLED); }

  void OnDone() override {
    {
      MutexLock lock(owner_->mu_);
      if (owner_->context_ == context_) owner_->context_ = nullptr;
    }
    sink_->Detach();
    delete this;
  }

 private:
  FakeDraftingServer* owner_;
  grpc::CallbackServerContext* context_;
  std::shared_ptr<Sink> sink_;
  v1::FromDrafter message_;
};

FakeDraftingServer::FakeDraftingServer(Behaviour behaviour, int port, bool reads)
    : behaviour_(std::move(behaviour)), reads_(reads) {
  Result<std::unique_ptr<RpcServer>> server =
      RpcServer::Start({.listen = "127.0.0.1:" + std::to_string(port)}, {this});
  OUTRIDER_CHECK(server.ok());
  server_ = std::move(server).value();
}

FakeDraftingServer::~FakeDraftingServer() { server_.reset(); }

FakeDraftingServer::Reactor* FakeDraftingServer::Attach(grpc::CallbackServerContext* context) {
  return new Stream(this, context);
}

void FakeDraftingServer::Send(v1::FromVerifier message) {
  MutexLock lock(mu_);
  latest_->Send(std::move(message));
}

void FakeDraftingServer::End(grpc::Status status) {
  MutexLock lock(mu_);
  latest_->Close(std::move(status));
}

void FakeDraftingServer::Cancel() {
  MutexLock lock(mu_);
  if (context_ != nullptr) context_->TryCancel();
}

bool FakeDraftingServer::Await(
    const std::function<bool(const std::vector<v1::FromDrafter>&)>& condition) {
  const Time deadline = std::chrono::steady_clock::now() + kTimeout;
  MutexLock lock(mu_);
  while (!condition(received_)) {
    if (lock.WaitUntil(changed_, deadline) == std::cv_status::timeout) return false;
  }
  return true;
}

std::vector<v1::FromDrafter> FakeDraftingServer::received() {
  MutexLock lock(mu_);
  return received_;
}

bool FakeDraftingServer::AwaitHalfClosed(int streams) {
  const Time deadline = std::chrono::steady_clock::now() + kTimeout;
  MutexLock lock(mu_);
  while (half_closed_ < streams) {
    if (lock.WaitUntil(changed_, deadline) == std::cv_status::timeout) return false;
  }
  return true;
}

v1::FromVerifier FakeDraftingServer::Welcome() {
  v1::FromVerifier message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_protocol_version(kDraftingProtocol);
  welcome->set_model("target");
  welcome->set_vocab_limit(30);
  welcome->mutable_law_limits()->set_mass(0.99f);
  welcome->mutable_law_limits()->set_max_entries(8);
  return message;
}

void FakeDraftingServer::Welcomer(const v1::FromDrafter& message, Sink& sink) {
  if (message.has_hello()) sink.Send(Welcome());
}

}  // namespace outrider
