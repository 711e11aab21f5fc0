#include "verifier/rpc/drafting_service.h"

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/rpc/drafting_wire.h"
#include "common/rpc/incoming.h"
#include "common/rpc/serialized.h"
#include "common/rpc/status_map.h"
#include "common/rpc/stream_sink.h"
#include "verifier/rpc/read_gate.h"

namespace outrider {
namespace {

using AttachCall = grpc::ServerBidiReactor<Incoming<v1::FromDrafter>, grpc::ByteBuffer>;
using AttachSink = StreamSink<AttachCall, grpc::ByteBuffer>;
using AttachGate = ReadGate<AttachCall, Incoming<v1::FromDrafter>, AttachSink>;

// Messages that may wait for a drafter that does not read (it is stopped, or its network stalls): a
// few rounds of every session. Then the call is cancelled, and the drafter dials again when it can.
constexpr size_t kMaxQueuedMessages = 4096;

// Empty: no drafter can translate it.
grpc::ByteBuffer SerializedVocabulary(const TargetIdentity& target) {
  if (target.vocabulary == nullptr) return grpc::ByteBuffer();
  return Serialized(ToWire(*target.vocabulary));
}

class StreamedDrafter final : public DrafterLink {
 public:
  StreamedDrafter(std::shared_ptr<AttachSink> sink, const grpc::ByteBuffer& vocabulary,
                  VerifierMetrics* metrics)
      : sink_(std::move(sink)), vocabulary_(vocabulary), metrics_(metrics) {}

  void SendVocabulary(const VocabularyEntries& /*targets*/) override { Send(vocabulary_); }
  void SendWelcome(const DrafterWelcome& welcome) override { Send(Serialized(ToWire(welcome))); }
  void SendDemand(const DrafterDemand& demand) override { Send(Serialized(ToWire(demand))); }
  void SendOpen(SessionOpening opening) override { Send(Serialized(ToWire(opening))); }
  void SendVerdicts(std::vector<SessionVerdict> decisions) override {
    Send(Serialized(ToWire(decisions)));
  }
  void SendClose(uint64_t session) override { Send(Serialized(CloseMessage(session))); }
  void SendDrain() override { Send(Serialized(DrainMessage())); }
  void Close(const Status& reason) override { sink_->Close(ToGrpc(reason)); }

 private:
  void Send(const grpc::ByteBuffer& message) {
    metrics_->draft_bytes_sent_total.Increment(static_cast<double>(message.Length()));
    sink_->Send(message);
  }

  std::shared_ptr<AttachSink> sink_;
  const grpc::ByteBuffer vocabulary_;  // shares its bytes
  VerifierMetrics* const metrics_;
};

class AttachReactor final : public AttachCall {
 public:
  AttachReactor(uint64_t id, grpc::CallbackServerContext* context,
                const grpc::ByteBuffer& vocabulary, VerifierMetrics* metrics, DrafterPool* pool,
                EngineThread* thread)
      : id_(id),
        vocabulary_(vocabulary),
        metrics_(metrics),
        pool_(pool),
        thread_(thread),
        sink_(std::make_shared<AttachSink>(this, context, kMaxQueuedMessages)),
        gate_(std::make_shared<AttachGate>(this, &incoming_, sink_)) {
    gate_->Read();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {  // the drafter closed its half or is gone; OnCancel will tell which
      // Runs on the engine's thread, so that a refusal of an earlier message is the answer, not OK.
      thread_->Post([pool = pool_, id = id_, sink = sink_] {
        pool->roster().Leave(id);
        sink->Close(grpc::Status::OK);
      });
      return;
    }
    if (const Status status = Handle(); !status.ok()) {
      end_ = status.code() == Code::kResourceExhausted ? StreamEnd::kOverload
                                                       : StreamEnd::kProtocolError;
      Leave();
      sink_->Close(ToGrpc(status));
      return;
    }
    gate_->Read();
  }

  void OnWriteDone(bool ok) override { sink_->WriteDone(ok); }

