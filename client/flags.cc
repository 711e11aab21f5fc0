#include "client/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/version.h"
#include "common/command_line/command_line.h"
#include "common/net/address.h"
#include "common/rpc/plaintext.h"

namespace outrider {
namespace {

constexpr int kUsageError = 2;
constexpr char kDefaultVerifier[] = "127.0.0.1:7300";
constexpr size_t kMostVerifiers = 1024;
constexpr char kSimulate[] = "simulate";
// The flags of train-head that only matter with --prompts, as a group of its --help.
constexpr char kTextFlags[] = "Texts, with --prompts";

// Flags that are checked once all are parsed.
struct RequestFlags {
  std::string speculation = "auto";
  std::string rule;
  std::string stop_rule;
  float stop_threshold = 0.f;
};

std::vector<std::string> RuleNames() {
  std::vector<std::string> names;
  for (const RuleTraits& rule : kRuleTraits) names.emplace_back(rule.name);
  return names;
}

std::vector<std::string> StopRuleNames() {
  std::vector<std::string> names;
  for (const StopRule::Kind kind : kAllStopKinds) names.emplace_back(StopRuleName(kind));
  return names;
}

std::string CheckAddress(const std::string& address) { return CheckGrpcTarget(address).message(); }

void AddVerifier(CLI::App* command, ConnectionOptions* connection) {
  connection->verifier = kDefaultVerifier;
  command
      ->add_option("--verifier", connection->verifier,
                   "The verifier's address, host:port. With dns:///host:port or "
                   "ipv4:host:port,host:port requests take turns among several verifiers")
      ->check(CheckAddress)
      ->envname("OUTRIDER_VERIFIER")
      ->capture_default_str();
}

void AddVerifiers(CLI::App* command, BenchOptions* options) {
  options->verifiers = {kDefaultVerifier};
  command
      ->add_option("--verifier", options->verifiers,
                   "A verifier's address, host:port; give it again for each further verifier, and "
                   "--route says who gets which request. With dns:///host:port or "
                   "ipv4:host:port,host:port gRPC takes turns instead")
      ->check(CheckAddress)
      ->allow_extra_args(false)
      ->envname("OUTRIDER_VERIFIER")
      ->capture_default_str();
  static const std::map<std::string, RoutePolicy> kPolicies = {
      {"prefix", RoutePolicy::kPrefix},
      {"round-robin", RoutePolicy::kRoundRobin},
      {"least-loaded", RoutePolicy::kLeastLoaded}};
  command
      ->add_option_function<std::string>(
          "--route", [options](const std::string& name) { options->route = kPolicies.at(name); },
          "Which verifier gets a request: prefix (prompts that begin alike go to the same "
          "one, within 1.25 of the mean load), round-robin or least-loaded")
      ->default_str("prefix")
      ->check(CLI::IsMember(kPolicies));
}

void AddTlsAndToken(CLI::App* command, ConnectionOptions* connection) {
  command
      ->add_option("--tls-ca", connection->tls.ca,
                   "PEM file of the certificate authorities that the verifier's certificate must "
                   "come from; enables TLS")
      ->envname("OUTRIDER_TLS_CA");
  command
      ->add_option("--tls-cert", connection->tls.cert,
                   "PEM file of the client's certificate, if the verifier requires one")
      ->envname("OUTRIDER_TLS_CERT");
  command->add_option("--tls-key", connection->tls.key, "PEM file of the private key of --tls-cert")
      ->envname("OUTRIDER_TLS_KEY");
  command->add_option("--tls-server-name", connection->tls_server_name,
                      "Name that the verifier's certificate must have; by default its host");
  command->add_option("--token-file", connection->token_file,
                      "File with the token for the verifier; by default $OUTRIDER_TOKEN, if set");
  command->add_flag("--allow-plaintext", connection->allow_plaintext,
                    "Allow plaintext to a verifier on another machine");
}

void AddConnection(CLI::App* command, ConnectionOptions* connection) {
  AddVerifier(command, connection);
  AddTlsAndToken(command, connection);
}

// A usage error, or nothing.
Status Check(const ConnectionOptions& connection) {
  const TlsOptions& tls = connection.tls;
  if (tls.cert.empty() != tls.key.empty()) {
    return InvalidArgument("--tls-cert and --tls-key belong together: give both");
  }
  if (!tls.ca.empty()) return Status();
  if (!tls.cert.empty()) return InvalidArgument("--tls-cert needs --tls-ca");
  if (!connection.tls_server_name.empty()) {
    return InvalidArgument("--tls-server-name needs --tls-ca");
  }
  if (connection.allow_plaintext) return Status();
  return CheckPlaintext("--verifier", connection.verifier, "give --tls-ca");
}

void AddSampling(CLI::App* command, v1::SamplingParams* sampling) {
  command
      ->add_option_function<float>(
          "--temperature", [sampling](float value) { sampling->set_temperature(value); },
          "0 takes the most likely token. The defaults of this and the flags below are the model's "
          "own (generation_config.json)")
      ->check(AtLeast(0));
  command
      ->add_option_function<float>(
          "--top-p", [sampling](float value) { sampling->set_top_p(value); },
          "Keep the most likely tokens up to this total probability; 1: all")
      ->check(Between(0, 1));
  command
      ->add_option_function<uint32_t>(
          "--top-k", [sampling](uint32_t value) { sampling->set_top_k(value); },
          "Keep this many of the most likely tokens; 0: all")
      ->check(AtLeast(0));
  command
      ->add_option_function<float>(
          "--min-p", [sampling](float value) { sampling->set_min_p(value); },
          "Keep tokens with at least this share of the largest probability; 0: all")
      ->check(Between(0, 1));
  command
      ->add_option_function<float>(
          "--repetition-penalty",
          [sampling](float value) { sampling->set_repetition_penalty(value); },
          "Above 1, tokens of the prompt and the output become less likely; 1: off")
      ->check(Above(0));
  command
      ->add_option_function<float>(
          "--presence-penalty", [sampling](float value) { sampling->set_presence_penalty(value); },
          "Subtracted from the logit of every token in the output; 0: off")
      ->check(Between(-2, 2));
  command
      ->add_option_function<float>(
          "--frequency-penalty",
          [sampling](float value) { sampling->set_frequency_penalty(value); },
          "Subtracted from a token's logit for each time that it is in the output; 0: off")
      ->check(Between(-2, 2));
}

void AddSpeculation(CLI::App* command, RequestOptions* request, RequestFlags* flags) {
  command->add_option("--speculation", flags->speculation, "off: plain decoding for this request")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
  command
      ->add_option("--rule", flags->rule,
                   "How drafts are verified; by default the server's rule. All are lossless; under "
                   "gumbel a seed gives the same text with any drafter or none")
      ->check(CLI::IsMember(RuleNames()));
  command
      ->add_option("--draft-length", request->draft_length,
                   "Draft tokens per sequence and round; 0: the server's choice")
      ->capture_default_str();
  command
      ->add_option("--paths", request->paths, "Draft sequences per round; 0: the server's choice")
      ->capture_default_str();
  command
      ->add_option(
          "--tree", request->tree,
          "A draft tree instead of --draft-length and --paths: children of each node by depth, as "
          "in 3,2,1,1")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes("--draft-length")
      ->excludes("--paths");
  command
      ->add_option("--stop-rule", flags->stop_rule,
                   "Ends a draft before its length: length (never), confidence, entropy or head; "
                   "by default the server's rule")
      ->check(CLI::IsMember(StopRuleNames()));
  command
      ->add_option("--stop-threshold", flags->stop_threshold,
                   "Threshold of --stop-rule: confidence and head in [0, 1], entropy in nats; 0: "
                   "its default")
      ->check(Between(0, kMaxEntropyThreshold))
      ->capture_default_str();
}

void AddRequest(CLI::App* command, RequestOptions* request, RequestFlags* flags) {
  command->add_option("--max-tokens", request->max_tokens,
                      "The most tokens to generate; by default the model's own limit, or as many "
                      "as the context allows");
  AddSampling(command, &request->sampling);
  command
      ->add_option("--stop", request->stop_strings,
                   "End the text before this string; may be given several times")
      ->allow_extra_args(false);
  command->add_flag("--ignore-eos", request->ignore_eos,
                    "Continue after the model's end-of-sequence token");
  command->add_option("--seed", request->seed,
                      "Repeats a text with the same prompt, and selects --rule gumbel, under which "
                      "drafts do not matter, unless a rule is named");
  AddSpeculation(command, request, flags);
  command
      ->add_option("--timeout", request->timeout_seconds,
                   "Seconds that one request may take; 0: no limit")
      ->check(Between(0, 1e6))
      ->capture_default_str();
}

void AddPlanFlags(CLI::App* command, PlanFlags* flags) {
  PlanOptions& o = flags->options;
  command->add_option("--t-draft", o.draft_ms, "Milliseconds of a drafter's pass for one session")
      ->required();
  command
      ->add_option("--t-draft-row", o.draft_row_ms,
                   "Milliseconds that each further sequence adds to a drafter's pass")
      ->capture_default_str();
  command->add_option("--t-verify", o.verify_ms, "Milliseconds of a verifier's step of one row")
      ->required();
  command
      ->add_option("--t-verify-row", o.verify_row_ms,
                   "Milliseconds that each further row adds to a verifier's step")
      ->capture_default_str();
  command->add_option("--rtt", o.rtt_ms, "Round trip between drafter and verifier, milliseconds")
      ->required();
  command
      ->add_option("--acceptance", o.acceptance,
                   "Probability that a draft token is accepted if those before it are")
      ->required();
  command
      ->add_option("--draft-length", o.draft_length,
                   "Tokens of a draft; 0: the best for each layout")
      ->capture_default_str();
  command->add_option("--paths", o.sequences, "Draft sequences per round")->capture_default_str();
  command->add_option("--sessions", o.sessions, "Requests at once on a verifier")
      ->capture_default_str();
  command->add_option("--client-rate", o.client_rate, "Tokens per second that each client needs")
      ->capture_default_str();
  command
      ->add_option("--law-entries", o.distribution_entries,
                   "Mean entries of a draft distribution on the wire")
      ->capture_default_str();
  command->add_option("--ahead-hits", o.ahead_hits,
                      "Share of verdicts that lookahead drafting guesses correctly; by default "
                      "acceptance to the power of length + 1");
  command->add_option("--lookup-acceptance", o.lookup_acceptance,
                      "Acceptance of drafts found in the text, to compare them with the others");
  command->add_option("--verifier-price", o.verifier_price, "Price of a verifier per hour")
      ->capture_default_str();
  command->add_option("--drafter-price", o.drafter_price, "Price of a drafter per hour")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One JSON object");
}

void AddTextFlags(CLI::App* command, TrainHeadOptions* o) {
  command->option_defaults()->group(kTextFlags);
  AddConnection(command, &o->connection);
  command->add_option("--examples", o->examples, "Draft tokens to collect in --data")
      ->check(Above(0))
      ->capture_default_str();
  command->add_option("--concurrency", o->concurrency, "Texts at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--max-tokens", o->max_tokens, "The most tokens of a text")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--draft-length", o->draft_length,
                   "Tokens of a draft; the last one's state is never computed")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  SamplingParams& sampling = o->sampling;
  command->add_option("--temperature", sampling.temperature, "Temperature of the texts")
      ->check(Above(0))
      ->capture_default_str();
  command->add_option("--top-p", sampling.top_p, "Top-p of the texts")
      ->check(Between(0, 1))
      ->capture_default_str();
  command->add_option("--top-k", sampling.top_k, "Top-k of the texts; 0: all")
      ->check(AtLeast(0))
      ->capture_default_str();
}

// Whether the command line has the option; its environment variable alone does not count.
bool IsOnCommandLine(const CLI::Option& option) {
  if (option.count() == 0) return false;
  const std::string variable = option.get_envname();
  const char* const value = variable.empty() ? nullptr : std::getenv(variable.c_str());
  return value == nullptr || option.results() != CLI::results_t{value};
}

Status RefuseTextFlags(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group() != kTextFlags || !IsOnCommandLine(*option)) continue;
    return InvalidArgument("--" + option->get_lnames().front() + " needs --prompts");
  }
  return Status();
}

