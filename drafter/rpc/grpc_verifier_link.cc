#include "drafter/rpc/grpc_verifier_link.h"

#include <cmath>
#include <random>
#include <utility>

#include "common/base/log.h"
#include "drafter/rpc/backoff.h"
#include "drafter/rpc/dial_failures.h"

namespace outrider {
namespace {

constexpr Duration kCloseGrace = std::chrono::seconds(1);
// The bound of the pause after the first refusal. Many drafters may be refused at the same time.
constexpr Duration kFirstRefusedPause = std::chrono::seconds(1);

// A refusal lasts until the verifier or this drafter is configured differently, or until the
// verifier has room.
bool IsRefusal(const Status& end, bool was_welcomed) {
  if (end.code() == Code::kResourceExhausted) return !was_welcomed;
  return end.code() == Code::kFailedPrecondition || end.code() == Code::kUnauthenticated ||
         end.code() == Code::kPermissionDenied;
}

}  // namespace

GrpcVerifierLink::GrpcVerifierLink(const VerifierLinkOptions& options, LinkEvents* events,
                                   LinkObserver* observer)
    : options_(options),
      events_(events),
      observer_(observer),
      dialer_(&options_.dial),
      thread_([this] { Run(); }) {}

GrpcVerifierLink::~GrpcVerifierLink() { Stop(); }

void GrpcVerifierLink::Close() {
  std::shared_ptr<AttachStream> stream;
  {
    MutexLock lock(mu_);
    if (!stopping_) closed_ = std::chrono::steady_clock::now();
    stopping_ = true;
    changed_.notify_all();
    stream = stream_;
  }
  if (stream != nullptr) stream->Close();
}

void GrpcVerifierLink::Stop() {
  Close();
  std::shared_ptr<AttachStream> stream;
  Time until;
  {
    MutexLock lock(mu_);
    stream = stream_;
    until = closed_ + kCloseGrace;
  }
  if (stream != nullptr && !stream->WaitForEnd(until).has_value()) stream->Cancel();
  if (thread_.joinable()) thread_.join();
}

bool GrpcVerifierLink::SetWanted(bool wanted) {
  MutexLock lock(mu_);
  if (over_ || stopping_) return false;
  wanted_ = wanted;
  changed_.notify_all();
  if (stream_ != nullptr) stream_->SetWanted(wanted);
  return true;
}

bool GrpcVerifierLink::over() {
  MutexLock lock(mu_);
  return over_;
}

std::shared_ptr<AttachStream> GrpcVerifierLink::Dial() {
  dialer_.Renew();
  MutexLock lock(mu_);
  over_ = stopping_ || !wanted_;
  if (over_) return nullptr;
  stream_ = dialer_.Dial(events_, observer_);
  return stream_;
}

void GrpcVerifierLink::Pause(Duration pause) {
  const Time until = std::chrono::steady_clock::now() + pause;
  MutexLock lock(mu_);
  while (!stopping_ && wanted_) {
    if (lock.WaitUntil(changed_, until) == std::cv_status::timeout) return;
  }
}

void GrpcVerifierLink::Run() {
  std::random_device seed;
  Backoff backoff({.last = options_.max_pause}, seed());
  Backoff refusals(
      {.first = kFirstRefusedPause, .last = options_.max_refused_pause, .first_at_once = false},
      seed());
  DialFailures failures;
  while (const std::shared_ptr<AttachStream> stream = Dial()) {
    const Time dialed = std::chrono::steady_clock::now();
    const Status end = *stream->WaitForEnd(std::nullopt);
    {
      MutexLock lock(mu_);
      if (stopping_ || !wanted_) continue;  // Dial returns null then
    }
    const Time ended = std::chrono::steady_clock::now();
    if (stream->was_welcomed()) observer_->OnLost(options_.dial.address);
    // A dial that took long and was refused, or came to nothing, is no reason to hurry.
    if (stream->was_welcomed() && ended - dialed > options_.max_pause) {
      backoff.Reset();
      refusals.Reset();
      failures.Reset();
    }
    const bool refused = IsRefusal(end, stream->was_welcomed());
    const Duration pause = refused ? refusals.Next() : backoff.Next();
    if (refused) observer_->OnRefused(options_.dial.address, end);
    const LogLevel level = refused ? LogLevel::kError : LogLevel::kWarning;
    Log(failures.Add(end, ended) ? level : LogLevel::kDebug,
        refused ? "the verifier refuses this drafter" : "not attached to the verifier",
        {{"verifier", options_.dial.address},
         {"reason", DescribeDialFailure(end)},
         {"trying_seconds", std::lround(Seconds(failures.Trying(ended)))},
         {"redial_seconds", Seconds(pause)}});
    Pause(pause);
  }
}

}  // namespace outrider
