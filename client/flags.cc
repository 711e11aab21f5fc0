#include "client/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
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
constexpr char kSimulate[] = "simulate";

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

void AddConnection(CLI::App* command, ConnectionOptions* connection) {
  connection->verifier = kDefaultVerifier;
  command
      ->add_option("--verifier", connection->verifier,
                   "The verifier's address, host:port; requests go in turn to several behind "
                   "dns:///host:port or in ipv4:host:port,host:port")
      ->check([](const std::string& address) { return CheckPort(address).message(); })
      ->envname("OUTRIDER_VERIFIER")
      ->capture_default_str();
  command
      ->add_option("--tls-ca", connection->tls.ca,
                   "PEM file of the authorities that the verifier's certificate comes from: speak "
                   "TLS")
      ->envname("OUTRIDER_TLS_CA");
  command
      ->add_option("--tls-cert", connection->tls.cert,
                   "PEM file of our own certificate, where the verifier asks for one")
      ->envname("OUTRIDER_TLS_CERT");
  command->add_option("--tls-key", connection->tls.key, "PEM file of its private key")
      ->envname("OUTRIDER_TLS_KEY");
  command->add_option("--tls-server-name", connection->tls_server_name,
                      "Name that the verifier's certificate must carry; without it, its host");
  command->add_option("--token-file", connection->token_file,
                      "File with the token for the verifier; without it, $OUTRIDER_TOKEN if set");
  command->add_flag("--allow-plaintext", connection->allow_plaintext,
                    "Speak plaintext to a verifier on another machine");
}

// A usage error, or nothing.
Status Check(const ConnectionOptions& connection) {
  const TlsOptions& tls = connection.tls;
  if (tls.cert.empty() != tls.key.empty()) {
    return InvalidArgument("--tls-cert and --tls-key belong together: give both");
  }
  if (!tls.ca.empty()) return Status();
  if (!tls.cert.empty()) return InvalidArgument("--tls-cert needs --tls-ca");
  if (connection.allow_plaintext) return Status();
  return CheckPlaintext("--verifier", connection.verifier, "give --tls-ca");
}

void AddSampling(CLI::App* command, v1::SamplingParams* sampling) {
  command
      ->add_option_function<float>(
          "--temperature", [sampling](float value) { sampling->set_temperature(value); },
          "0 takes the likeliest token; without it and the flags below, the model's own defaults "
          "(generation_config.json)")
      ->check(AtLeast(0));
  command
      ->add_option_function<float>(
          "--top-p", [sampling](float value) { sampling->set_top_p(value); },
          "Keep the likeliest tokens that hold this mass; 1: all")
      ->check(Between(0, 1));
  command
      ->add_option_function<uint32_t>(
          "--top-k", [sampling](uint32_t value) { sampling->set_top_k(value); },
          "Keep this many of the likeliest tokens; 0: all")
      ->check(AtLeast(0));
  command
      ->add_option_function<float>(
          "--min-p", [sampling](float value) { sampling->set_min_p(value); },
          "Keep tokens at least this share as likely as the likeliest; 0: all")
      ->check(Between(0, 1));
  command
      ->add_option_function<float>(
          "--repetition-penalty",
          [sampling](float value) { sampling->set_repetition_penalty(value); },
          "Above 1: what prompt and output have already becomes less likely; 1: off")
      ->check(Above(0));
  command
      ->add_option_function<float>(
          "--presence-penalty", [sampling](float value) { sampling->set_presence_penalty(value); },
          "Taken off the logit of every token that the output has already; 0: off")
      ->check(Between(-2, 2));
  command
      ->add_option_function<float>(
          "--frequency-penalty",
          [sampling](float value) { sampling->set_frequency_penalty(value); },
          "The same, once for each time that it has it; 0: off")
      ->check(Between(-2, 2));
}

void AddSpeculation(CLI::App* command, RequestOptions* request, RequestFlags* flags) {
  command->add_option("--speculation", flags->speculation, "off: plain decoding for this request")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
  command
      ->add_option("--rule", flags->rule,
                   "How drafts are verified; without it, the server's rule. All are exact; under "
                   "gumbel a seed gives one text with any drafter, or none.")
      ->check(CLI::IsMember(RuleNames()));
  command
      ->add_option("--draft-length", request->draft_length,
                   "Draft tokens per sequence and round; 0: the server's choice")
      ->capture_default_str();
  command
      ->add_option("--paths", request->paths, "Draft sequences per round; 0: the server's choice")
      ->capture_default_str();
  command
      ->add_option("--tree", request->tree,
                   "A prefix tree in place of both: how often each draw at a depth draws again, as "
                   "in 3,2,1,1")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--stop-rule", flags->stop_rule,
                   "Where paths of a draft end before their length: length (nowhere), confidence, "
                   "entropy or head; without it, the server's rule")
      ->check(CLI::IsMember(StopRuleNames()));
  command
      ->add_option("--stop-threshold", flags->stop_threshold,
                   "Of --stop-rule: confidence and head in [0, 1], entropy in nats; 0: the usual "
                   "one")
      ->check(Between(0, kMaxEntropyThreshold))
      ->capture_default_str();
}

