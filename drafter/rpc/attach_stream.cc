#include "drafter/rpc/attach_stream.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/rpc/drafting_wire.h"
#include "common/rpc/serialized.h"
#include "common/rpc/status_map.h"
#include "drafter/propose/draft_loop.h"
#include "drafter/rpc/link_message.h"
#include "drafter/subset/verifier_subset.h"

namespace outrider {
namespace {

// A few rounds of every session; a verifier with this many waiting messages does not read.
constexpr size_t kMaxQueuedMessages = 1024;
// The same for their bytes; the message that goes beyond is still queued.
constexpr size_t kMaxQueuedBytes = 16 << 20;

// Bytes of one verifier's messages that may wait for the loop, by the message that goes beyond.
constexpr size_t kMaxWaitingBytes = 1 << 20;
// What a verdict, or a message of another kind, counts as if it is shorter: it costs the loop some
// microseconds, and a refusal that is sent, whatever its length.
constexpr size_t kLeastBytes = 4096;
// All connections together cannot fill the loop's inbox, even if all verifiers are being replaced.
static_assert(2 * kMaxSubset * (kMaxWaitingBytes / kLeastBytes + GrammarCompiler::kMostWaiting) <=
              DraftLoop::kMostWaiting);

}  // namespace

std::shared_ptr<AttachStream> AttachStream::Start(AttachStub& stub, std::string address,
                                                  uint64_t connection, const std::string& token,
                                                  const DrafterHello& hello,
                                                  std::shared_ptr<const DrafterVocabulary> own,
                                                  LinkEvents* events, LinkObserver* observer) {
  std::shared_ptr<AttachStream> stream(
      new AttachStream(std::move(address), connection, std::move(own), events, observer));
  if (!token.empty()) stream->context_.AddMetadata("authorization", "Bearer " + token);
  stub.PrepareBidiStreamingCall(&stream->context_, "/outrider.v1.Drafting/Attach", {},
                                stream.get());
  stream->AddHold();  // the loop writes from outside reactions
  stream->Send(ToWire(hello));
  stream->StartRead(&stream->incoming_);
  stream->StartCall();
  return stream;
}

AttachStream::AttachStream(std::string address, uint64_t connection,
                           std::shared_ptr<const DrafterVocabulary> own, LinkEvents* events,
                           LinkObserver* observer)
    : address_(std::move(address)),
      connection_(connection),
      own_(std::move(own)),
      events_(events),
      observer_(observer) {}

AttachStream::~AttachStream() {
  if (translator_.joinable()) translator_.join();
  MutexLock lock(mu_);
  OUTRIDER_CHECK(end_.has_value());  // its owner has waited for the end
}

void AttachStream::SendDrafts(std::vector<DraftPart> drafts) { Send(ToWire(drafts)); }

void AttachStream::SendLoad(const DrafterLoad& load) { Send(ToWire(load)); }

void AttachStream::Send(const v1::FromDrafter& message) {
  grpc::ByteBuffer bytes = Serialized(message);
  MutexLock lock(mu_);
  if (closing_ || ending_) return;
  if (queue_.size() >= kMaxQueuedMessages || queued_bytes_ >= kMaxQueuedBytes) {
    Log(LogLevel::kWarning, "the verifier does not read; its stream is cancelled",
        {{"verifier", address_}, {"waiting", queue_.size()}, {"bytes", queued_bytes_}});
    ending_ = true;
    context_.TryCancel();
    return;
  }
  queued_bytes_ += bytes.Length();
  queue_.push_back(std::move(bytes));
  if (queue_.size() == 1) StartWrite(&queue_.front());
}

void AttachStream::Close() {
  MutexLock lock(mu_);
  if (closing_ || ending_) return;
  closing_ = true;
  if (queue_.empty()) StartWritesDone();
}

void AttachStream::SetWanted(bool wanted) {
  MutexLock lock(mu_);
  if (wanted_ == wanted) return;
  wanted_ = wanted;
  // Under the lock, so that the latest value is the last event. The inbox makes no calls.
  if (told_welcome_) {
    events_->PushUrgent({connection_, WantedEvent{wanted}});
  } else if (!wanted) {
    context_.TryCancel();
  }
}

bool AttachStream::was_welcomed() {
  MutexLock lock(mu_);
  return told_welcome_;
}

void AttachStream::OnWriteDone(bool ok) {
  MutexLock lock(mu_);
  if (!ok) {  // the call is over; OnReadDone is called as well
    queue_.clear();
    queued_bytes_ = 0;
    ending_ = true;
    return;
  }
  queued_bytes_ -= queue_.front().Length();
  queue_.pop_front();
  if (ending_) return;
  if (!queue_.empty()) {
    StartWrite(&queue_.front());
  } else if (closing_) {
    StartWritesDone();
  }
}

void AttachStream::OnReadDone(bool ok) {
  if (!ok) {
    {
      MutexLock lock(mu_);
      ending_ = true;
    }
    RemoveHold();
    return;
  }
  Result<v1::FromVerifier> wire = incoming_.Parse(kVerifierMessage);
  // The first one only: another one is refused without looking at it.
  if (wire.ok() && wire->has_vocabulary() && !has_vocabulary_) {
    has_vocabulary_ = true;
    translator_ = std::thread([this, wire = std::move(wire)] { HandleAndReadOn(wire); });
  } else {
    HandleAndReadOn(wire);
  }
}

void AttachStream::HandleAndReadOn(const Result<v1::FromVerifier>& wire) {
  if (broken_.ok()) {
    broken_ = wire.ok() ? Handle(*wire) : wire.status();
    if (!broken_.ok()) context_.TryCancel();
  }
  Read();
}

void AttachStream::Read() {
  MutexLock lock(mu_);
  // A cancelled call ends by a read that fails.
  waits_for_room_ = broken_.ok() && waiting_bytes_ >= kMaxWaitingBytes;
  if (!waits_for_room_) StartRead(&incoming_);
}

std::shared_ptr<void> AttachStream::TakeRoom(const v1::FromVerifier& wire) {
  const auto verdicts = static_cast<size_t>(wire.verdicts().verdicts_size());
  const size_t bytes = std::max(wire.ByteSizeLong(), std::max(verdicts, size_t{1}) * kLeastBytes);
  {
    MutexLock lock(mu_);
    waiting_bytes_ += bytes;
  }
  return {nullptr, [self = shared_from_this(), bytes](void*) { self->ReturnRoom(bytes); }};
}

void AttachStream::ReturnRoom(size_t bytes) {
  MutexLock lock(mu_);
  waiting_bytes_ -= bytes;
  if (!waits_for_room_ || waiting_bytes_ >= kMaxWaitingBytes) return;
  waits_for_room_ = false;
  StartRead(&incoming_);
}

Status AttachStream::Translate(const v1::Vocabulary& wire) {
  if (own_ == nullptr) return FailedPrecondition("a Vocabulary, but this drafter translates none");
  if (welcomed_ || vocabulary_ != nullptr) {
    return InvalidArgument(welcomed_ ? "a Vocabulary after the Welcome"
                                     : "a second Vocabulary on one stream");
  }
  OUTRIDER_ASSIGN(const VocabularyEntries verifiers, FromWire(wire));
  OUTRIDER_ASSIGN(VocabularyMap map, VocabularyMap::Create(verifiers, *own_));
  vocabulary_ = std::make_shared<const VocabularyMap>(std::move(map));
  const VocabularyMatch match = vocabulary_->match();
  Log(LogLevel::kInfo, "the verifier has another vocabulary; only shared tokens are drafted",
      {{"verifier", address_},
       {"shared", match.shared},
       {"tokens", match.tokens},
       {"target_tokens", verifiers.tokens()}});
  Send(ToWire(match));
  return Status();
}

Status AttachStream::Handle(const v1::FromVerifier& wire) {
  if (wire.has_vocabulary()) return Translate(wire.vocabulary());
  if (wire.has_demand() && welcomed_) {
    observer_->OnDemand(address_, FromWire(wire.demand()));
    return Status();
  }
  OUTRIDER_ASSIGN(std::optional<LinkMessage> message, ToLinkMessage(wire));
  if (!message.has_value()) return Status();
  auto* welcome = std::get_if<WelcomeEvent>(&*message);
  if ((welcome != nullptr) == welcomed_) {
    return InvalidArgument(welcomed_ ? "a second Welcome on one stream"
                                     : "the first message must be Welcome");
  }
  DrafterWelcome welcomed_with;
  if (welcome != nullptr) {
    welcomed_with = welcome->welcome;
    welcome->link = shared_from_this();
    welcome->vocabulary = vocabulary_;
  }
  if (!events_->Push({connection_, std::move(*message), TakeRoom(wire)})) {
    return ResourceExhausted("the verifier sends faster than the drafter can take");
  }
  if (!welcomed_) {
    welcomed_ = true;
    {
      MutexLock lock(mu_);
      told_welcome_ = true;
      if (!wanted_) events_->PushUrgent({connection_, WantedEvent{false}});
    }
    observer_->OnAttached(address_, welcomed_with);
  }
  return Status();
}

void AttachStream::OnDone(const grpc::Status& status) {
  if (welcomed_) {
    events_->PushUrgent({connection_, DisconnectedEvent{}});
    observer_->OnDetached(address_);
  }
  MutexLock lock(mu_);
  end_ = broken_.ok() ? FromGrpc(status) : broken_;
  ended_.notify_all();  // from here on the owner may destroy the stream
}

std::optional<Status> AttachStream::WaitForEnd(std::optional<Time> until) {
  MutexLock lock(mu_);
  while (!end_.has_value()) {
    if (!until.has_value()) {
      lock.Wait(ended_);
    } else if (lock.WaitUntil(ended_, *until) == std::cv_status::timeout) {
      break;
    }
  }
  return end_;
}

}  // namespace outrider
