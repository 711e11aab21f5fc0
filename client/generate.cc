#include "client/generate.h"

#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/draft_marks.h"
#include "client/verifier_client.h"
#include "common/base/clock.h"
#include "common/base/input_file.h"

namespace outrider {
namespace {

Result<std::string> ReadPrompt(const std::string& path, std::istream& in) {
  if (path != "-") return ReadFile(path, kMaxPromptFileBytes);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return DataLoss("standard input: reading failed");
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

const char* ReasonName(v1::Finished::Reason reason) {
  switch (reason) {
    case v1::Finished::REASON_STOP: return "stop";
    case v1::Finished::REASON_LENGTH: return "length";
    default: return "unknown";
  }
}

// What has come of a request so far, and when.
struct Output {
  std::string text;
  std::vector<uint32_t> token_ids;
  Time started;
  std::optional<Time> first_token;
};

std::string Json(const Output& output, const v1::Finished& finished, double seconds) {
  nlohmann::ordered_json json;
  json["text"] = output.text;
  json["token_ids"] = output.token_ids;
  json["finish_reason"] = ReasonName(finished.reason());
  json["prompt_tokens"] = finished.prompt_tokens();
  json["completion_tokens"] = finished.completion_tokens();
  json["drafted_tokens"] = finished.speculation().drafted_tokens();
  json["accepted_tokens"] = finished.speculation().accepted_tokens();
  json["rounds"] = finished.speculation().rounds();
  json["tokens_per_second"] = finished.completion_tokens() / seconds;
  json["seed"] = finished.seed();
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Statistics(const Output& output, const v1::Finished& finished, double seconds) {
  const v1::SpeculationStats& speculation = finished.speculation();
  char line[256];
  std::snprintf(line, sizeof line,
                "%u tokens in %.2f s (%.1f tokens/s, first after %.3f s); %u rounds, %u tokens "
                "drafted, %u accepted; finish: %s; seed %llu",
                finished.completion_tokens(), seconds, finished.completion_tokens() / seconds,
                Seconds(output.first_token.value_or(output.started) - output.started),
                speculation.rounds(), speculation.drafted_tokens(), speculation.accepted_tokens(),
                ReasonName(finished.reason()), static_cast<unsigned long long>(finished.seed()));
  return line;
}

// The chunk's text with the drafted part marked. Asks the verifier for the text of the tokens that
// were not drafted; should that fail, the text comes unmarked: the answer matters more.
std::string Marked(const v1::TokenChunk& chunk, const VerifierClient& client, MarkStyle style) {
  if (chunk.accepted() == 0) return chunk.text();
  const std::span<const uint32_t> ids(chunk.token_ids().data(),
                                      static_cast<size_t>(chunk.token_ids_size()));
  const auto own = client.Detokenize(ids.subspan(std::min<size_t>(chunk.accepted(), ids.size())));
  return own.ok() ? MarkAccepted(chunk.text(), *own, style) : chunk.text();
}

}  // namespace

Status RunGenerate(const GenerateOptions& options, const Console& console) {
  v1::GenerateRequest request = MakeRequest(options.request);
  OUTRIDER_TRY(SetPrompt(options, console.in, &request));
  OUTRIDER_ASSIGN(const VerifierClient client, VerifierClient::Create(options.connection));
  const MarkStyle style = console.colour ? MarkStyle::kColour : MarkStyle::kBrackets;

  Output output;
  output.started = SteadyClock().Now();
  const auto on_chunk = [&](const v1::TokenChunk& chunk) {
    if (!output.first_token.has_value()) output.first_token = SteadyClock().Now();
    output.text += chunk.text();
    output.token_ids.insert(output.token_ids.end(), chunk.token_ids().begin(),
                            chunk.token_ids().end());
    if (options.json) return;
    console.out << (options.show_drafts ? Marked(chunk, client, style) : chunk.text())
                << std::flush;
  };
  const auto finished = client.Generate(request, options.request.timeout_seconds, on_chunk);
  const double seconds = Seconds(SteadyClock().Now() - output.started);
  if (!options.json && !output.text.empty()) console.out << std::endl;
  if (!finished.ok()) return finished.status();
  if (options.json) {
    console.out << Json(output, *finished, seconds) << std::endl;
  } else {
    console.err << Statistics(output, *finished, seconds) << std::endl;
  }
  return Status();
}

}  // namespace outrider