  void OnCancel() override {
    cancelled_ = true;
    Leave();
    sink_->Close(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    sink_->Detach();
    if (cancelled_) end_ = sink_->WasUnread() ? StreamEnd::kOverload : StreamEnd::kGone;
    thread_->Post([pool = pool_, id = id_, end = end_] { pool->roster().OnStreamEnd(id, end); });
    delete this;
  }

 private:
  Status Handle() {
    OUTRIDER_ASSIGN(const v1::FromDrafter message, incoming_.Parse(kDrafterMessage));
    const v1::FromDrafter::MessageCase kind = message.message_case();
    if (kind == v1::FromDrafter::MESSAGE_NOT_SET) return Status();  // of a later version
    if (kind != v1::FromDrafter::kHello && !greeted_) {
      return FailedPrecondition("the first message must be Hello");
    }
    const size_t bytes = message.ByteSizeLong();
    switch (kind) {
      case v1::FromDrafter::kHello: {
        if (greeted_) return FailedPrecondition("a second Hello on one stream");
        greeted_ = true;
        OUTRIDER_ASSIGN(DrafterHello hello, FromWire(message.hello()));
        return Post(bytes, [pool = pool_, id = id_, hello = std::move(hello),
                            link = std::make_shared<StreamedDrafter>(sink_, vocabulary_, metrics_),
                            sink = sink_] {
          const Status status = pool->roster().Join(id, hello, link);
          if (!status.ok()) sink->Close(ToGrpc(status));
        });
      }
      case v1::FromDrafter::kDrafts: {
        OUTRIDER_ASSIGN(
            std::vector<DraftPart> drafts,
            FromWire(message.drafts(), pool_->roster().distribution_limits().max_entries));
        return Post(bytes, [pool = pool_, id = id_, drafts = std::move(drafts), bytes,
                            now = SteadyClock().Now()]() mutable {
          pool->OnDrafts(id, std::move(drafts), bytes, now);
        });
      }
      case v1::FromDrafter::kLoad: {
        return Post(bytes, [pool = pool_, id = id_, load = FromWire(message.load())] {
          pool->roster().OnLoad(id, load);
        });
      }
      case v1::FromDrafter::kMatch: {
        return Post(bytes,
                    [pool = pool_, id = id_, match = FromWire(message.match()), sink = sink_] {
                      const Status status = pool->roster().OnMatch(id, match);
                      if (!status.ok()) sink->Close(ToGrpc(status));
                    });
      }
      case v1::FromDrafter::MESSAGE_NOT_SET: break;
    }
    return Status();
  }

  // `bytes`: of the message that the task holds.
  template <class Task>
  Status Post(size_t bytes, Task task) {
    gate_->TakeRoom(bytes);
    if (thread_->TryPost([bytes, task = std::move(task), gate = gate_]() mutable {
          task();
          gate->ReturnRoom(bytes);
        })) {
      return Status();
    }
    return ResourceExhausted("the verifier is overloaded; dial again later");
  }

  void Leave() {
    thread_->Post([pool = pool_, id = id_] { pool->roster().Leave(id); });
  }

  const uint64_t id_;
  const grpc::ByteBuffer vocabulary_;
  VerifierMetrics* metrics_;
  DrafterPool* pool_;
  EngineThread* thread_;
  std::shared_ptr<AttachSink> sink_;
  std::shared_ptr<AttachGate> gate_;
  Incoming<v1::FromDrafter> incoming_;
  bool greeted_ = false;  // reads come one at a time
  // Why the stream ends, for OnDone, which comes after all other reactions.
  StreamEnd end_ = StreamEnd::kClosed;
  bool cancelled_ = false;
};

}  // namespace

DraftingService::DraftingService(const DrafterAuthorization* authorization,
                                 VerifierMetrics* metrics, DrafterPool* pool, EngineThread* thread)
    : authorization_(authorization),
      metrics_(metrics),
      pool_(pool),
      thread_(thread),
      vocabulary_(SerializedVocabulary(pool->roster().target())) {
  MarkMethodCallback(
      MethodIndex<v1::FromDrafter>("Drafting", "Attach"),
      new grpc::internal::CallbackBidiHandler<Incoming<v1::FromDrafter>, grpc::ByteBuffer>(
          std::bind_front(&DraftingService::Open, this)));
}

AttachCall* DraftingService::Open(grpc::CallbackServerContext* context) {
  if (const Status status = authorization_->Admit(*context); !status.ok()) {
    metrics_->drafters_refused_total.Increment();
    Log(LogLevel::kWarning, "drafter refused",
        {{"peer", context->peer()}, {"reason", status.ToString()}});
    return new RefusedCall<AttachCall>(status);
  }
  return new AttachReactor(next_id_++, context, vocabulary_, metrics_, pool_, thread_);
}

}  // namespace outrider
