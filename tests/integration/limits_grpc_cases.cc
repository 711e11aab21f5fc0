// The cases of the table "gRPC".
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "common/spec/drafter_hello.h"
#include "common/text/tokenizer.h"
#include "outrider/v1/drafting.grpc.pb.h"
#include "outrider/v1/generation.grpc.pb.h"
#include "tests/integration/limits_cases.h"

namespace outrider::limits {
namespace {

constexpr char kLinkMessageTest[] = "tests/drafter/rpc/link_message_test.cc";
constexpr char kVerifierLinkTest[] = "tests/drafter/rpc/verifier_link_test.cc";
constexpr char kDrafterLimits[] = "EveryVerifierFieldHasLimit";
constexpr char kWorkersTest[] = "tests/verifier/engine/text_workers_test.cc";

// The answer of Generate to a request completed by `fill`.
template <class Fill>
Ask Generating(Fill fill) {
  return [fill](Target& target, int64_t size) {
    v1::GenerateRequest request;
    request.set_text("abc");
    request.mutable_stop()->set_max_tokens(1);
    fill(size, request);
    testing::TestClient client(target.verifier.address());
    grpc::ClientContext context;
    const auto stream = client.stub().Generate(&context, request);
    v1::GenerateResponse response;
    while (stream->Read(&response)) {
    }
    return CodeName(static_cast<Code>(stream->Finish().error_code()));
  };
}

v1::FromDrafter HelloOf(const std::string& model) {
  const auto tokenizer = Tokenizer::Load(model);
  EXPECT_TRUE(tokenizer.ok());
  const TokenizerFingerprint fingerprint = (*tokenizer)->fingerprint();
  v1::FromDrafter message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(kDraftingProtocol);
  hello->set_name("d0");
  v1::TokenizerFingerprint* wire = hello->mutable_tokenizer();
  wire->set_vocab_size(static_cast<uint32_t>(fingerprint.vocab_size));
  wire->set_vocabulary(fingerprint.vocabulary);
  wire->set_merges(fingerprint.merges);
  wire->set_special_tokens(fingerprint.special_tokens);
  hello->set_vocab_size(300);
  hello->set_max_sessions(1);
  hello->set_max_draft_length(4);
  hello->set_max_draft_tokens(4);
  hello->set_max_context(512);
  return message;
}

// The outcome for a drafter that matches and then sends `message`.
std::string Attached(Target& target, const v1::FromDrafter& message) {
  const auto stub = v1::Drafting::NewStub(
      grpc::CreateChannel(target.verifier.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Attach(&context);
  v1::FromVerifier received;
  if (!stream->Write(HelloOf(target.model)) || !stream->Read(&received)) {
    return "refused: " + stream->Finish().error_message();
  }
  stream->Write(message);
  stream->WritesDone();
  while (stream->Read(&received)) {
  }
  const bool closed = stream->Finish().error_code() == grpc::StatusCode::INVALID_ARGUMENT;
  return closed ? "its stream is closed" : "accepted";
}

std::string LongNames(Target& target, int64_t size) {
  int closed = 0;
  for (const bool name : {true, false}) {
    v1::FromDrafter message;
    v1::Hello* hello = message.mutable_hello();
    *(name ? hello->mutable_name() : hello->mutable_model()) =
        std::string(static_cast<size_t>(size), 'x');
    const std::string code =
        target.CodeOf("/outrider.v1.Drafting/Attach", message.SerializeAsString());
    closed += code == "INVALID_ARGUMENT" ? 1 : 0;
  }
  return closed == 2 ? "its stream is closed" : "accepted";
}

std::string DraftsOfAMessage(Target& target, int64_t size) {
  v1::FromDrafter message;
  for (int64_t i = 0; i < size; ++i) message.mutable_drafts()->add_drafts();
  return Attached(target, message);
}

std::string TokensOfAPart(Target& target, int64_t size) {
  v1::FromDrafter message;
  v1::Draft* draft = message.mutable_drafts()->add_drafts();
  for (int64_t i = 0; i < size; ++i) draft->add_token_ids(5);
  return Attached(target, message);
}

std::string TokenizeText(Target& target, int64_t size) {
  v1::TokenizeRequest request;
  request.set_text(std::string(static_cast<size_t>(size), ' '));
  return target.CodeOf(kTokenize, request.SerializeAsString());
}

std::string DetokenizeIds(Target& target, int64_t size) {
  v1::DetokenizeRequest request;
  for (int64_t i = 0; i < size; ++i) request.add_token_ids(5);
  return target.CodeOf("/outrider.v1.Generation/Detokenize", request.SerializeAsString());
}

const Cases kGrpcCases = {
    {"`Generate`: `text`", Only{Generating([](int64_t, v1::GenerateRequest& r) {
       r.set_text(std::string(64 << 10, ' '));
     })}},
    {"`Generate`: `token_ids`", Only{Generating([](int64_t, v1::GenerateRequest& r) {
       for (int i = 0; i < 512; ++i) r.mutable_token_ids()->add_ids(5);
     })}},
    {"`Generate`: `sampling.logit_bias`", Only{Generating([](int64_t size, v1::GenerateRequest& r) {
       auto& bias = *r.mutable_sampling()->mutable_logit_bias();
       for (int64_t i = 0; i < size; ++i) bias[static_cast<uint32_t>(i)] = 1;
     })}},
    {"`Generate`: `sampling.allowed_token_ids`",
     Only{Generating([](int64_t, v1::GenerateRequest& r) {
       r.mutable_sampling()->mutable_allowed_token_ids()->Resize((1 << 16) + 1, 5);
     })}},
    {"`Generate`: `sampling.bad_words`", Only{Generating([](int64_t, v1::GenerateRequest& r) {
       for (int i = 0; i <= 512; ++i) r.mutable_sampling()->add_bad_words()->add_ids(5);
     })}},
    {"`Generate`: `sampling.structured_output`",
     Only{Generating([](int64_t size, v1::GenerateRequest& r) {
       const std::string text(static_cast<size_t>(size), 'a');
       r.mutable_sampling()->mutable_structured_output()->set_regex(text);
     })}},
    {"`Generate`: `sampling.structured_output.choice`, `.schemas`",
     Only{Generating([](int64_t size, v1::GenerateRequest& r) {
       auto& choice = *r.mutable_sampling()->mutable_structured_output()->mutable_choice();
       for (int64_t i = 0; i < size; ++i) choice.add_texts("a");
     })}},
    {"`Generate`: `stop.stop_strings`", Try{Generating([](int64_t size, v1::GenerateRequest& r) {
       for (int64_t i = 0; i < size; ++i) r.mutable_stop()->add_stop_strings("z");
     })}},
    {"`Generate`: `stop.stop_token_ids`", Try{Generating([](int64_t size, v1::GenerateRequest& r) {
       for (int64_t i = 0; i < size; ++i) r.mutable_stop()->add_stop_token_ids(5);
     })}},
    {"`Generate`: `prompt_logprobs`",
     Only{Generating([](int64_t, v1::GenerateRequest& r) { r.set_prompt_logprobs(21); })}},
    {"`Generate`: `speculation.tree`", Only{Generating([](int64_t, v1::GenerateRequest& r) {
       for (int i = 0; i < 2000; ++i) r.mutable_speculation()->add_tree(1);
     })}},
    {"`Tokenize`: `text`", Try{TokenizeText}},
    {"`Detokenize`: `token_ids`", Try{DetokenizeIds}},
    {"texts that wait for a worker", HeldBy{kWorkersTest, "RefuseBeyondQueueAndDeadline"}},
    {"texts of one client that are tokenized at once",
     HeldBy{kWorkersTest, "OneClientLeavesWorkerToOthers"}},
    {"`GetStatus` calls that wait for their answer",
     HeldBy{"tests/verifier/rpc/generation_service_test.cc", "StatusCallsShareOneSnapshot"}},
    {"drafter: `hello.name`, `hello.model`", Try{LongNames}},
    {"drafters attached",
     HeldBy{"tests/verifier/pool/drafter_hello_test.cc", "RefusesDraftersBeyondTheirNumber"}},
    {"drafter: `drafts` of a message", Only{DraftsOfAMessage}},
    {"drafter: `token_ids`, `parents`, `rows` of a part", Only{TokensOfAPart}},
    {"drafter: early drafts of a round",
     HeldBy{"tests/verifier/pool/assignments_test.cc", "AreWholeValidAndFew"}},
    {"drafter: entries of a row",
     HeldBy{"tests/common/rpc/drafting_wire_test.cc", "MalformedDraftsAreRefused"}},
    {"verifier: `vocabulary.entries`, `vocabulary.text`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `vocabulary.end_tokens`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: a token of `vocabulary`",
     HeldBy{"tests/common/rpc/drafting_wire_test.cc", "MalformedVocabulariesAreRefused"}},
    {"verifier: `open.token_ids`, `verdicts.next`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `open.sampling.logit_bias`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `open.sampling.allowed_token_ids`, `open.sampling.bad_words`",
     HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `open.sampling.structured_output`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `plan.branching`, `verdicts.acceptance`", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `verdicts` of a message", HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: `welcome.model`, `welcome.zone`, `open.traceparent`",
     HeldBy{kLinkMessageTest, kDrafterLimits}},
    {"verifier: a message",
     HeldBy{"tests/drafter/rpc/attach_stream_test.cc", "ManyOrManyBytesEndIt"}},
    {"verifier: sessions that wait for their grammars to be compiled",
     HeldBy{"tests/drafter/propose/grammar_compiler_test.cc", "FullQueueIsItsVerifiers"}},
    {"verifier: steps of its sessions' grammars on the drafting loop",
     HeldBy{"tests/drafter/propose/draft_grammar_test.cc", "ShareEndsMasksBeforeReading"}},
    {"verifier: messages that wait for the drafting loop",
     HeldBy{kVerifierLinkTest, "FloodStaysInItsConnection"}},
    {"verifier: messages for it that it does not read",
     HeldBy{kVerifierLinkTest, "UnreadBytesEndStream"}},
};

}  // namespace

const Cases& GrpcCases() { return kGrpcCases; }

}  // namespace outrider::limits
