#include "drafter/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <utility>

#include "common/command_line/command_line.h"
#include "common/rpc/drafting_wire.h"
#include "common/rpc/plaintext.h"
#include "drafter/subset/verifier_subset.h"

namespace outrider {

Status CheckVerifier(const DrafterOptions& o, const std::string& address) {
  if (o.service.allow_plaintext || !o.service.tls.ca.empty()) return Status();
  return CheckPlaintext("--verifier", address, "give --tls-ca");
}

namespace {

void AddVerifierFlags(CLI::App& app, DrafterOptions* o, std::vector<std::string>* verifiers) {
  app.option_defaults()->group("Verifiers");
  app.add_option(
         "--verifier", *verifiers,
         "The verifiers to attach to, separated by commas: host:port is one verifier, "
         "dns:///host:port every address of the name, file:PATH every line of a file. Changes of "
         "names and files are followed, and lost verifiers are dialled again until they return")
      ->required()
      ->delimiter(',');
  app.add_option("--resolve-seconds", o->resolve_seconds,
                 "Seconds between lookups of a dns:/// name; one second while one of its verifiers "
                 "is not attached")
      ->check(Between(0.1, 3600));
  app.add_option(
         "--subset", o->subset,
         "The most verifiers to serve at once, of those that --verifier names, and no more than "
         "--max-sessions; drafters spread over them, so that every verifier gets its share")
      ->check(CLI::Range(1, kMaxSubset));
  app.add_option(
         "--rebalance-seconds", o->rebalance_seconds,
         "Mean seconds between checks whether a verifier that is not served needs this drafter "
         "more than one that is")
      ->check(Between(0.1, 3600));
  app.add_option("--zone", o->zone,
                 "Where the drafter runs, such as an availability zone: verifiers of the same "
                 "--zone are preferred; empty: none are")
      ->check([](const std::string& zone) {
        return CheckAtMost("--zone", std::ssize(zone), kMaxNameBytes, "bytes").message();
      });
  app.add_option("--tls-ca", o->service.tls.ca,
                 "PEM file of the authorities that the verifiers' certificates must come from; "
                 "enables TLS. --listen (with --tls-cert) then only accepts clients with a "
                 "certificate from these authorities");
  app.add_option("--tls-server-name", o->tls_server_name,
                 "Name that the verifiers' certificates must have; empty: the host of --verifier");
  app.add_option("--token-file", o->token_file,
                 "File whose first token is sent to the verifiers; read at every dial");
  app.add_option("--name", o->name, "Name in the verifiers' logs and status; empty: host:pid")
      ->check([](const std::string& name) {
        return CheckAtMost("--name", std::ssize(name), kMaxNameBytes, "bytes").message();
      });
  app.add_flag("--exit-on-refusal", o->exit_on_refusal,
               "Exit with code 3 if a verifier refuses this drafter (too few shared tokens, "
               "another protocol, or not authorized), instead of trying again within 10 seconds");
}

void AddDraftingFlags(CLI::App& app, DrafterOptions* o) {
  app.option_defaults()->group("Drafting");
  app.add_option("--max-sessions", o->max_sessions, "The most sessions at once, over all verifiers")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-draft-length", o->max_draft_length,
                 "The most depths of a draft; longer plans are cut")
      ->check(CLI::Range(1, 64));
  app.add_option("--max-draft-tokens", o->max_draft_tokens,
                 "The most tokens of a draft over all its sequences; larger plans are refused")
      ->check(CLI::Range(1, kMaxChunkDraws));
  app.add_option("--chunk-depths", o->chunk_depths, "Depths in each part of a draft that is sent")
      ->check(CLI::Range(1, 64));
  app.add_flag(
      "!--no-prefix-cache", o->prefix_cache,
      "Read every prompt from its first token, even if an earlier text has the same beginning");
  app.add_option("--ahead-tokens", o->ahead_tokens,
                 "Tokens of lookahead drafting per verdict, for its likely outcomes, while the "
                 "drafter is idle; 0: off")
      ->check(CLI::Range(0, 4096));
  app.add_option(
         "--max-ahead-rows", o->max_ahead_rows,
         "The most tokens of lookahead drafting in one forward pass; a verdict that arrives "
         "meanwhile waits for the pass")
      ->check(CLI::Range(1, 4096));
}

void AddHeadFlags(CLI::App& app, DrafterOptions* o) {
  app.option_defaults()->group("Acceptance head");
  app.add_option("--acceptance-head", o->acceptance_head,
                 "File of the acceptance head, for requests with --stop-rule head; empty: "
                 "acceptance_head.safetensors beside the model, if it exists");
  app.add_option("--collect-head-data", o->collect_head_data,
                 "File to which examples for 'outrider train-head' are appended, from requests "
                 "with --stop-rule head --stop-threshold 1. It reveals their texts, so protect "
                 "it as you would protect those");
  app.add_option("--collect-head-examples", o->collect_head_examples,
                 "The most examples in that file, each of 16 + 4 * (the model's hidden size) bytes")
      ->check(Above(0));
}

// Checks that need several flags.
Status Complete(const std::vector<std::string>& verifiers, DrafterOptions* o) {
  OUTRIDER_TRY(CheckModelFlags(o->service));
  OUTRIDER_TRY(CheckTransport(o->service));
  if (!o->tls_server_name.empty() && o->service.tls.ca.empty()) {
    return InvalidArgument("--tls-server-name needs --tls-ca");
  }
  if (!o->service.tls.cert.empty() && o->service.tls.ca.empty() && o->service.listen.empty()) {
    return InvalidArgument("--tls-cert needs --tls-ca, to dial with TLS, or --listen");
  }
  if (o->collect_head_examples != DrafterOptions().collect_head_examples &&
      o->collect_head_data.empty()) {
    return InvalidArgument("--collect-head-examples needs --collect-head-data");
  }
  // More could not all have a session.
  o->subset = std::min(o->subset, o->max_sessions);
  for (const std::string& text : verifiers) {
    Result<VerifierTarget> target = ParseVerifierTarget(text);
    if (!target.ok()) return target.status().Annotate("--verifier");
    o->verifiers.push_back(std::move(target).value());
  }
  for (const VerifierTarget& target : o->verifiers) {
    if (target.kind == VerifierTarget::Kind::kFile) {
      const Result<std::vector<std::string>> addresses = ReadAddresses(target.path);
      if (!addresses.ok()) return addresses.status().Annotate("--verifier");
      for (const std::string& address : *addresses) OUTRIDER_TRY(CheckVerifier(*o, address));
    } else {
      OUTRIDER_TRY(CheckVerifier(*o, target.text));
    }
  }
  return Status();
}

}  // namespace

std::optional<int> ParseDrafterOptions(int argc, char** argv, DrafterOptions* o) {
  CLI::App app{
      "outrider-drafter: drafts tokens with a small model for the verifiers that it attaches to, "
      "which have the same tokenizer or share at least 70 % of its tokens. It keeps no state: "
      "start, stop or kill it at any time. With --listen it answers grpc.health.v1 (\"\": alive, "
      "outrider.v1.Drafting: attached to a verifier)."};
  AddServiceFlags(app, &o->service);
  app.get_option("--listen")
      ->description(
          "host:port of a gRPC server that answers health checks; port 0: any free port; empty: "
          "none");
  std::vector<std::string> verifiers;
  AddVerifierFlags(app, o, &verifiers);
  AddDraftingFlags(app, o);
  AddHeadFlags(app, o);
  return ParseCommandLine(app, argc, argv, std::cout, std::cerr,
                          [&] { return Complete(verifiers, o); });
}

}  // namespace outrider