void AddRequest(CLI::App* command, RequestOptions* request, RequestFlags* flags) {
  command->add_option("--max-tokens", request->max_tokens,
                      "Tokens to produce at most; without it the model's own default, or as many "
                      "as the context allows");
  AddSampling(command, &request->sampling);
  command
      ->add_option("--stop", request->stop_strings,
                   "End the text before this string; may be given several times")
      ->allow_extra_args(false);
  command->add_flag("--ignore-eos", request->ignore_eos,
                    "Go on after the model's own end of sequence");
  command->add_option("--seed", request->seed,
                      "Same seed, prompt and drafter, nothing else running: the same text (under "
                      "--rule gumbel, whatever drafts and runs)");
  AddSpeculation(command, request, flags);
  command
      ->add_option("--timeout", request->timeout_seconds,
                   "Seconds that one request may take; 0: any number")
      ->check(Between(0, 1e6))
      ->capture_default_str();
}

void AddPlanFlags(CLI::App* command, PlanFlags* flags) {
  PlanOptions& o = flags->options;
  command->add_option("--t-draft", o.draft_ms, "Milliseconds of a drafter's pass for one session")
      ->required();
  command->add_option("--t-draft-row", o.draft_row_ms, "More for each further sequence in it")
      ->capture_default_str();
  command->add_option("--t-verify", o.verify_ms, "Milliseconds of a verifier's step of one row")
      ->required();
  command->add_option("--t-verify-row", o.verify_row_ms, "More for each further row")
      ->capture_default_str();
  command->add_option("--rtt", o.rtt_ms, "Round trip between drafter and verifier, milliseconds")
      ->required();
  command
      ->add_option("--acceptance", o.acceptance,
                   "Chance that a draft token is accepted if those before it are")
      ->required();
  command
      ->add_option("--draft-length", o.draft_length,
                   "Tokens of a draft; 0: for each layout the best")
      ->capture_default_str();
  command->add_option("--sequences", o.sequences, "Sequences of a draft")->capture_default_str();
  command->add_option("--sessions", o.sessions, "Requests at once on a verifier")
      ->capture_default_str();
  command->add_option("--client-rate", o.client_rate, "Tokens a second that each client is to have")
      ->capture_default_str();
  command
      ->add_option("--law-entries", o.law_entries, "Entries of a draft row on the wire, on average")
      ->capture_default_str();
  command->add_option("--ahead-hits", o.ahead_hits,
                      "Share of verdicts that were worked ahead of and guessed; without it, "
                      "acceptance to the power of length + 1");
  command->add_option("--lookup-acceptance", o.lookup_acceptance,
                      "Acceptance of drafts from the text alone, to see them beside the others");
  command->add_option("--verifier-price", o.verifier_price, "Of a verifier, an hour")
      ->capture_default_str();
  command->add_option("--drafter-price", o.drafter_price, "Of a drafter, an hour")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "One JSON object");
}

