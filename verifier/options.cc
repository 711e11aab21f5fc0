#include "verifier/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <set>
#include <string>

#include "common/backend/create_backend.h"
#include "common/command_line/command_line.h"
#include "common/rpc/plaintext.h"

namespace outrider {
namespace {

void AddBatchingFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Batching");
  EngineOptions& engine = o->engine;
  app.add_option("--max-sessions", engine.max_sessions, "Generations that run at once")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-waiting", engine.max_waiting,
                 "Generations that wait for a place; more are answered RESOURCE_EXHAUSTED")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--max-waiting-per-client", engine.max_waiting_per_client,
                 "Of these, generations of one client (metadata outrider-client)")
      ->check(CLI::Range(0, 1 << 20));
  app.add_flag(
      "!--no-prefix-cache", engine.prefix_cache,
      "Compute every prompt from its first token, even if an earlier one began the same way");
  app.add_option("--step-target", engine.step_target_seconds,
                 "Seconds that one forward pass should take at most: fewer rows are taken into it "
                 "where it takes longer; 0: as many as --max-batch-tokens")
      ->check(AtLeast(0));
  app.add_option("--max-batch-tokens", engine.scheduler.token_budget,
                 "Rows of one forward pass at most")
      ->check(CLI::Range(64, 65536));
  app.add_option("--prefill-chunk", engine.scheduler.prefill_chunk,
                 "Prompt tokens in one forward pass at most, so that decoding goes on meanwhile")
      ->check(CLI::Range(16, 65536));
  app.add_option("--drain-timeout", o->drain_timeout_seconds,
                 "Seconds that running generations get to finish after SIGTERM")
      ->check(Between(0, 86400));
}

void AddProposerFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Speculation");
  app.add_option(
      "--policy", o->policy,
      "How the plan of each round is chosen where the request leaves it open: adaptive "
      "(by measured speed, plain decoding among the choices), ucbspec, exp3spec, "
      "ucb-tuned, fixed (--draft-length and --paths), or fixed:ARM,.. (of these arms the "
      "first that is possible)");
  app.add_option("--lookup-tokens", o->planner.local.lookup.max_tokens,
                 "Tokens of a request in which prompt lookup finds drafts; 0: off")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option(
         "--suffix-tokens", o->planner.local.suffix_max_tokens,
         "The same for the suffix automaton, at some 100 bytes a token; 0: off, and with it "
         "--store-tokens")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--store-tokens", o->planner.store.max_tokens,
                 "Tokens of finished requests' output, of all clients, in which later requests of "
                 "the same client find drafts, at some 100 bytes a token; 0: none are kept")
      ->check(CLI::Range(0, 1 << 28));
  app.add_flag("--store-shared", o->planner.store.shared,
               "Let all clients draft from all texts of --store-tokens: how fast a request runs "
               "then tells of others' texts");
}

void AddEmbeddedDrafterFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Embedded drafter");
  ServiceOptions& drafter = o->embedded.service;
  app.add_option(
      "--draft-model", drafter.model,
      "Directory of a draft model that shares 70 % of its tokens or more, to draft in this "
      "process; drafters may attach as well. Empty: none");
  app.add_option("--draft-device", drafter.device, "Where it runs: cpu, or cuda:N")
      ->check([](const std::string& name) { return CheckDeviceName(name).message(); });
  app.add_option("--draft-threads", drafter.threads, "Its compute threads of the CPU")
      ->check(CLI::Range(1, 256));
  app.add_option("--draft-cores", drafter.cores, "Cores to pin them to, e.g. 2,3; none: free")
      ->delimiter(',')
      ->check(AtLeast(0));
  app.add_option("--draft-ahead-tokens", o->embedded.ahead_tokens,
                 "Tokens fed ahead of one verdict, as --ahead-tokens of outrider-drafter")
      ->check(CLI::Range(0, 4096));
}

void AddPlanFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Speculation");
  EngineOptions& engine = o->engine;
  app.add_option("--draft-length", engine.speculation.draft_length,
                 "Draft tokens per sequence and round under --policy fixed, and of requests that "
                 "name their paths alone")
      ->check(CLI::Range(1, 16));
  app.add_option("--paths", engine.speculation.paths,
                 "Draft sequences per round under --policy fixed, and of requests that name their "
                 "draft length alone")
      ->check(CLI::Range(1, 64));
  app.add_option_function<std::string>(
         "--stop-rule",
         [&engine](const std::string& name) {
           engine.speculation.stop.kind = ParseStopRule(name).value();
         },
         "Where paths of a draft end before their length, unless the request says otherwise: "
         "length (nowhere), confidence, entropy or head")
      ->check(CLI::IsMember(std::set<std::string>{"length", "confidence", "entropy", "head"}));
  app.add_option(
      "--stop-threshold", engine.speculation.stop.threshold,
      "Of --stop-rule: confidence and head in [0, 1], entropy in nats; 0: the usual one");
  app.add_option("--max-draft-length", engine.max_draft_length,
                 "Longest draft that a request may ask for")
      ->check(CLI::Range(1, 16));
  app.add_option("--max-paths", engine.max_paths, "Draft sequences that a request may ask for")
      ->check(CLI::Range(1, 64));
  app.add_option("--max-draft-tokens", engine.max_draft_tokens,
                 "Draft tokens of one round over all its sequences, at most")
      ->check(CLI::Range(1, 256));
  app.add_option("--min-draft-wait", o->min_draft_wait_seconds,
                 "Seconds that a round waits for each draft, at least, also where plain decoding "
                 "would be faster. For tests and measurements of fixed plans: a drafter that hangs "
                 "then holds its requests up")
      ->check(Between(0, 60));
  app.add_flag("--untrusted-drafters", engine.untrusted_drafters,
               "Use drafts only where a drafter that lies cannot change the text's distribution: "
               "rule gumbel (then the default) and temperature 0");
  app.add_option("--draft-law-mass", o->distribution_limits.mass,
                 "A draft row carries top entries until they hold this much probability")
      ->check(Between(0.5, 1));
  app.add_option("--draft-law-entries", o->distribution_limits.max_entries,
                 "Entries of a draft row at most")
      ->check(CLI::Range(1, 65536));
}

void AddAccessFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Security");
  app.add_option("--tls-ca", o->service.tls.ca,
                 "PEM file of the authorities that clients and drafters must have a certificate of "
                 "(mutual TLS); needs --tls-cert");
  app.add_option("--client-tokens", o->client_tokens,
                 "File of the tokens that clients may have, one a line: `token` or `name token`; "
                 "read again when it changes. Empty: clients need none");
  app.add_option("--drafter-tokens", o->drafter_tokens,
                 "The same for drafters. Empty, and no --drafter-names: any drafter may attach");
  app.add_option("--drafter-names", o->drafter_names,
                 "Names (DNS or common name of their certificate) of the drafters that may attach "
                 "without a token, separated by commas; needs --tls-ca")
      ->delimiter(',');
  app.add_option("--pad-responses", o->pad_responses,
                 "Round streamed messages up to a multiple of this many bytes, so that their size "
                 "does not tell how many draft tokens were accepted; 0: no padding")
      ->check(CLI::Range(0, 65536));
}

void AddPromptFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Model");
  app.add_option_function<std::string>(
         "--generation-config",
         [o](const std::string& from) { o->generation_config = from == "auto"; },
         "Where the sampling of requests that leave it out comes from: auto (the model's "
         "generation_config.json) or none (temperature 1, all else off)")
      ->default_str("auto")
      ->check(CLI::IsMember(std::set<std::string>{"auto", "none"}));
  app.add_option("--chat-template", o->chat_template,
                 "Chat template in place of the checkpoint's own: a file in Jinja, or chatml for a "
                 "checkpoint that has none");
}

// "auto" and the names of formats.
std::vector<std::string> WithAuto(std::vector<std::string> names) {
  names.insert(names.begin(), "auto");
  return names;
}

void AddAnswerFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Model");
  app.add_option_function<std::string>(
         "--tool-parser",
         [o](const std::string& name) {
           if (name != "auto") o->tool_parser = ToolFormatOf(name);
         },
         "How the model writes calls of tools: auto (as the chat template shows), none (chats with "
         "tools are refused), or a format by vLLM's name")
      ->default_str("auto")
      ->check(CLI::IsMember(WithAuto(ToolFormatNames())));
  app.add_option_function<std::string>(
         "--reasoning-parser",
         [o](const std::string& name) {
           if (name != "auto") o->reasoning_parser = ReasoningFormatOf(name);
         },
         "How it writes its reasoning, which chats tell apart from content: auto (as the chat "
         "template shows), none (it is content), or a format by vLLM's name")
      ->default_str("auto")
      ->check(CLI::IsMember(WithAuto(ReasoningFormatNames())));
}

// An origin as browsers send it, or "*". It is copied into a header.
std::string CheckOrigin(const std::string& origin) {
  const bool printable =
      std::all_of(origin.begin(), origin.end(), [](char c) { return c > ' ' && c < 127; });
  if (origin.empty() || origin == "*") return "";
  if (printable && (origin.starts_with("http://") || origin.starts_with("https://"))) return "";
  return "must be an origin such as https://example.org, or *";
}

void AddHttpFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("HTTP");
  app.add_option("--http", o->http,
                 "host:port of an HTTP server with OpenAI's completions and chat completions; it "
                 "takes the certificates, tokens and limits of --listen. Empty: none");
  app.add_option("--http-model", o->http_model,
                 "Name of the model there; empty: that of its directory");
  app.add_flag(
      "--http-ignore-unknown", o->http_ignore_unknown,
      "Ignore fields of HTTP requests that are unknown or not served, in place of an error");
  app.add_option("--http-metrics", o->http_metrics,
                 "Answer GET /metrics there too; it takes a client's token where there are any");
  app.add_option("--http-cors", o->http_cors,
                 "Origin (https://example.org, or * for all) whose pages a browser lets call the "
                 "HTTP server. Empty: none")
      ->check(CheckOrigin);
}

void AddObservabilityFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Observability");
  app.add_option("--trace-sample-ratio", o->trace_sample_ratio,
                 "Share of the requests without a traceparent that --trace-file records; with one, "
                 "its sampled flag decides")
      ->check(Between(0, 1));
  app.add_flag("--vllm-metrics", o->vllm_metrics,
               "Show metrics by the names that vLLM has for them too, for tools made for it");
}

// Checks that need several flags.
Status Complete(VerifierOptions* o) {
  if (o->policy != "fixed") {
    o->planner.control.policy = o->policy;
    o->planner.max_draft_length = o->engine.max_draft_length;
    o->planner.max_paths = o->engine.max_paths;
    const auto controller = Controller::Create(o->planner.control, ServedArms(o->planner));
    if (!controller.ok()) return controller.status().Annotate("--policy");
    o->engine.planner = o->planner;
  }
  const EngineOptions& e = o->engine;
  if (e.speculation.draft_length > e.max_draft_length) {
    return InvalidArgument("--draft-length is above --max-draft-length");
  }
  if (e.speculation.paths > e.max_paths) return InvalidArgument("--paths is above --max-paths");
  if (const Status stop = Validate(e.speculation.stop); !stop.ok()) {
    return stop.Annotate("--stop-threshold");
  }
  // The scheduler reserves a quarter of a batch for prompts.
  if (e.max_draft_tokens + 8 > e.scheduler.token_budget * 3 / 4) {
    return InvalidArgument("--max-draft-tokens does not fit --max-batch-tokens");
  }
  if (!o->service.tls.ca.empty() && o->service.tls.cert.empty()) {
    return InvalidArgument("--tls-ca needs --tls-cert and --tls-key");
  }
  if (!o->drafter_names.empty() && o->service.tls.ca.empty()) {
    return InvalidArgument("--drafter-names needs --tls-ca: names are those of certificates");
  }
  if (!o->http.empty() && !o->service.allow_plaintext && o->service.tls.cert.empty()) {
    OUTRIDER_TRY(CheckPlaintext("--http", o->http, "give --tls-cert and --tls-key"));
  }
  ServiceOptions& drafter = o->embedded.service;
  const ServiceOptions without;
  if (drafter.model.empty() && (drafter.device != without.device || !drafter.cores.empty() ||
                                drafter.threads != without.threads)) {
    return InvalidArgument("--draft-device, --draft-threads and --draft-cores need --draft-model");
  }
  drafter.bf16_activations = o->service.bf16_activations;
  drafter.cuda_graphs = o->service.cuda_graphs;
  o->embedded.prefix_cache = o->engine.prefix_cache;
  return CheckTransport(o->service);
}

// The figures of docs/quantization.md, summed up.
constexpr const char* kMemoryOfModels =
    "Memory of weights and of the keys and values of 8,192 tokens; docs/quantization.md has more:\n"
    "  Llama 3.1 70B    in FP8            75.4 GB\n"
    "  Qwen 3 30B-A3B   in 4 bits         18.8 GB\n"
    "  Llama 3.1 8B     in INT4           7.1 GB (--weights int4: 6.1 GB)";

}  // namespace

std::optional<int> ParseVerifierOptions(int argc, char** argv, VerifierOptions* o) {
  CLI::App app{
      "outrider-verifier: serves a large language model over gRPC (outrider.v1.Generation), and "
      "faster where drafters attach (outrider.v1.Drafting). The distribution of the text is the "
      "model's own either way."};
  app.footer(kMemoryOfModels);
  AddServiceFlags(app, &o->service);
  AddPromptFlags(app, o);
  AddAnswerFlags(app, o);
  AddBatchingFlags(app, o);
  AddProposerFlags(app, o);
  AddEmbeddedDrafterFlags(app, o);
  AddPlanFlags(app, o);
  AddAccessFlags(app, o);
  AddHttpFlags(app, o);
  AddObservabilityFlags(app, o);
  return ParseCommandLine(app, argc, argv, std::cout, std::cerr, [o] { return Complete(o); });
}

}  // namespace outrider
