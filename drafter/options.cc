#include "drafter/options.h"

#include <CLI/CLI.hpp>
#include <map>

#include "common/base/version.h"

namespace outrider {

std::optional<int> ParseDrafterOptions(int argc, char** argv, DrafterOptions* o) {
  CLI::App app{
      "outrider-drafter: drafts tokens with a small model for the verifiers that it attaches to. "
      "It "
      "holds no state worth keeping: start, stop or kill it at any time."};
  app.option_defaults()->always_capture_default();
  const std::map<std::string, WeightType> weight_types{
      {"bf16", WeightType::kBf16}, {"f32", WeightType::kF32}, {"int8", WeightType::kInt8}};
  const std::map<std::string, LogLevel> log_levels{{"debug", LogLevel::kDebug},
                                                   {"info", LogLevel::kInfo},
                                                   {"warning", LogLevel::kWarning},
                                                   {"error", LogLevel::kError}};
  app.set_version_flag("--version", kVersion);
  app.set_config("--config,--flagfile", "", "Read flags from this file, one flag=value a line");

  app.add_option("--model", o->model,
                 "Directory of the draft model: config.json, *.safetensors, tokenizer.json (of the "
                 "same tokenization as the verifier's)")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--verifier", o->verifiers,
                 "host:port of the verifiers to attach to, separated by commas; each is dialled "
                 "again for ever when it is away")
      ->required()
      ->delimiter(',');
  app.add_option("--name", o->name, "Name in the verifiers' logs and status; empty: host:pid");
  app.add_option("--listen", o->listen,
                 "host:port of this drafter's own gRPC server: grpc.health.v1 (\"\" alive, "
                 "outrider.v1.Drafting attached to a verifier) and reflection; empty: none");
  app.add_option("--metrics", o->metrics,
                 "host:port of the Prometheus endpoint (/metrics); empty: none");
  app.add_flag("--exit-on-refusal", o->exit_on_refusal,
               "Exit with code 3 when a verifier refuses this drafter (another tokenizer or "
               "protocol), instead of asking again every 10 seconds");
  app.add_option("--threads", o->threads, "Compute threads")->check(CLI::Range(1, 256));
  app.add_option("--cores", o->cores, "Cores to pin the compute threads to, e.g. 0,1; none: free")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--weights", o->weights,
                 "How weights are kept: bf16, f32 or int8 (smaller; changes how often drafts are "
                 "accepted, never the text's law)")
      ->transform(CLI::CheckedTransformer(weight_types))
      ->default_str("bf16");
  app.add_flag(
      "--bf16-activations", o->bf16_activations,
      "Round the activations of matrix products to bf16 too, as GPUs do: up to twice as fast "
      "where the processor multiplies bf16 (AVX512_BF16), no effect elsewhere");
  app.add_option("--kv-tokens", o->kv_tokens,
                 "Tokens that the KV cache holds over all sessions; 0: 64 of the longest context, "
                 "262,144 at most")
      ->check(CLI::Range(0, 1 << 28));
  app.add_option("--max-sessions", o->max_sessions, "Sessions of all verifiers at once")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-draft-length", o->max_draft_length, "Draft tokens per round at most")
      ->check(CLI::Range(1, 64));
  app.add_option("--log-level", o->log_level, "debug, info, warning or error")
      ->transform(CLI::CheckedTransformer(log_levels))
      ->default_str("info");
  app.add_flag("--log-json", o->log_json, "Log one JSON object a line");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace outrider
