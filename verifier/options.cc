#include "verifier/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <set>
#include <string>

#include "common/backend/create_backend.h"
#include "common/command_line/command_line.h"
#include "common/net/address.h"
#include "common/rpc/drafting_wire.h"
#include "common/rpc/plaintext.h"

namespace outrider {
namespace {

void AddDevicesFlag(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Model");
  app.add_option(
         "--devices", o->service.devices,
         "Devices among which the model is divided, each with a process of its own: 0,1,2,3 "
         "for CUDA devices, or cpu,cpu; replaces --device. --threads is for each")
      ->delimiter(',');
}

// Checks --devices, and sets --device to the first.
Status CompleteDevices(ServiceOptions* o) {
  if (o->devices.empty()) return Status();
  if (o->device != ServiceOptions().device) {
    return InvalidArgument("--device and --devices: give one of them");
  }
  const auto is_number = [](const std::string& name) {
    return !name.empty() &&
           std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  for (std::string& name : o->devices) {
    if (is_number(name)) name = "cuda:" + name;
    OUTRIDER_TRY(CheckDeviceName(name).Annotate("--devices"));
    // "cuda:00" is the same device.
    if (const auto cuda = CudaDeviceOf(name)) name = "cuda:" + std::to_string(*cuda);
    if ((name == "cpu") != (o->devices.front() == "cpu")) {
      return InvalidArgument("--devices: all of them are CUDA devices, or all are cpu");
    }
  }
  o->device = o->devices.front();
  const std::set<std::string> distinct(o->devices.begin(), o->devices.end());
  if (o->device != "cpu" && distinct.size() < o->devices.size()) {
    return InvalidArgument("--devices names a device twice");
  }
  const size_t count = o->devices.size(), threads = static_cast<size_t>(o->threads);
  if (count == 1) o->devices.clear();
  if (count > 1 && !o->cores.empty() && o->cores.size() != count * threads) {
    return InvalidArgument("--cores names " + std::to_string(o->cores.size()) +
                           " cores; with --devices and --threads " + std::to_string(threads) +
                           " it takes " + std::to_string(count * threads));
  }
  return Status();
}

void AddBatchingFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Batching");
  EngineOptions& engine = o->engine;
  app.add_option("--max-sessions", engine.admission.max_running, "Generations that run at once")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-waiting", engine.admission.max_waiting,
                 "Generations that may wait; more are refused with RESOURCE_EXHAUSTED")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--max-waiting-per-client", engine.admission.max_waiting_per_client,
                 "Generations of one client (metadata outrider-client) that may wait")
      ->check(CLI::Range(1, 1 << 20));
  app.add_flag(
      "!--no-prefix-cache", engine.admission.prefix_cache,
      "Compute every prompt from its first token, even if an earlier one has the same beginning");
  app.add_option("--step-target", engine.step_target_seconds,
                 "Target seconds of a forward pass, which gets fewer rows if it takes longer; 0: "
                 "no target, up to --max-batch-tokens")
      ->check(AtLeast(0));
  app.add_option("--max-batch-tokens", engine.scheduler.token_budget,
                 "The most rows of a forward pass")
      ->check(CLI::Range(64, 65536));
  app.add_option("--prefill-chunk", engine.scheduler.prefill_chunk,
                 "The most prompt tokens in a forward pass, so that decoding continues meanwhile")
      ->check(CLI::Range(16, 65536));
  app.add_option("--drain-timeout", o->drain_timeout_seconds,
                 "Seconds for accepted requests to finish after SIGTERM")
      ->check(Between(0, 86400));
}

void AddProposerFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Speculation");
  app.add_option(
      "--policy", o->policy,
      "How each round's plan is chosen if the request leaves it open: adaptive (by measured speed, "
      "including plain decoding), ucbspec, exp3spec, ucb-tuned, fixed (--draft-length and "
      "--paths), or fixed:ARM,.. (the first possible one of these arms)");
  app.add_option("--lookup-tokens", o->planner.local.lookup.max_tokens,
                 "Tokens of a request that prompt lookup searches for drafts; 0: off")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option(
         "--suffix-tokens", o->planner.local.suffix_max_tokens,
         "Tokens of a request that the suffix automaton searches for drafts, about 100 bytes "
         "each; 0: off, and --store-tokens too")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--store-tokens", o->planner.store.max_tokens,
                 "Output tokens of all clients to keep for drafts of the same client's later "
                 "requests, about 100 bytes a token; 0: none")
      ->check(CLI::Range(0, 1 << 28));
  app.add_flag("--store-shared", o->planner.store.shared,
               "Let all clients draft from all texts of --store-tokens: the speed of a request "
               "then reveals others' texts");
}

void AddEmbeddedDrafterFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Embedded drafter");
  ServiceOptions& drafter = o->embedded.service;
  app.add_option("--draft-model", drafter.model,
                 "Directory of a draft model to run in this process, which shares at least 70 % of "
                 "its tokens; drafters may attach as well. Empty: none");
  app.add_option("--draft-device", drafter.device, "Device of --draft-model: cpu or cuda:N")
      ->check([](const std::string& name) { return CheckDeviceName(name).message(); });
  app.add_option("--draft-threads", drafter.threads, "Compute threads of --draft-model on the CPU")
      ->check(CLI::Range(1, 256));
  app.add_option("--draft-cores", drafter.cores,
                 "Cores to pin the threads of --draft-model to, e.g. 2,3; empty: not pinned")
      ->delimiter(',')
      ->check(AtLeast(0));
  app.add_option(
         "--draft-kv-tokens", drafter.kv_tokens,
         "Tokens that the KV cache of --draft-model holds, as --kv-tokens. On the device of "
         "the model itself, one of the two is needed")
      ->check(CLI::Range(0, 1 << 28));
  app.add_option("--draft-ahead-tokens", o->embedded.ahead_tokens,
                 "Tokens of lookahead drafting per verdict, as --ahead-tokens of outrider-drafter")
      ->check(CLI::Range(0, 4096));
}

void AddPlanFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Speculation");
  EngineOptions& engine = o->engine;
  app.add_option("--draft-length", engine.speculation.draft_length,
                 "Draft tokens per sequence and round under --policy fixed, and for requests that "
                 "only set paths")
      ->check(CLI::Range(1, 16));
  app.add_option("--paths", engine.speculation.paths,
                 "Draft sequences per round under --policy fixed, and for requests that only set "
                 "the draft length")
      ->check(CLI::Range(1, 64));
  app.add_option_function<std::string>(
         "--stop-rule",
         [&engine](const std::string& name) {
           engine.speculation.stop.kind = ParseStopRule(name).value();
         },
         "Ends a draft before its length, unless the request says otherwise: length (never), "
         "confidence, entropy or head")
      ->check(CLI::IsMember(std::set<std::string>{"length", "confidence", "entropy", "head"}));
  app.add_option(
      "--stop-threshold", engine.speculation.stop.threshold,
      "Threshold of --stop-rule: confidence and head in [0, 1], entropy in nats; 0: its default");
  app.add_option("--max-draft-length", engine.max_draft_length,
                 "The longest draft that a request may ask for")
      ->check(CLI::Range(1, 16));
  app.add_option("--max-paths", engine.max_paths,
                 "The most draft sequences that a request may ask for")
      ->check(CLI::Range(1, 64));
  app.add_option("--max-draft-tokens", engine.max_draft_tokens,
                 "The most draft tokens of a round over all its sequences")
      ->check(CLI::Range(1, 256));
  app.add_option("--min-draft-wait", o->min_draft_wait_seconds,
                 "Seconds that a round waits for each draft, at least, also where plain decoding "
                 "would be faster. For tests and measurements of fixed plans: a drafter that hangs "
                 "then holds its requests up")
      ->check(Between(0, 60));
  app.add_option("--max-drafters", o->max_drafters,
                 "The most drafters that may attach; further ones are refused and go to another "
                 "verifier")
      ->check(CLI::Range(1, 4096));
  app.add_option("--zone", o->zone,
                 "Where the verifier runs, such as an availability zone: drafters prefer verifiers "
                 "of their own --zone; empty: unknown")
      ->check([](const std::string& zone) {
        return CheckAtMost("--zone", std::ssize(zone), kMaxNameBytes, "bytes").message();
      });
  app.add_flag(
      "--untrusted-drafters", engine.untrusted_drafters,
      "Do not trust what drafters say of their distributions: allow drafts only under rule "
      "gumbel (then the default) and at temperature 0, where they cannot change the text");
  app.add_option("--draft-law-mass", o->distribution_limits.mass,
                 "A draft distribution has its largest entries up to this total probability")
      ->check(Between(0.5, 1));
  app.add_option("--draft-law-entries", o->distribution_limits.max_entries,
                 "The most entries of a draft distribution")
      ->check(CLI::Range(1, 65536));
}

void AddAccessFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Security");
  app.add_option("--tls-ca", o->service.tls.ca,
                 "PEM file of the authorities from which clients and drafters must have a "
                 "certificate (mutual TLS); needs --tls-cert");
  app.add_option("--client-tokens", o->client_tokens,
                 "File of accepted client tokens, one per line: `token` or `name token`; read "
                 "again when it changes. Empty: clients need none");
  app.add_option(
      "--drafter-tokens", o->drafter_tokens,
      "File of accepted drafter tokens, in the format of --client-tokens. Empty, without "
      "--drafter-names: any drafter may attach");
  app.add_option("--drafter-names", o->drafter_names,
                 "Drafters that may attach without a token: DNS or common names of their "
                 "certificates, separated by commas; needs --tls-ca")
      ->delimiter(',');
  app.add_option("--pad-responses", o->pad_responses,
                 "Pad streamed messages to a multiple of this many bytes, so that their size does "
                 "not reveal how many draft tokens were accepted; 0: no padding")
      ->check(CLI::Range(0, 65536));
}

void AddPromptFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Model");
  app.add_option_function<std::string>(
         "--generation-config",
         [o](const std::string& from) { o->generation_config = from == "auto"; },
         "Sampling defaults of requests: auto (the model's generation_config.json) or none "
         "(temperature 1, everything else off)")
      ->default_str("auto")
      ->check(CLI::IsMember(std::set<std::string>{"auto", "none"}));
  app.add_option("--chat-template", o->chat_template,
                 "Chat template instead of the checkpoint's own: a Jinja file, or chatml for a "
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
         "Format of tool calls: auto (detected from the chat template), none (chats with tools are "
         "refused), or one of vLLM's names")
      ->default_str("auto")
      ->check(CLI::IsMember(WithAuto(ToolFormatNames())));
  app.add_option_function<std::string>(
         "--reasoning-parser",
         [o](const std::string& name) {
           if (name != "auto") o->reasoning_parser = ReasoningFormatOf(name);
         },
         "Format of reasoning, which chats separate from content: auto (detected from the chat "
         "template), none (it is content), or one of vLLM's names")
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
                 "host:port of an HTTP server with OpenAI's completions and chat completions, with "
                 "the certificates, tokens and limits of --listen. Empty: none");
  app.add_option("--http-model", o->http_model,
                 "Name of the model in HTTP requests; empty: the name of its directory");
  app.add_flag("--http-ignore-unknown", o->http_ignore_unknown,
               "Ignore fields of HTTP requests that are unknown or not served, instead of "
               "returning an error");
  app.add_option("--http-metrics", o->http_metrics,
                 "Serve GET /metrics on the port of --http too; it requires a client's token if "
                 "there are any");
  app.add_option("--http-cors", o->http_cors,
                 "Origin (https://example.org, or * for all) whose pages may call the HTTP server "
                 "from a browser. Empty: none")
      ->check(CheckOrigin);
}

void AddObservabilityFlags(CLI::App& app, VerifierOptions* o) {
  app.option_defaults()->group("Observability");
  app.add_option("--trace-sample-ratio", o->trace_sample_ratio,
                 "Share of requests without a traceparent that --trace-file and --trace-endpoint "
                 "record; with one, its sampled flag decides")
      ->check(Between(0, 1));
  app.add_flag("--vllm-metrics", o->vllm_metrics,
               "Also expose metrics under vLLM's names, for tools made for it");
  app.add_flag("--prefix-digest", o->prefix_digest,
               "Serve GET /prefix_cache on the metrics port: hashes of the prefixes in the prefix "
               "cache, by which a gateway routes. Whoever reads it can tell whether a text that "
               "they have was sent here");
}

// Refuses flags that do nothing without another.
Status CheckHaveEffect(const VerifierOptions& o) {
  const bool has_http_flags = !o.http_model.empty() || !o.http_cors.empty() ||
                              o.http_ignore_unknown ||
                              o.http_metrics != VerifierOptions().http_metrics;
  if (has_http_flags && o.http.empty()) {
    return InvalidArgument(
        "--http-model, --http-cors, --http-ignore-unknown and --http-metrics need --http");
  }
  if (o.planner.store.shared && o.planner.store.max_tokens == 0) {
    return InvalidArgument("--store-shared needs --store-tokens");
  }
  const bool traces = !o.service.trace_file.empty() || !o.service.trace_endpoint.empty();
  if (o.trace_sample_ratio != VerifierOptions().trace_sample_ratio && !traces) {
    return InvalidArgument("--trace-sample-ratio needs --trace-file or --trace-endpoint");
  }
  return Status();
}

