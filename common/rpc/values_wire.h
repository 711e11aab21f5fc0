// Converts what the messages of both contracts have in common to our plain structs and back: how a
// request samples, is verified and stops its drafts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/spec/draft.h"
#include "common/spec/sampling_params.h"
#include "common/spec/stop_rule.h"
#include "outrider/v1/generation.pb.h"

namespace outrider {

// Counts on the wire are unsigned; beyond an int they count as "too many".
int ToInt(uint32_t value);

// kInvalidArgument "<name>.<field>: .." for a list longer than Validate accepts.
Status CheckSizes(const v1::SamplingParams& wire, const std::string& name);
void ToWire(const SamplingParams& params, v1::SamplingParams* wire);
// Fields that are not set keep the values of `defaults`. Only types are checked here; Validate of
// sampling_params.h checks values.
// REQUIRES: CheckSizes.
SamplingParams FromWire(const v1::SamplingParams& wire, const SamplingParams& defaults = {});

v1::SpeculationOptions::Rule ToWire(Rule rule);
// nullopt: the server's choice.
Result<std::optional<Rule>> FromWire(v1::SpeculationOptions::Rule wire);

void ToWire(const StopRule& rule, v1::StopRule* wire);
// nullopt: KIND_DEFAULT. kInvalidArgument: an unknown kind, a threshold out of range, or one for a
// kind that takes none.
Result<std::optional<StopRule>> FromWire(const v1::StopRule& wire);

}  // namespace outrider
