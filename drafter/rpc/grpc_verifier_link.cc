#include "drafter/rpc/grpc_verifier_link.h"

#include <atomic>
#include <random>
#include <utility>

#include "common/base/log.h"
#include "common/rpc/channel.h"
#include "common/rpc/token_file.h"
#include "drafter/rpc/backoff.h"

namespace outrider {
namespace {

constexpr Duration kCloseGrace = std::chrono::seconds(1);

// A refusal lasts until the verifier or this drafter is configured differently, or until the
// verifier has room.
bool IsRefusal(const Status& end) {
  return end.code() == Code::kFailedPrecondition || end.code() == Code::kUnauthenticated ||
         end.code() == Code::kPermissionDenied || end.code() == Code::kResourceExhausted;
}

uint64_t NextConnection() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

}  // namespace

GrpcVerifierLink::GrpcVerifierLink(const VerifierLinkOptions& options, LinkEvents* events,
                                   LinkObserver* observer)
    : options_(options), events_(events), observer_(observer), thread_([this] { Run(); }) {}

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
  if (over_) return false;
  wanted_ = wanted;
  changed_.notify_all();
  if (stream_ != nullptr) stream_->SetWanted(wanted);
  return true;
}

bool GrpcVerifierLink::over() {
  MutexLock lock(mu_);
  return over_;
}

void GrpcVerifierLink::Renew() {
  std::shared_ptr<const TlsMaterial> material =
      options_.tls == nullptr ? nullptr : options_.tls->Current();
  if (stub_ == nullptr || material != tls_material_) {
    stub_ = v1::Drafting::NewStub(
        MakeChannel(options_.address, {.tls = material,
                                       .tls_server_name = options_.tls_server_name,
                                       .authority = options_.authority}));
    tls_material_ = std::move(material);
  }
  if (options_.token_file.empty()) return;
  Result<std::string> token = ReadToken(options_.token_file);
  if (token.ok()) {
    token_ = std::move(token).value();
  } else {
    Log(LogLevel::kError, "the token file is not right; the token read before is sent",
        {{"reason", token.status().message()}});
  }
}

std::shared_ptr<AttachStream> GrpcVerifierLink::Dial() {
  Renew();
  MutexLock lock(mu_);
  over_ = stopping_ || !wanted_;
  if (over_) return nullptr;
  stream_ = AttachStream::Start(*stub_, options_.address, NextConnection(), token_, options_.hello,
                                options_.vocabulary, events_, observer_);
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
  Backoff backoff(options_.max_pause, std::random_device{}());
  std::string last_words;  // repeated failures are logged once
  while (const std::shared_ptr<AttachStream> stream = Dial()) {
    const Time dialed = std::chrono::steady_clock::now();
    const Status end = *stream->WaitForEnd(std::nullopt);
    {
      MutexLock lock(mu_);
      if (stopping_ || !wanted_) continue;  // Dial returns null then
    }
    const bool lasted = std::chrono::steady_clock::now() - dialed > options_.max_pause;
    if (lasted) backoff.Reset();
    const bool refused = IsRefusal(end);
    const Duration pause = refused ? options_.refused_pause : backoff.Next();
    if (refused) observer_->OnRefused(options_.address, end);
    const std::string words = end.ToString();
    const LogLevel level = refused ? LogLevel::kError : LogLevel::kWarning;
    Log(words == last_words ? LogLevel::kDebug : level,
        refused ? "the verifier refuses this drafter" : "not attached to the verifier",
        {{"verifier", options_.address}, {"reason", words}, {"redial_seconds", Seconds(pause)}});
    last_words = words;
    Pause(pause);
  }
}

}  // namespace outrider