void AddTrainHeadFlags(CLI::App* command, TrainHeadOptions* o) {
  command
      ->add_option("--data", o->data,
                   "File of examples, written by outrider-drafter --collect-head-data")
      ->required();
  command->add_option("--drafter", o->drafter, "Directory of the draft model")->required();
  command->add_option("--out", o->out,
                      "File of the head; by default acceptance_head.safetensors beside the draft "
                      "model. An interrupted run continues from FILE.state");
  command->add_option("--prompts", o->prompts,
                      "Lines of {\"prompt\": ...}: request their texts from the verifier until "
                      "--data holds --examples; by default train on what --data holds");
  command->add_option("--depth", o->training.depth, "Residual blocks; 0: a linear layer")
      ->check(CLI::Range(0, kMaxHeadDepth))
      ->capture_default_str();
  command->add_option("--epochs", o->training.epochs, "Passes over the examples")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--batch", o->training.batch, "Examples per step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--learning-rate", o->training.learning_rate,
                   "Initial learning rate; falls to 0")
      ->check(Above(0))
      ->capture_default_str();
  command
      ->add_option("--rejection-weight", o->training.rejection_weight,
                   "Weight of rejections in the loss; the head is calibrated afterwards")
      ->check(Above(0))
      ->capture_default_str();
  command->add_option("--seed", o->training.seed, "The same seed and --data give the same head")
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON object");
  AddTextFlags(command, o);
}

