// Messages of the contract as our plain structs and back, with every bound checked: protobuf types
// stop here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "common/spec/sampling_params.h"
#include "common/spec/stop_rule.h"
#include "outrider/v1/drafting.pb.h"
#include "outrider/v1/generation.pb.h"

namespace outrider {

// Counts of the wire are unsigned; beyond an int they are as good as "too many".
int ToInt(uint32_t value);

void ToWire(const SamplingParams& params, v1::SamplingParams* wire);
// Fields that are not set keep what `defaults` has. Values are not judged here (Validate of
// sampling_params.h does), only types.
// REQUIRES: at most kMaxLogitBias entries of logit_bias, which it copies.
SamplingParams FromWire(const v1::SamplingParams& wire, const SamplingParams& defaults = {});

v1::SpeculationOptions::Rule ToWire(Rule rule);
// No value: the server's choice.
Result<std::optional<Rule>> FromWire(v1::SpeculationOptions::Rule wire);

void ToWire(const StopRule& rule, v1::StopRule* wire);
// No value: KIND_DEFAULT. kInvalidArgument: an unknown kind, a threshold out of range, or one for a
// kind that takes none.
Result<std::optional<StopRule>> FromWire(const v1::StopRule& wire);

void ToWire(const DraftShape& shape, uint32_t round, const StopRule& stop, v1::Plan* wire);
// REQUIRES: at most kMaxChunkDraws entries of branching, which it copies.
DraftShape FromWire(const v1::Plan& wire);

v1::DraftKind ToWire(DraftKind kind);
Result<DraftKind> FromWire(v1::DraftKind wire);

// Fills tokens, parents (left out for a single sequence), rows and `more`.
void ToWire(const DraftChunk& chunk, v1::Draft* wire);
// kInvalidArgument when an id does not fit, a row's arrays differ in length, there are more rows or
// parents than tokens, a row has more than `max_row_entries` entries, or the part is beyond
// kMaxChunkDraws. Whether it fits the tree is for DraftTree::Append to judge, the rows' sums for
// Validate(DraftTree). By default as many entries as there are units of weight.
Result<DraftChunk> FromWire(const v1::Draft& wire, int max_row_entries = kDraftLawTotal);

// No plan asks for more draws, and none has more depths.
inline constexpr int kMaxChunkDraws = 1024;
// Tokens of one session, prompt and output: more than any context planned for.
inline constexpr int kMaxSessionTokens = 1 << 20;
// Names are for people: they go into logs and status answers.
inline constexpr size_t kMaxNameBytes = 256;
// Drafts or verdicts of one message: a few for each of the sessions that a service can hold. An
// empty one takes two bytes on the wire and a hundred in memory.
inline constexpr int kMaxBatchEntries = 65536;

}  // namespace outrider