void AddTrainHeadFlags(CLI::App* command, TrainHeadOptions* o) {
  command
      ->add_option("--data", o->data,
                   "File of examples, as outrider-drafter --collect-head-data writes it")
      ->required();
  command->add_option("--drafter", o->drafter, "Directory of the draft model")->required();
  command->add_option("--out", o->out,
                      "File of the head; without it, acceptance_head.safetensors beside the draft "
                      "model. FILE.state holds what an ended run goes on from");
  command->add_option(
      "--prompts", o->prompts,
      "Lines of {\"prompt\": ...}: ask the verifier for texts that follow them until "
      "--data holds --examples; without it, train on what --data holds");
  AddConnection(command, &o->connection);
  command->add_option("--examples", o->examples, "Drafted tokens that --data is to hold")
      ->check(Above(0))
      ->capture_default_str();
  command->add_option("--concurrency", o->concurrency, "Texts at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--max-tokens", o->max_tokens, "Tokens of a text at most")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--draft-length", o->draft_length,
                   "Tokens of a draft; the last one's state is never computed")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  SamplingParams& sampling = o->sampling;
  command->add_option("--temperature", sampling.temperature, "Of the texts")
      ->check(Above(0))
      ->capture_default_str();
  command->add_option("--top-p", sampling.top_p, "Likewise")
      ->check(Between(0, 1))
      ->capture_default_str();
  command->add_option("--top-k", sampling.top_k, "Likewise; 0: all")
      ->check(AtLeast(0))
      ->capture_default_str();
  command->add_option("--depth", o->training.depth, "Residual blocks; 0: a linear layer")
      ->check(CLI::Range(0, kMaxHeadDepth))
      ->capture_default_str();
  command->add_option("--epochs", o->training.epochs, "Passes over the examples")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--batch", o->training.batch, "Examples of one step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--learning-rate", o->training.learning_rate, "At first; falls to 0")
      ->check(Above(0))
      ->capture_default_str();
  command
      ->add_option("--rejection-weight", o->training.rejection_weight,
                   "Weight of rejections in the loss; the head is calibrated afterwards")
      ->check(Above(0))
      ->capture_default_str();
  command->add_option("--seed", o->training.seed, "Same seed, same --data: the same head")
      ->capture_default_str();
  command->add_flag("--json", o->json, "One JSON object");
}

Status Finish(const RequestFlags& flags, RequestOptions* request) {
  if (flags.stop_rule.empty() && flags.stop_threshold != 0.f) {
    return InvalidArgument("--stop-threshold belongs to a --stop-rule: give both");
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
                    "Show which text was drafted and accepted: in colour on a terminal (unless "
                    "NO_COLOR is set), else in [brackets]");
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
  AddConnection(command, &options.connection);
  command
      ->add_option("--prompts", options.prompts_path,
                   "Lines of {\"prompt\": ..., \"domain\": ..., \"max_tokens\": ...}; the last two "
                   "are optional, and a line's max_tokens goes before --max-tokens")
      ->required();
  command->add_option("--concurrency", options.concurrency, "Requests at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--requests", options.requests,
                   "Requests in all, cycling through the prompts; without it, each prompt once")
      ->check(Above(0));
  command
      ->add_option("--rate", options.rate,
                   "Requests to start a second, whether or not others have ended, as long as fewer "
                   "than --concurrency run; 0: one whenever one ends")
      ->check(AtLeast(0))
      ->capture_default_str();
  command->add_flag("--allow-refused", options.allow_refused,
                    "Requests that are refused for want of room (RESOURCE_EXHAUSTED before the "
                    "first token) do not fail the command");
  AddRequest(command, &options.request, &flags->request);
  command->add_flag("--json", options.json, "One JSON object instead of the table");
  return {command, [flags]() -> Result<Command> {
            OUTRIDER_TRY(Complete(&flags->options.connection));
            OUTRIDER_TRY(Finish(flags->request, &flags->options.request));
            return Command(flags->options);
          }};
}

Subcommand AddStatus(CLI::App& app) {
  const auto options = std::make_shared<StatusOptions>();
  CLI::App* const command =
      app.add_subcommand("status", "The verifier, its drafters and its sessions");
  options->connection.balanced = false;
  AddConnection(command, &options->connection);
  command->add_flag("--json", options->json, "One JSON object instead of tables");
  return {command, [options]() -> Result<Command> {
            OUTRIDER_TRY(Complete(&options->connection));
            return Command(*options);
          }};
}

// Only for --help: its flags are those of outrider-simulate.
Subcommand AddSimulate(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      kSimulate, "Verification rules and the controller on toy models (runs outrider-simulate)");
  return {command, []() -> Result<Command> { return Command(SimulateCommand{}); }};
}

Subcommand AddPlan(CLI::App& app) {
  const auto flags = std::make_shared<PlanFlags>();
  CLI::App* const command = app.add_subcommand(
      "plan", "Speed, capacity, network and price of each layout, from measured times");
  AddPlanFlags(command, flags.get());
  return {command, [flags]() -> Result<Command> { return Command(*flags); }};
}

Subcommand AddTrainHead(CLI::App& app) {
  const auto options = std::make_shared<TrainHeadOptions>();
  CLI::App* const command = app.add_subcommand(
      "train-head", "Train the acceptance head of a draft model, from a running pair");
  AddTrainHeadFlags(command, options.get());
  return {command, [options]() -> Result<Command> {
            OUTRIDER_TRY(Complete(&options->connection));
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