Status Finish(const RequestFlags& flags, RequestOptions* request) {
  if (flags.stop_rule.empty() && flags.stop_threshold != 0.f) {
    return InvalidArgument("--stop-threshold needs --stop-rule: give both");
  }
  request->speculation = flags.speculation == "auto";
  if (!flags.rule.empty()) request->rule = ParseRule(flags.rule).value();
  if (!flags.stop_rule.empty()) {
    request->stop = {.kind = ParseStopRule(flags.stop_rule).value(),
                     .threshold = flags.stop_threshold};
    if (const Status wrong = Validate(*request->stop); !wrong.ok()) {
      return wrong.Annotate("--stop-threshold");
    }
  }
  return Status();
}

// A subcommand with its flags. `finish` converts them once they are parsed, or returns an error.
struct Subcommand {
  CLI::App* app = nullptr;
  std::function<Result<Command>()> finish;
};

// Checks the connection and adds what does not come from flags.
Status Complete(ConnectionOptions* connection) {
  OUTRIDER_TRY(Check(*connection));
  // Not a flag, because everybody on the machine can see command lines.
  if (const char* token = std::getenv("OUTRIDER_TOKEN")) connection->token = token;
  return Status();
}

Status Complete(BenchOptions* options) {
  std::set<std::string> seen;
  for (const std::string& verifier : options->verifiers) {
    if (!seen.insert(verifier).second) {
      return InvalidArgument("--verifier " + verifier + " is given twice: give it once");
    }
    options->connection.verifier = verifier;
    OUTRIDER_TRY(Complete(&options->connection));
  }
  if (seen.size() > kMostVerifiers) {
    return InvalidArgument("--verifier is given " + std::to_string(seen.size()) +
                           " times; give it at most " + std::to_string(kMostVerifiers) + " times");
  }
  return Status();
}

