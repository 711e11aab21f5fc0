// Converts the messages of drafting.proto to our plain structs and back, for both sides, and checks
// all bounds. Protobuf types are not used beyond this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/spec/drafter_demand.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "common/spec/vocabulary_entries.h"
#include "outrider/v1/drafting.pb.h"

namespace outrider {

// The most draft tokens, and depths, of a plan.
inline constexpr int kMaxChunkDraws = 1024;
// The most tokens of a session, prompt and output: more than any context planned for.
inline constexpr int kMaxSessionTokens = 1 << 20;
// Names are shown to people in logs and status answers.
inline constexpr size_t kMaxNameBytes = 256;
// The most drafts of one message: a few for each of the sessions that a service can hold. An empty
// one takes two bytes on the wire and a hundred in memory.
inline constexpr int kMaxBatchEntries = 65536;
// The most verdicts of one message: one for each of the sessions that a drafter can hold
// (--max-sessions).
inline constexpr int kMaxVerdicts = 4096;

// A drafter's messages. FromWire returns kInvalidArgument, naming the field, if it is longer than
// its limit above or a token id is out of range.

v1::FromDrafter ToWire(const DrafterHello& hello);
Result<DrafterHello> FromWire(const v1::Hello& wire);

v1::FromDrafter ToWire(const std::vector<DraftPart>& parts);
// `max_row_entries`: what the drafter was told in the welcome.
Result<std::vector<DraftPart>> FromWire(const v1::DraftBatch& wire, int max_row_entries);
void ToWire(const DraftPart& part, v1::Draft* wire);
// kInvalidArgument also if a distribution's arrays differ in length, there are more distributions
// or parents than tokens, or a distribution has more than `max_row_entries` entries (by default as
// many as there are units of weight). DraftTree::Append checks whether the part fits the tree,
// Validate(DraftTree) the sums of weights.
Result<DraftPart> FromWire(const v1::Draft& wire, int max_row_entries = kDraftWeightTotal);

v1::FromDrafter ToWire(const DrafterLoad& load);
DrafterLoad FromWire(const v1::Load& wire);

v1::FromDrafter ToWire(const VocabularyMatch& match);
VocabularyMatch FromWire(const v1::VocabularyMatch& wire);

// A verifier's messages; FromWire is as above.

v1::FromVerifier ToWire(const VocabularyEntries& vocabulary);
// kInvalidArgument also if lengths, kinds and text are inconsistent.
// VocabularyEntries::CheckDistinct checks for duplicate tokens.
Result<VocabularyEntries> FromWire(const v1::Vocabulary& wire);

v1::FromVerifier ToWire(const DrafterWelcome& welcome);
// kFailedPrecondition: a protocol version that we do not speak. kInvalidArgument also if the limits
// allow no draft.
Result<DrafterWelcome> FromWire(const v1::Welcome& wire);

v1::FromVerifier ToWire(const SessionOpening& opening);
// kInvalidArgument also for an unknown kind of draft.
Result<SessionOpening> FromWire(const v1::Open& wire);

v1::FromVerifier ToWire(const std::vector<SessionVerdict>& decisions);
Result<std::vector<SessionVerdict>> FromWire(const v1::VerdictBatch& wire);

void ToWire(const DraftPlan& plan, v1::Plan* wire);
// kInvalidArgument also for an invalid stop rule.
Result<DraftPlan> FromWire(const v1::Plan& wire);

v1::FromVerifier ToWire(const DrafterDemand& demand);
DrafterDemand FromWire(const v1::Demand& wire);

v1::FromVerifier CloseMessage(uint64_t session);
v1::FromVerifier DrainMessage();

}  // namespace outrider
