// Converts the messages of generation.proto to the engine's plain structs and back: requests in;
// chunks, summaries and the verifier's status out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/incoming.h"
#include "common/text/tokenizer.h"
#include "outrider/v1/generation.pb.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/request.h"
#include "verifier/engine/sink.h"
#include "verifier/pool/drafter_roster.h"

namespace outrider {

// A client's largest message has a text of 4 MiB or 2^20 token ids of up to 5 bytes, and a few
// entries beside 1024 biases; the rest is for fields of later versions.
inline constexpr MessageLimits kClientMessage{.bytes = 8 << 20, .entries = 4096};

// Checks the sizes of all repeated fields and of the text without reading any of them, on the
// thread that received the message. kInvalidArgument names the field, the count and the limit.
Status CheckSizes(const v1::GenerateRequest& wire, const RequestLimits& limits);

// REQUIRES: CheckSizes has passed. Tokenizes a text prompt (with the tokenizer's prefix), in time
// proportional to it. Only checks numbers that may not fit in our types; Validate of
// engine/request.h does the rest. The caller adds the deadline.
Result<GenerationRequest> FromWire(const v1::GenerateRequest& wire, const Tokenizer& tokenizer,
                                   const RequestLimits& limits);

// A separate limit, because ids may add nothing to a text.
inline constexpr int kMaxDetokenizeIds = 1 << 20;
// kInvalidArgument: more than kMaxDetokenizeIds, an id beyond `vocab_size`, or a text of more than
// Tokenizer::kMaxTextBytes (one byte of an id may become a hundred of text).
Result<std::string> Detokenize(const v1::DetokenizeRequest& wire, const Tokenizer& tokenizer,
                               int vocab_size);

v1::GenerateResponse ToWire(const Chunk& chunk);
v1::GenerateResponse ToWire(const Summary& summary);
v1::GetStatusResponse ToWire(const EngineSnapshot& engine,
                             const std::vector<DrafterSnapshot>& drafters);

}  // namespace outrider
