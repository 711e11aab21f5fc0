#include "client/generate.h"

#include <array>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/draft_marks.h"
#include "client/verifier_client.h"
#include "common/base/clock.h"
#include "common/base/input_file.h"
#include "common/base/signals.h"
#include "common/trace/trace_context.h"

namespace outrider {
namespace {

Result<std::string> ReadPrompt(const std::string& path, std::istream& in) {
  if (path != "-") return ReadFile(path, kMaxPromptFileBytes, InputKind::kAny);
  std::string text;
  std::array<char, 1 << 16> part;
  while (in.read(part.data(), part.size()), in.gcount() > 0) {
    text.append(part.data(), static_cast<size_t>(in.gcount()));
    if (text.size() > kMaxPromptFileBytes) {
      return InvalidArgument("standard input has more than " + std::to_string(kMaxPromptFileBytes) +
                             " bytes");
    }
  }
  // std::cin takes an error of stdio for the end.
  if (in.bad() || (&in == &std::cin && std::ferror(stdin) != 0)) {
    return DataLoss("standard input: reading failed");
  }
  return text;
}

Status SetPrompt(const GenerateOptions& options, std::istream& in, v1::GenerateRequest* request) {
  if (const auto* tokens = std::get_if<TokenPrompt>(&options.prompt)) {
    request->mutable_token_ids()->mutable_ids()->Assign(tokens->token_ids.begin(),
                                                        tokens->token_ids.end());
  } else if (const auto* file = std::get_if<FilePrompt>(&options.prompt)) {
    OUTRIDER_ASSIGN(*request->mutable_text(), ReadPrompt(file->path, in));
  } else {
    request->set_text(std::get<TextPrompt>(options.prompt).text);
  }
  return Status();
}

constexpr char kInterrupted[] = "interrupted";

const char* ReasonName(v1::Finished::Reason reason) {
  switch (reason) {
    case v1::Finished::REASON_STOP: return "stop";
    case v1::Finished::REASON_LENGTH: return "length";
    default: return "unknown";
  }
}

// What a request has produced so far, and when.
struct Output {
  std::string text;
  std::vector<uint32_t> token_ids;
  Time started;
  std::optional<Time> first_token;
  // Over chunks, each of which is a round.
  uint32_t rounds = 0, drafted = 0, accepted = 0;
};

// The last message that an interrupted request would have had, as far as it is known.
v1::Finished Interrupted(const Output& output) {
  v1::Finished finished;
  finished.set_completion_tokens(static_cast<uint32_t>(output.token_ids.size()));
  finished.mutable_speculation()->set_rounds(output.rounds);
  finished.mutable_speculation()->set_drafted_tokens(output.drafted);
  finished.mutable_speculation()->set_accepted_tokens(output.accepted);
  return finished;
}

// `trace`: the id; "": none.
std::string Json(const Output& output, const v1::Finished& finished, bool interrupted,
                 double seconds, const std::string& trace) {
  nlohmann::ordered_json json;
  json["text"] = output.text;
  json["token_ids"] = output.token_ids;
  json["finish_reason"] = interrupted ? kInterrupted : ReasonName(finished.reason());
  // Like the seed, only the verifier's last message has it.
  if (!interrupted) json["prompt_tokens"] = finished.prompt_tokens();
  json["completion_tokens"] = finished.completion_tokens();
  json["drafted_tokens"] = finished.speculation().drafted_tokens();
  json["accepted_tokens"] = finished.speculation().accepted_tokens();
  json["rounds"] = finished.speculation().rounds();
  json["tokens_per_second"] = finished.completion_tokens() / seconds;
  if (!interrupted) json["seed"] = finished.seed();
  if (!trace.empty()) json["trace_id"] = trace;
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Statistics(const Output& output, const v1::Finished& finished, bool interrupted,
                       double seconds) {
  const v1::SpeculationStats& speculation = finished.speculation();
  char line[256];
  std::snprintf(line, sizeof line,
                "%u tokens in %.2f s (%.1f tokens/s, first after %.3f s); %u rounds, %u tokens "
                "drafted, %u accepted; finish: %s",
                finished.completion_tokens(), seconds, finished.completion_tokens() / seconds,
                Seconds(output.first_token.value_or(output.started) - output.started),
                speculation.rounds(), speculation.drafted_tokens(), speculation.accepted_tokens(),
                interrupted ? kInterrupted : ReasonName(finished.reason()));
  if (interrupted) return line;
  return line + ("; seed " + std::to_string(finished.seed()));
}

// The chunk's text with the drafted part marked. Asks the verifier for the text of the tokens that
// were not drafted; if that fails, the text stays unmarked, because the answer matters more.
std::string Marked(const v1::TokenChunk& chunk, const VerifierClient& client, MarkStyle style) {
  if (chunk.accepted() == 0) return chunk.text();
  const std::span<const uint32_t> ids(chunk.token_ids().data(),
                                      static_cast<size_t>(chunk.token_ids_size()));
  const auto own = client.Detokenize(ids.subspan(std::min<size_t>(chunk.accepted(), ids.size())));
  return own.ok() ? MarkAccepted(chunk.text(), *own, style) : chunk.text();
}

}  // namespace

Result<int> RunGenerate(const GenerateOptions& options, const Console& console) {
  v1::GenerateRequest request = MakeRequest(options.request);
  OUTRIDER_TRY(SetPrompt(options, console.in, &request));
  const StopOnSignal stop;
  OUTRIDER_ASSIGN(const VerifierClient client, VerifierClient::Create(options.connection));
  const MarkStyle style = console.colour ? MarkStyle::kColour : MarkStyle::kBrackets;

  const TraceContext context{.trace = NewTraceId(), .span = NewSpanId(), .sampled = true};
  const std::string trace = options.trace ? ToHex(context.trace) : "";

  Output output;
  output.started = SteadyClock().Now();
  const auto on_chunk = [&](const v1::TokenChunk& chunk) {
    if (!output.first_token.has_value()) output.first_token = SteadyClock().Now();
    ++output.rounds;
    output.drafted += chunk.drafted();
    output.accepted += chunk.accepted();
    output.text += chunk.text();
    output.token_ids.insert(output.token_ids.end(), chunk.token_ids().begin(),
                            chunk.token_ids().end());
    if (options.json) return;
    console.out << (options.show_drafts ? Marked(chunk, client, style) : chunk.text())
                << std::flush;
  };
  const auto finished =
      client.Generate(request, options.request.timeout_seconds, on_chunk, stop.token(),
                      options.trace ? FormatTraceparent(context) : "");
  const double seconds = Seconds(SteadyClock().Now() - output.started);
  if (!options.json && !output.text.empty()) console.out << std::endl;
  if (!options.json && options.trace) console.err << "trace " << trace << std::endl;
  const bool interrupted = !finished.ok() && stop.signal() != 0;
  if (!finished.ok() && !interrupted) return finished.status();
  const v1::Finished& known = interrupted ? Interrupted(output) : *finished;
  if (options.json) {
    console.out << Json(output, known, interrupted, seconds, trace) << std::endl;
  } else {
    console.err << Statistics(output, known, interrupted, seconds) << std::endl;
  }
  return interrupted ? 128 + stop.signal() : 0;
}

}  // namespace outrider
