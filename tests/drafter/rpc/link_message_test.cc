#include "drafter/rpc/link_message.h"

#include <gmock/gmock.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <limits>
#include <string>

#include "common/rpc/drafting_wire.h"
#include "tests/support/field_limits.h"

namespace outrider {
namespace {

using testing::ExpectLimits;
using testing::FieldLimit;
using ::testing::HasSubstr;

v1::FromVerifier Welcome(float mass, uint32_t max_entries, uint32_t vocab_limit,
                         uint32_t version = kDraftingProtocol) {
  v1::FromVerifier message;
  v1::Welcome* welcome = message.mutable_welcome();
  welcome->set_protocol_version(version);
  welcome->set_vocab_limit(vocab_limit);
  welcome->mutable_law_limits()->set_mass(mass);
  welcome->mutable_law_limits()->set_max_entries(max_entries);
  return message;
}

TEST(LinkMessageTest, RefusesSenselessWelcomes) {
  EXPECT_TRUE(ToLinkMessage(Welcome(1.f, 1, 1)).ok());
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float mass : {0.f, -1.f, 1.5f, kNan}) {
    EXPECT_EQ(ToLinkMessage(Welcome(mass, 8, 10)).status().code(), Code::kInvalidArgument) << mass;
  }
  EXPECT_EQ(ToLinkMessage(Welcome(1.f, 0, 10)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ToLinkMessage(Welcome(1.f, 8, 0)).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(ToLinkMessage(Welcome(1.f, 8, 10, kLowestDraftingProtocol)).ok());
  for (const uint32_t other : {0, kLowestDraftingProtocol - 1, kDraftingProtocol + 1}) {
    const Status version = ToLinkMessage(Welcome(1.f, 8, 10, other)).status();
    EXPECT_EQ(version.code(), Code::kFailedPrecondition);
    EXPECT_THAT(version.message(),
                HasSubstr("the drafter speaks 3 to 4, the verifier " + std::to_string(other)));
  }
}

TEST(LinkMessageTest, ClampsWhatNoIntCanHold) {
  const auto message = ToLinkMessage(Welcome(1.f, 1u << 31, 0xffffffffu));
  ASSERT_TRUE(message.ok());
  const DrafterWelcome& welcome = std::get<WelcomeEvent>(**message).welcome;
  EXPECT_EQ(welcome.distribution_limits.max_entries, 65536);
  EXPECT_EQ(welcome.vocab_limit, std::numeric_limits<int>::max());

  v1::FromVerifier wire;
  v1::Verdict* verdict = wire.mutable_verdicts()->add_verdicts();
  verdict->set_node(0xffffffffu);
  verdict->mutable_plan()->set_length(0x80000000u);
  verdict->mutable_plan()->add_branching(0xffffffffu);
  const auto verdicts = ToLinkMessage(wire);
  ASSERT_TRUE(verdicts.ok());
  const SessionVerdict& clamped = std::get<std::vector<SessionVerdict>>(**verdicts).at(0);
  EXPECT_GT(clamped.node, 0);
  EXPECT_GT(clamped.plan.shape.length, 0);
  EXPECT_GT(clamped.plan.shape.branching.at(0), 0);
}

TEST(LinkMessageTest, RefusesIdsThatAreNone) {
  v1::FromVerifier open;
  open.mutable_open()->add_token_ids(0x80000000u);
  EXPECT_EQ(ToLinkMessage(open).status().code(), Code::kInvalidArgument);
  v1::FromVerifier verdict;
  verdict.mutable_verdicts()->add_verdicts()->add_next(0xffffffffu);
  EXPECT_EQ(ToLinkMessage(verdict).status().code(), Code::kInvalidArgument);
}

TEST(LinkMessageTest, RefusesUnknownKind) {
  v1::FromVerifier open;
  open.mutable_open()->set_kind(v1::DRAFT_KIND_ARGMAX);
  EXPECT_TRUE(ToLinkMessage(open).ok());
  open.mutable_open()->set_kind(static_cast<v1::DraftKind>(99));
  EXPECT_EQ(ToLinkMessage(open).status().code(), Code::kInvalidArgument);
}

// The limit of a field of FromVerifier; `fill` gives the field `count` entries or bytes.
template <class Fill>
FieldLimit Limit(int64_t limit, const std::string& named, Fill fill) {
  return {limit, named, [fill](int64_t count) {
            v1::FromVerifier message;
            fill(static_cast<int>(count), message);
            return ToLinkMessage(message).status();
          }};
}

constexpr auto kGrammarBytes = static_cast<int64_t>(kMaxGrammarBytes);
constexpr char kOutput[] = "open.structured_output";

std::string Bytes(int count) { return std::string(static_cast<size_t>(count), 'a'); }

v1::StructuredOutput& Output(v1::FromVerifier& message) {
  return *message.mutable_open()->mutable_sampling()->mutable_structured_output();
}
// With a grammar of one byte.
v1::SchemaRule& Schema(v1::FromVerifier& message) {
  Output(message).set_gbnf("a");
  return *Output(message).add_schemas();
}

TEST(LinkMessageTest, EveryVerifierFieldHasLimit) {
  const auto verdict = [](v1::FromVerifier& message) {
    return message.mutable_verdicts()->add_verdicts();
  };
  ExpectLimits(
      v1::FromVerifier::descriptor(),
      {{"welcome.model", Limit(kMaxNameBytes, "welcome.model",
                               [](int count, auto& message) {
                                 message = Welcome(1.f, 1, 1);
                                 message.mutable_welcome()->set_model(
                                     std::string(static_cast<size_t>(count), 'm'));
                               })},
       {"welcome.zone", Limit(kMaxNameBytes, "welcome.zone",
                              [](int count, auto& message) {
                                message = Welcome(1.f, 1, 1);
                                message.mutable_welcome()->set_zone(
                                    std::string(static_cast<size_t>(count), 'z'));
                              })},
       {"vocabulary.entries",
        {VocabularyEntries::kMaxEntries, "vocabulary.entries",
         [](int64_t count) {
           v1::Vocabulary vocabulary;
           vocabulary.mutable_entries()->Resize(static_cast<int>(count), 0);
           return FromWire(vocabulary).status();
         }}},
       {"vocabulary.text",
        {VocabularyEntries::kMaxTextBytes, "vocabulary.text",
         [](int64_t count) {
           v1::Vocabulary vocabulary;
           vocabulary.set_text(Bytes(static_cast<int>(count)));
           return FromWire(vocabulary).status();
         }}},
       {"vocabulary.end_tokens",
        {VocabularyEntries::kMaxEndTokens, "vocabulary.end_tokens",
         [](int64_t count) {
           v1::Vocabulary vocabulary;
           vocabulary.mutable_entries()->Resize(static_cast<int>(count), 4 + 1);
           vocabulary.set_text(Bytes(static_cast<int>(count)));
           for (uint32_t id = 0; id < count; ++id) vocabulary.add_end_tokens(id);
           return FromWire(vocabulary).status();
         }}},
       {"open.token_ids", Limit(kMaxSessionTokens, "open.token_ids",
                                [](int count, auto& message) {
                                  message.mutable_open()->mutable_token_ids()->Resize(count, 1);
                                })},
       {"open.sampling.logit_bias",
        Limit(kMaxLogitBias, "open.logit_bias",
              [](int count, auto& message) {
                auto& bias = *message.mutable_open()->mutable_sampling()->mutable_logit_bias();
                for (int i = 0; i < count; ++i) bias[static_cast<uint32_t>(i)] = 1;
              })},
       {"open.sampling.allowed_token_ids",
        Limit(kMaxAllowedTokens, "open.allowed_token_ids",
              [](int count, auto& message) {
                message.mutable_open()->mutable_sampling()->mutable_allowed_token_ids()->Resize(
                    count, 1);
              })},
       {"open.sampling.bad_words",
        Limit(kMaxBadWords, "open.bad_words",
              [](int count, auto& message) {
                for (int i = 0; i < count; ++i) {
                  message.mutable_open()->mutable_sampling()->add_bad_words()->add_ids(1);
                }
              })},
       {"open.sampling.bad_words.ids",
        Limit(kMaxBadWordTokens, "open.bad_words",
              [](int count, auto& message) {
                message.mutable_open()->mutable_sampling()->add_bad_words()->mutable_ids()->Resize(
                    count, 1);
              })},
       {"open.sampling.structured_output.json_schema",
        Limit(kGrammarBytes, kOutput,
              [](int count, auto& message) { Output(message).set_json_schema(Bytes(count)); })},
       {"open.sampling.structured_output.regex",
        Limit(kGrammarBytes, kOutput,
              [](int count, auto& message) { Output(message).set_regex(Bytes(count)); })},
       {"open.sampling.structured_output.gbnf",
        Limit(kGrammarBytes, kOutput,
              [](int count, auto& message) { Output(message).set_gbnf(Bytes(count)); })},
       {"open.sampling.structured_output.choice.texts",
        Limit(kMaxGrammarChoices, "open.structured_output.choice",
              [](int count, auto& message) {
                for (int i = 0; i < count; ++i) Output(message).mutable_choice()->add_texts("a");
              })},
       {"open.sampling.structured_output.schemas",
        Limit(kMaxGrammarSchemas, "open.structured_output.schemas",
              [](int count, auto& message) {
                Output(message).set_gbnf("a");
                for (int i = 0; i < count; ++i) Output(message).add_schemas();
              })},
       {"open.sampling.structured_output.schemas.name",
        Limit(kGrammarBytes, kOutput,
              [](int count, auto& message) { Schema(message).set_name(Bytes(count - 1)); })},
       {"open.sampling.structured_output.schemas.schema",
        Limit(kGrammarBytes, kOutput,
              [](int count, auto& message) { Schema(message).set_schema(Bytes(count - 1)); })},
       {"open.sampling.structured_output.schemas.path", Limit(kGrammarBytes, kOutput,
                                                              [](int count, auto& message) {
                                                                v1::SchemaRule& rule =
                                                                    Schema(message);
                                                                for (int i = 1; i < count; ++i)
                                                                  rule.add_path();
                                                              })},
       {"open.plan.branching",
        Limit(kMaxChunkDraws, "plan.branching",
              [](int count, auto& message) {
                message.mutable_open()->mutable_plan()->mutable_branching()->Resize(count, 1);
              })},
       {"open.traceparent", Limit(kMaxNameBytes, "open.traceparent",
                                  [](int count, auto& message) {
                                    message.mutable_open()->set_traceparent(
                                        std::string(static_cast<size_t>(count), '0'));
                                  })},
       {"verdicts.verdicts", Limit(kMaxVerdicts, "verdicts",
                                   [&](int count, auto& message) {
                                     for (int i = 0; i < count; ++i) verdict(message);
                                   })},
       {"verdicts.verdicts.next", Limit(kMaxSessionTokens, "verdicts.next",
                                        [&](int count, auto& message) {
                                          verdict(message)->mutable_next()->Resize(count, 1);
                                        })},
       {"verdicts.verdicts.plan.branching",
        Limit(kMaxChunkDraws, "plan.branching",
              [&](int count, auto& message) {
                verdict(message)->mutable_plan()->mutable_branching()->Resize(count, 1);
              })},
       {"verdicts.verdicts.acceptance",
        Limit(kMaxChunkDraws, "verdicts.acceptance", [&](int count, auto& message) {
          verdict(message)->set_acceptance(std::string(static_cast<size_t>(count), 'x'));
        })}});
}

// Whether the message is within the limits of a verifier's, and what is said otherwise.
Status Parse(const v1::FromVerifier& message) {
  grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer bytes(&slice, 1);
  v1::FromVerifier parsed;
  return ParseRequest(&bytes, kVerifierMessage, &parsed);
}

TEST(LinkMessageTest, LargestMessagesParse) {
  v1::FromVerifier vocabulary;
  vocabulary.mutable_vocabulary()->mutable_entries()->Resize(VocabularyEntries::kMaxEntries, 4096);
  vocabulary.mutable_vocabulary()->set_text(std::string(VocabularyEntries::kMaxTextBytes, 'a'));
  EXPECT_EQ(Parse(vocabulary).message(), "");
  v1::FromVerifier open;
  open.mutable_open()->mutable_token_ids()->Resize(kMaxSessionTokens, 1 << 20);
  v1::SamplingParams* sampling = open.mutable_open()->mutable_sampling();
  sampling->mutable_allowed_token_ids()->Resize(kMaxAllowedTokens, 1 << 20);
  for (int i = 0; i < kMaxGrammarSchemas; ++i) {
    v1::SchemaRule* schema = sampling->mutable_structured_output()->add_schemas();
    schema->set_name("a");
    schema->set_schema(std::string(200, 'a'));
    schema->add_path("b");
  }
  EXPECT_EQ(Parse(open).message(), "");
  v1::FromVerifier verdicts;
  for (int i = 0; i < kMaxVerdicts; ++i) {
    v1::Verdict* verdict = verdicts.mutable_verdicts()->add_verdicts();
    verdict->set_acceptance(std::string(64, 'a'));
    verdict->mutable_next()->Resize(64, 1 << 20);
    verdict->mutable_plan()->mutable_branching()->Resize(64, 1);
    verdict->mutable_plan()->mutable_stop()->set_threshold(1.f);
  }
  EXPECT_EQ(Parse(verdicts).message(), "");
}

TEST(LinkMessageTest, IgnoresMessagesOfALaterVersion) {
  const auto message = ToLinkMessage(v1::FromVerifier());
  ASSERT_TRUE(message.ok());
  EXPECT_FALSE(message->has_value());
}

}  // namespace
}  // namespace outrider
