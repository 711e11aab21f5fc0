// A drafter that is only a gRPC stream: the test chooses what it sends.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/spec/drafter_hello.h"
#include "common/text/tokenizer.h"
#include "outrider/v1/drafting.grpc.pb.h"

namespace outrider::testing {

// A plan that the verifier sent.
struct Asked {
  uint64_t session = 0;
  uint32_t round = 0;
  uint32_t length = 0;
  std::vector<uint32_t> branching;
  v1::DraftKind kind{};
};

struct RawHello {
  std::string name = "hostile";
  uint32_t protocol = kDraftingProtocol;  // the lowest that it speaks
  uint32_t highest_protocol = 0;          // 0: that is the only one
};

// One attached stream. One thread may send while another one reads.
class RawDrafter {
 public:
  // Sends Hello at once.
  RawDrafter(const std::string& address, const TokenizerFingerprint& tokenizer,
             const RawHello& hello = {});
  ~RawDrafter();

  // Returns false when the stream has ended.
  bool Send(const v1::FromDrafter& message) { return stream_->Write(message); }
  // Calls `on_plan` for every plan until the verifier, or Cancel, ends the stream.
  grpc::Status ReadPlans(const std::function<void(const Asked&)>& on_plan);
  // Answers every plan of sessions of this kind, until the verifier ends the stream. Does not wait
  // for the first plan of a session, so that its answer may belong to an old one.
  grpc::Status AnswerWith(v1::DraftKind kind,
                          const std::function<void(const Asked&, v1::FromDrafter*)>& make);
  // The status with which the verifier ended the stream.
  grpc::Status End();
  // Ends the stream; any thread.
  void Cancel() { context_.TryCancel(); }
  // The next message; nullopt: the stream is over.
  std::optional<v1::FromVerifier> Read();

 private:
  grpc::ClientContext context_;
  std::unique_ptr<v1::Drafting::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::FromDrafter, v1::FromVerifier>> stream_;
  bool ended_ = false;
};

// Adds a draft of these tokens, as one sequence, each sampled with certainty.
v1::Draft* AddDraft(v1::FromDrafter* message, const Asked& asked, uint32_t round,
                    const std::vector<uint32_t>& tokens, bool distributions);

}  // namespace outrider::testing
