// The messages of drafting.proto as our plain structs and back, for both sides, with every bound
// checked: protobuf types stop here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "common/spec/vocabulary_entries.h"
#include "outrider/v1/drafting.pb.h"

namespace outrider {

// No plan asks for more draft tokens, and none has more depths.
inline constexpr int kMaxChunkDraws = 1024;
// Tokens of one session, prompt and output: more than any context planned for.
inline constexpr int kMaxSessionTokens = 1 << 20;
// Names are for people: they go into logs and status answers.
inline constexpr size_t kMaxNameBytes = 256;
// Drafts or verdicts of one message: a few for each of the sessions that a service can hold. An
// empty one takes two bytes on the wire and a hundred in memory.
inline constexpr int kMaxBatchEntries = 65536;

// A drafter's messages. FromWire returns kInvalidArgument with the field named where one is longer
// than its limit above or a token id does not fit.

v1::FromDrafter ToWire(const DrafterHello& hello);
Result<DrafterHello> FromWire(const v1::Hello& wire);

v1::FromDrafter ToWire(const std::vector<DraftPart>& parts);
// `max_row_entries`: what the drafter was welcomed with.
Result<std::vector<DraftPart>> FromWire(const v1::DraftBatch& wire, int max_row_entries);
void ToWire(const DraftPart& part, v1::Draft* wire);
// kInvalidArgument also when a row's arrays differ in length, there are more rows or parents than
// tokens, or a row has more than `max_row_entries` entries (by default as many as there are units
// of weight). Whether the part fits the tree is for DraftTree::Append to judge, the rows' sums for
// Validate(DraftTree).
Result<DraftPart> FromWire(const v1::Draft& wire, int max_row_entries = kDraftWeightTotal);

v1::FromDrafter ToWire(const DrafterLoad& load);
DrafterLoad FromWire(const v1::Load& wire);

v1::FromDrafter ToWire(const VocabularyMatch& match);
VocabularyMatch FromWire(const v1::VocabularyMatch& wire);

// A verifier's messages; FromWire as above.

v1::FromVerifier ToWire(const VocabularyEntries& vocabulary);
// kInvalidArgument also when lengths, kinds and text do not fit together. Whether each token is
// there once is for VocabularyEntries::CheckDistinct to judge.
Result<VocabularyEntries> FromWire(const v1::Vocabulary& wire);

v1::FromVerifier ToWire(const DrafterWelcome& welcome);
// kFailedPrecondition: another protocol version. kInvalidArgument also for limits that allow no
// draft.
Result<DrafterWelcome> FromWire(const v1::Welcome& wire);

v1::FromVerifier ToWire(const SessionOpening& opening);
// kInvalidArgument also for a kind of draft that is not known.
Result<SessionOpening> FromWire(const v1::Open& wire);

v1::FromVerifier ToWire(const std::vector<SessionVerdict>& decisions);
Result<std::vector<SessionVerdict>> FromWire(const v1::VerdictBatch& wire);

void ToWire(const DraftPlan& plan, v1::Plan* wire);
// kInvalidArgument also for a stop rule that is none.
Result<DraftPlan> FromWire(const v1::Plan& wire);

v1::FromVerifier CloseMessage(uint64_t session);
v1::FromVerifier DrainMessage();

}  // namespace outrider
