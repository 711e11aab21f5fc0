#include "verifier/options.h"

#include <CLI/CLI.hpp>
#include <map>

#include "common/base/version.h"

namespace outrider {

std::optional<int> ParseVerifierOptions(int argc, char** argv, VerifierOptions* o) {
  CLI::App app{
      "outrider-verifier: serves a large language model over gRPC (outrider.v1.Generation), and "
      "faster where drafters attach (outrider.v1.Drafting). The text's law is the model's own "
      "either way."};
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
                 "Directory of the target model: config.json, *.safetensors, tokenizer.json")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--listen", o->listen,
                 "host:port of the gRPC server, for clients and drafters; port 0 takes a free one");
  app.add_option("--metrics", o->metrics,
                 "host:port of the Prometheus endpoint (/metrics); empty: none");
  app.add_option("--threads", o->threads, "Compute threads")->check(CLI::Range(1, 256));
  app.add_option("--cores", o->cores, "Cores to pin the compute threads to, e.g. 0,1; none: free")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  app.add_option("--weights", o->weights,
                 "How weights are kept: bf16, f32 (exact) or int8 (smaller, approximate)")
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
  app.add_option("--max-sessions", o->max_sessions, "Generations that run at once")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-waiting", o->max_waiting,
                 "Generations that wait for a place; more are answered RESOURCE_EXHAUSTED")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--max-batch-tokens", o->max_batch_tokens, "Rows of one forward pass at most")
      ->check(CLI::Range(64, 65536));
  app.add_option("--prefill-chunk", o->prefill_chunk,
                 "Prompt tokens in one forward pass at most, so that decoding goes on meanwhile")
      ->check(CLI::Range(16, 65536));
  app.add_option("--draft-length", o->draft_length,
                 "Draft tokens per round, unless the request says otherwise")
      ->check(CLI::Range(1, 16));
  app.add_option("--max-draft-length", o->max_draft_length,
                 "Longest draft that a request may ask for")
      ->check(CLI::Range(1, 16));
  app.add_option("--draft-law-mass", o->law_mass,
                 "A draft row carries top entries until they hold this much probability")
      ->check(CLI::Range(0.5, 1.0));
  app.add_option("--draft-law-entries", o->law_entries, "Entries of a draft row at most")
      ->check(CLI::Range(1, 65536));
  app.add_option("--drain-timeout", o->drain_timeout_seconds,
                 "Seconds that running generations get to finish after SIGTERM")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--log-level", o->log_level, "debug, info, warning or error")
      ->transform(CLI::CheckedTransformer(log_levels))
      ->default_str("info");
  app.add_flag("--log-json", o->log_json, "Log one JSON object a line");

  try {
    app.parse(argc, argv);
    if (o->draft_length > o->max_draft_length) {
      throw CLI::ValidationError("--draft-length", "is above --max-draft-length");
    }
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

}  // namespace outrider