Subcommand AddGenerate(CLI::App& app) {
  struct Flags {
    GenerateOptions options;
    RequestFlags request;
    TextPrompt text;
    FilePrompt file;
    TokenPrompt tokens;
  };
  const auto flags = std::make_shared<Flags>();
  GenerateOptions& options = flags->options;
  CLI::App* const command = app.add_subcommand("generate", "Stream the text that follows a prompt");
  AddConnection(command, &options.connection);
  CLI::Option_group* prompt = command->add_option_group("Prompt", "One of these");
  const CLI::Option* text = prompt->add_option("--prompt", flags->text.text, "The prompt");
  const CLI::Option* file = prompt->add_option("--prompt-file", flags->file.path,
                                               "A file with the prompt; -: standard input");
  prompt->add_option("--token-ids", flags->tokens.token_ids, "The prompt's tokens, as in 1,2,3")
      ->delimiter(',')
      ->allow_extra_args(false);
  prompt->require_option(1);
  AddRequest(command, &options.request, &flags->request);
  command->add_flag("--json", options.json, "One JSON object at the end, no stream");
  command->add_flag("--show-drafts", options.show_drafts,
                    "Mark accepted draft text: in colour on a terminal (unless NO_COLOR is set), "
                    "else in [brackets]");
  command->add_flag("--trace", options.trace,
                    "Begin a trace (traceparent) and tell its id: services with --trace-file or "
                    "--trace-endpoint record it, whatever their --trace-sample-ratio");
  return {command, [flags, text, file]() -> Result<Command> {
            GenerateOptions& out = flags->options;
            OUTRIDER_TRY(Complete(&out.connection));
            OUTRIDER_TRY(Finish(flags->request, &out.request));
            if (text->count() > 0) {
              out.prompt = flags->text;
            } else if (file->count() > 0) {
              out.prompt = flags->file;
            } else {
              out.prompt = flags->tokens;
            }
            return Command(out);
          }};
}

