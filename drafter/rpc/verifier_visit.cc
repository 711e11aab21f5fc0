#include "drafter/rpc/verifier_visit.h"

#include <utility>

namespace outrider {
namespace {

// A verifier that answers later than this is as good as away.
constexpr Duration kVisitTime = std::chrono::seconds(10);

VerifierDialOptions AsVisit(VerifierDialOptions options) {
  options.hello.visit = true;
  return options;
}

}  // namespace

// Records the answers, in the places of the drafting loop and of an observer.
class VerifierVisit::Recorder final : public LinkEvents, public LinkObserver {
 public:
  bool Push(LinkEvent event) override {
    auto* const welcome = std::get_if<WelcomeEvent>(&event.message);
    // An older verifier does not end the stream, so we do.
    if (welcome != nullptr && welcome->welcome.protocol < kDemandProtocol) welcome->link->Close();
    return true;
  }
  void PushUrgent(LinkEvent) override {}

  void OnAttached(const std::string&, const DrafterWelcome& welcome) override {
    MutexLock lock(mu_);
    result_.welcome = welcome;
  }
  void OnDetached(const std::string&) override {}
  void OnLost(const std::string&) override {}
  void OnRefused(const std::string&, const Status&) override {}
  void OnDemand(const std::string&, const DrafterDemand& demand) override {
    MutexLock lock(mu_);
    result_.demand = demand;
  }

  VisitResult result() {
    MutexLock lock(mu_);
    return result_;
  }

 private:
  Mutex mu_;
  VisitResult result_ OUTRIDER_GUARDED_BY(mu_);
};

VerifierVisit::VerifierVisit(const VerifierDialOptions& options, OnResult on_result)
    : options_(AsVisit(options)), on_result_(std::move(on_result)), thread_([this] { Run(); }) {}

VerifierVisit::~VerifierVisit() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    if (stream_ != nullptr) stream_->Cancel();
  }
  thread_.join();
}

void VerifierVisit::Run() {
  VerifierDialer dialer(&options_);
  Recorder recorder;
  dialer.Renew();
  std::shared_ptr<AttachStream> stream;
  {
    MutexLock lock(mu_);
    if (!stopping_) stream = stream_ = dialer.Dial(&recorder, &recorder);
  }
  VisitResult result{.end = Unavailable("the visit was not begun")};
  if (stream != nullptr) {
    std::optional<Status> end = stream->WaitForEnd(std::chrono::steady_clock::now() + kVisitTime);
    if (!end.has_value()) {
      stream->Cancel();
      end = stream->WaitForEnd(std::nullopt);
    }
    result = recorder.result();
    result.end = *end;
  }
  {
    MutexLock lock(mu_);
    stream_ = nullptr;
  }
  on_result_(options_.address, result);
  over_ = true;
}

}  // namespace outrider