// Whether the model and the draft model are on the same CUDA device.
bool ShareDevice(const ServiceOptions& target, const ServiceOptions& drafter) {
  const std::optional<int> device = CudaDeviceOf(drafter.device);
  if (!device.has_value()) return false;
  return CudaDeviceOf(target.device) == device ||
         std::any_of(target.devices.begin(), target.devices.end(),
                     [device](const std::string& name) { return CudaDeviceOf(name) == device; });
}

// Checks the flags of --draft-model, and sets what it takes from the model. REQUIRES:
// CompleteDevices has been called.
Status CompleteEmbedded(VerifierOptions* o) {
  ServiceOptions& drafter = o->embedded.service;
  const ServiceOptions without;
  if (drafter.model.empty() &&
      (drafter.device != without.device || !drafter.cores.empty() ||
       drafter.threads != without.threads || drafter.kv_tokens != without.kv_tokens ||
       o->embedded.ahead_tokens != EmbeddedDrafterOptions().ahead_tokens)) {
    return InvalidArgument(
        "--draft-device, --draft-threads, --draft-cores, --draft-kv-tokens and "
        "--draft-ahead-tokens need --draft-model");
  }
  // The model is loaded first: its cache would take all that the draft model needs.
  if (!drafter.model.empty() && o->service.kv_tokens == 0 && drafter.kv_tokens == 0 &&
      ShareDevice(o->service, drafter)) {
    return InvalidArgument(
        "--draft-model is on " + drafter.device +
        " like the model, whose KV cache would leave it no memory: give --kv-tokens, or a lower "
        "--memory-fraction and --draft-kv-tokens");
  }
  drafter.memory_fraction = o->service.memory_fraction;
  drafter.bf16_activations = o->service.bf16_activations;
  drafter.int8_activations = o->service.int8_activations;
  drafter.kv_cache = o->service.kv_cache;
  drafter.cuda_graphs = o->service.cuda_graphs;
  o->embedded.prefix_cache = o->engine.admission.prefix_cache;
  return Status();
}

// Checks that need several flags.
Status Complete(VerifierOptions* o) {
  if (o->prefix_digest && o->service.metrics.empty()) {
    return InvalidArgument("--prefix-digest is served on the metrics port: give --metrics");
  }
  if (o->prefix_digest && !o->engine.admission.prefix_cache) {
    return InvalidArgument(
        "--prefix-digest lists the prefix cache, which --no-prefix-cache switches off: give one");
  }
  if (o->policy != "fixed") {
    o->planner.control.policy = o->policy;
    o->planner.max_draft_length = o->engine.max_draft_length;
    o->planner.max_draft_tokens = o->engine.max_draft_tokens;
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
  OUTRIDER_TRY(CheckHaveEffect(*o));
  OUTRIDER_TRY(CompleteDevices(&o->service));
  OUTRIDER_TRY(CheckModelFlags(o->service));
  if (!o->service.tls.ca.empty() && o->service.tls.cert.empty()) {
    return InvalidArgument("--tls-ca needs --tls-cert and --tls-key");
  }
  if (!o->drafter_names.empty() && o->service.tls.ca.empty()) {
    return InvalidArgument("--drafter-names needs --tls-ca: the names are those of certificates");
  }
  if (!o->http.empty()) {
    OUTRIDER_TRY(CheckHostPort(o->http).Annotate("--http"));
    if (!o->service.allow_plaintext && o->service.tls.cert.empty()) {
      OUTRIDER_TRY(CheckPlaintext("--http", o->http, "give --tls-cert and --tls-key"));
    }
  }
  OUTRIDER_TRY(CompleteEmbedded(o));
  return CheckTransport(o->service);
}

// The figures of docs/quantization.md, summed up.
constexpr const char* kMemoryOfModels =
    "Memory of weights, and of keys and values of 8,192 tokens in bf16 (docs/quantization.md):\n"
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
  o->service.command.assign(argv, argv + argc);
  AddServiceFlags(app, &o->service);
  AddDevicesFlag(app, o);
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
