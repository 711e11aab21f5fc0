// The verifier's messages: requests in, chunks and plans out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/text/tokenizer.h"
#include "outrider/v1/drafting.pb.h"
#include "outrider/v1/generation.pb.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/request.h"
#include "verifier/engine/sink.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

// Tokenizes a text prompt (with the tokenizer's prefix); what is not set has the defaults of
// `limits`. Judges only what types cannot hold;
// Validate of engine/request.h does the rest. The deadline is the caller's to add.
Result<GenerationRequest> FromWire(const v1::GenerateRequest& wire, const Tokenizer& tokenizer,
                                   const RequestLimits& limits);

// kInvalidArgument: an id beyond `vocab_size`, or a text of more than Tokenizer::kMaxTextBytes (an
// id of a byte may stand for a hundred).
Result<std::string> Detokenize(const v1::DetokenizeRequest& wire, const Tokenizer& tokenizer,
                               int vocab_size);

v1::GenerateResponse ToWire(const Chunk& chunk);
v1::GenerateResponse ToWire(const Summary& summary);
v1::GetStatusResponse ToWire(const EngineSnapshot& engine,
                             const std::vector<DrafterSnapshot>& drafters);

// Names are for people: they go into logs and status answers.
inline constexpr size_t kMaxNameBytes = 256;
Result<DrafterHello> FromWire(const v1::Hello& wire);
Result<std::vector<ArrivedDraft>> FromWire(const v1::DraftBatch& wire);
v1::FromVerifier ToWire(const DrafterWelcome& welcome);
v1::FromVerifier ToWire(const SessionStart& start);
v1::FromVerifier ToWire(const std::vector<RoundDecision>& decisions);

}  // namespace outrider