Subcommand AddBench(CLI::App& app) {
  struct Flags {
    BenchOptions options;
    RequestFlags request;
  };
  const auto flags = std::make_shared<Flags>();
  BenchOptions& options = flags->options;
  CLI::App* const command = app.add_subcommand("bench", "Measure speed under load");
  AddVerifiers(command, &options);
  AddTlsAndToken(command, &options.connection);
  command
      ->add_option("--prompts", options.prompts_path,
                   "Lines of {\"prompt\": ..., \"domain\": ..., \"max_tokens\": ...}; the last two "
                   "are optional, and a line's max_tokens overrides --max-tokens")
      ->required();
  command->add_option("--concurrency", options.concurrency, "Requests at once")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--requests", options.requests,
                   "Requests in all, cycling through the prompts; by default each prompt once")
      ->check(Above(0));
  command
      ->add_option("--rate", options.rate,
                   "Requests to start per second while fewer than --concurrency run; 0: start one "
                   "when another ends")
      ->check(AtLeast(0))
      ->capture_default_str();
  command->add_flag("--allow-refused", options.allow_refused,
                    "Do not fail if requests are refused for lack of room (RESOURCE_EXHAUSTED "
                    "before the first token)");
  AddRequest(command, &options.request, &flags->request);
  command->add_flag("--json", options.json, "One JSON object instead of the table");
  return {command, [flags]() -> Result<Command> {
            OUTRIDER_TRY(Complete(&flags->options));
            OUTRIDER_TRY(Finish(flags->request, &flags->options.request));
            return Command(flags->options);
          }};
}

Subcommand AddStatus(CLI::App& app) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App* const command =
      app.add_subcommand("status", "Show the verifier, its drafters and its sessions");
  options->connection.balanced = false;
  AddConnection(command, &options->connection);
  command->add_flag("--json", options->json, "One JSON object instead of tables");
  command
      ->add_option("--watch", options->watch_seconds,
                   "Repeat until Ctrl-C: every 2 seconds, or at the interval given here in seconds")
      ->expected(0, 1)
      ->default_str("2")
      ->check(Between(0.1, 3600));
  return {command, [options]() -> Result<Command> {
            OUTRIDER_TRY(Complete(&options->connection));
            return Command(*options);
          }};
}

// Only for --help: its flags are those of outrider-simulate.
Subcommand AddSimulate(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      kSimulate, "Run rules, the controller or a fleet on toy models (outrider-simulate)");
  return {command, []() -> Result<Command> { return Command(SimulateCommand{}); }};
}

Subcommand AddPlan(CLI::App& app) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* const command = app.add_subcommand(
      "plan", "Estimate speed, capacity, network and price of each layout from measured times");
  command->footer(
      "The layouts:\n"
      "  plain      no drafts\n"
      "  colocated  drafts on the verifier's own device, in turn with its steps\n"
      "  split      drafts from drafters on other machines\n"
      "  ahead      split, and idle drafters draft the next round before the verdict is there\n"
      "  lookup     drafts found in the text (with --lookup-acceptance)");
  AddPlanFlags(command, flags.get());
  return {command, [flags]() -> Result<Command> { return Command(*flags); }};
}

Subcommand AddTrainHead(CLI::App& app) {
  const auto options = std::make_shared<TrainHeadOptions>();
  CLI::App* const command = app.add_subcommand(
      "train-head", "Train the acceptance head of a draft model from a running pair");
  AddTrainHeadFlags(command, options.get());
  return {command, [options, command]() -> Result<Command> {
            OUTRIDER_TRY(options->prompts.empty() ? RefuseTextFlags(*command)
                                                  : Complete(&options->connection));
            OUTRIDER_TRY(Validate(options->sampling, 1 << 20));
            return Command(*options);
          }};
}

}  // namespace

std::variant<Command, int> ParseFlags(int argc, const char* const* argv, const Console& console) {
  if (argc > 1 && std::string_view(argv[1]) == kSimulate) {
    return Command(SimulateCommand{.arguments = {argv + 2, argv + argc}});
  }
  CLI::App app("Outrider: text from a large language model, drafted by a small one", "outrider");
  app.require_subcommand(1);
  app.set_version_flag("--version", kVersion);
  std::vector<Subcommand> commands = {AddGenerate(app), AddBench(app), AddStatus(app)};
  commands.push_back(AddSimulate(app));
  commands.push_back(AddPlan(app));
  commands.push_back(AddTrainHead(app));
  if (const auto code = ParseCommandLine(app, argc, argv, console.out, console.err)) return *code;
  const auto given = std::find_if(commands.begin(), commands.end(),
                                  [](const Subcommand& command) { return command.app->parsed(); });
  Result<Command> command = given->finish();
  if (command.ok()) return std::move(command).value();
  console.err << command.status().message() << std::endl;
  return kUsageError;
}

}  // namespace outrider
