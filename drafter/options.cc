#include "drafter/options.h"

#include <CLI/CLI.hpp>

#include "common/rpc/plaintext.h"
#include "common/rpc/wire.h"

namespace outrider {

std::optional<int> ParseDrafterOptions(int argc, char** argv, DrafterOptions* o) {
  CLI::App app{
      "outrider-drafter: drafts tokens with a small model for the verifiers that it attaches to, "
      "which must have the same tokenizer. It holds no state worth keeping: start, stop or kill it "
      "at any time. With --listen it answers grpc.health.v1 (\"\" alive, outrider.v1.Drafting "
      "attached to a verifier)."};
  AddServiceFlags(app, &o->service);
  app.add_option("--verifier", o->verifiers,
                 "host:port of the verifiers to attach to, separated by commas; each is dialled "
                 "again for ever when it is away")
      ->required()
      ->delimiter(',');
  app.add_option("--tls-ca", o->service.tls.ca,
                 "PEM file of the authorities that the verifiers' certificates come from: they are "
                 "dialled with TLS, and --listen (with --tls-cert) takes only clients with a "
                 "certificate of theirs");
  app.add_option("--tls-server-name", o->tls_server_name,
                 "Name that the verifiers' certificates must carry; empty: the host of --verifier");
  app.add_option("--token-file", o->token_file,
                 "File whose first token is sent to the verifiers; read at every dial");
  app.add_option("--name", o->name, "Name in the verifiers' logs and status; empty: host:pid");
  app.add_flag("--exit-on-refusal", o->exit_on_refusal,
               "Exit with code 3 when a verifier refuses this drafter (another tokenizer or "
               "protocol, or not authorized), instead of asking again every 10 seconds");
  app.add_option("--max-sessions", o->max_sessions, "Sessions of all verifiers at once")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-draft-length", o->max_draft_length,
                 "Depth of a draft at most: longer plans are cut")
      ->check(CLI::Range(1, 64));
  app.add_option("--max-draft-tokens", o->max_draft_tokens,
                 "Tokens of a draft at most, of all its sequences: larger plans are refused")
      ->check(CLI::Range(1, kMaxChunkDraws));
  app.add_option("--chunk-depths", o->chunk_depths,
                 "Depths of a draft after which it is sent in part")
      ->check(CLI::Range(1, 64));
  app.add_option("--ahead-tokens", o->ahead_tokens,
                 "Tokens fed ahead of one verdict, for its likely outcomes, while the drafter has "
                 "nothing else to do; 0: none")
      ->check(CLI::Range(0, 4096));
  app.add_option("--max-ahead-rows", o->max_ahead_rows,
                 "Of them in one forward pass, which a verdict may have to wait for")
      ->check(CLI::Range(1, 4096));
  app.add_option("--acceptance-head", o->acceptance_head,
                 "File of the acceptance head, for requests with --stop-rule head; empty: "
                 "acceptance_head.safetensors beside the model, if it is there");
  app.add_option("--collect-head-data", o->collect_head_data,
                 "File to which examples for 'outrider train-head' are added, of requests with "
                 "--stop-rule head --stop-threshold 1. It tells of their texts: keep it as they "
                 "are kept");
  app.add_option("--collect-head-examples", o->collect_head_examples,
                 "Examples that the file holds at most, of 16 bytes and 4 for each number of the "
                 "model's hidden size")
      ->check(CLI::PositiveNumber);
  return ParseCommandLine(app, argc, argv, [o] {
    OUTRIDER_TRY(CheckTransport(o->service));
    if (o->service.allow_plaintext || !o->service.tls.ca.empty()) return Status();
    for (const std::string& address : o->verifiers) {
      OUTRIDER_TRY(CheckPlaintext("--verifier", address, "give --tls-ca"));
    }
    return Status();
  });
}

}  // namespace outrider
