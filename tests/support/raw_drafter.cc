#include "tests/support/raw_drafter.h"

#include <map>

#include "common/rpc/channel.h"

namespace outrider::testing {
namespace {

v1::FromDrafter HelloMessage(const TokenizerFingerprint& tokenizer, const RawHello& raw) {
  v1::FromDrafter message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(raw.protocol);
  hello->set_highest_protocol_version(raw.highest_protocol);
  hello->set_name(raw.name);
  hello->set_model("small");
  hello->mutable_tokenizer()->set_vocab_size(static_cast<uint32_t>(tokenizer.vocab_size));
  hello->mutable_tokenizer()->set_vocabulary(tokenizer.vocabulary);
  hello->mutable_tokenizer()->set_merges(tokenizer.merges);
  hello->mutable_tokenizer()->set_special_tokens(tokenizer.special_tokens);
  hello->set_vocab_size(static_cast<uint32_t>(tokenizer.vocab_size));
  hello->set_max_sessions(64);
  hello->set_max_draft_length(8);
  hello->set_max_draft_tokens(64);
  hello->set_max_context(1024);
  return message;
}

}  // namespace

RawDrafter::RawDrafter(const std::string& address, const TokenizerFingerprint& tokenizer,
                       const RawHello& hello)
    : stub_(v1::Drafting::NewStub(MakeChannel(address, {}))), stream_(stub_->Attach(&context_)) {
  Send(HelloMessage(tokenizer, hello));
}

RawDrafter::~RawDrafter() {
  Cancel();
  if (!ended_) End();
}

std::optional<v1::FromVerifier> RawDrafter::Read() {
  v1::FromVerifier message;
  if (!stream_->Read(&message)) return std::nullopt;
  return message;
}

grpc::Status RawDrafter::ReadPlans(const std::function<void(const Asked&)>& on_plan) {
  std::map<uint64_t, v1::DraftKind> kinds;
  const auto take = [&](uint64_t session, const v1::Plan& plan) {
    on_plan({.session = session,
             .round = plan.round(),
             .length = plan.length(),
             .branching = {plan.branching().begin(), plan.branching().end()},
             .kind = kinds.at(session)});
  };
  for (v1::FromVerifier message; stream_->Read(&message);) {
    if (message.has_open()) {
      kinds[message.open().session()] = message.open().kind();
      take(message.open().session(), message.open().plan());
    }
    for (const v1::Verdict& verdict : message.verdicts().verdicts()) {
      take(verdict.session(), verdict.plan());
    }
    if (message.has_close()) kinds.erase(message.close().session());
  }
  return End();
}

grpc::Status RawDrafter::AnswerWith(
    v1::DraftKind kind, const std::function<void(const Asked&, v1::FromDrafter*)>& make) {
  return ReadPlans([&](const Asked& asked) {
    if (asked.kind != kind) return;
    v1::FromDrafter message;
    make(asked, &message);
    Send(message);
  });
}

grpc::Status RawDrafter::End() {
  ended_ = true;
  for (v1::FromVerifier message; stream_->Read(&message);) {
  }
  return stream_->Finish();
}

v1::Draft* AddDraft(v1::FromDrafter* message, const Asked& asked, uint32_t round,
                    const std::vector<uint32_t>& tokens, bool distributions) {
  v1::Draft* draft = message->mutable_drafts()->add_drafts();
  draft->set_session(asked.session);
  draft->set_round(round);
  draft->mutable_token_ids()->Assign(tokens.begin(), tokens.end());
  if (!distributions) return draft;
  for (const uint32_t token : tokens) {
    v1::DraftRow* row = draft->add_rows();
    row->add_id_gaps(token);
    row->add_weights(65536);
  }
  return draft;
}

}  // namespace outrider::testing
