#include "tests/support/local_pair.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "drafter/rpc/wire.h"

namespace outrider::testing {
namespace {

constexpr uint64_t kConnection = 1;

DraftPlan ToPlan(const RoundPlan& plan) { return {.round = plan.round, .shape = plan.shape}; }

}  // namespace

class LocalPair::ToDrafter final : public DrafterLink {
 public:
  ToDrafter(DraftLoop* loop, std::shared_ptr<VerifierLink> back)
      : loop_(loop), back_(std::move(back)) {}

  void SendWelcome(const DrafterWelcome& welcome) override {
    Push(WelcomeEvent{
        .link = back_, .vocab_limit = welcome.vocab_limit, .law_limits = welcome.law_limits});
  }
  void SendOpen(const SessionStart& start) override {
    Push(OpenEvent{.session = start.session,
                   .tokens = {start.tokens.begin(), start.tokens.end()},
                   .prompt_tokens = start.prompt_tokens,
                   .sampling = *start.sampling,
                   .seed = start.seed,
                   .kind = start.kind,
                   .plan = ToPlan(start.plan)});
  }
  void SendDecisions(const std::vector<RoundDecision>& decisions) override {
    VerdictsEvent event;
    for (const RoundDecision& d : decisions) {
      event.verdicts.push_back({.session = d.session,
                                .round = d.round,
                                .node = d.node,
                                .next = {d.next.begin(), d.next.end()},
                                .plan = ToPlan(d.plan)});
    }
    Push(std::move(event));
  }
  void SendClose(uint64_t session) override { Push(CloseEvent{session}); }
  void SendDrain() override { Push(DrainEvent{}); }
  void Close(const Status& reason) override { OUTRIDER_CHECK(reason.ok()); }

 private:
  void Push(LinkMessage message) {
    OUTRIDER_CHECK(loop_->Push({.connection = kConnection, .message = std::move(message)}));
  }

  DraftLoop* loop_;
  std::shared_ptr<VerifierLink> back_;
};

// Keeps drafts until the pair hands them over: a source never calls the engine from within a call.
class LocalPair::ToVerifier final : public VerifierLink {
 public:
  void SendDrafts(std::vector<Draft> drafts) override { batches.push_back(std::move(drafts)); }
  void SendLoad(const DrafterLoad& /*load*/) override {}

  std::vector<std::vector<Draft>> batches;
};

LocalPair::LocalPair(const LocalPairOptions& options, Model* target, Model* drafter,
                     const Tokenizer* tokenizer, const Clock* clock)
    : to_verifier_(std::make_shared<ToVerifier>()) {
  const ModelConfig& config = target->config();
  pool_ = std::make_unique<DrafterPool>(TargetIdentity{.model = config.name,
                                                       .tokenizer = tokenizer->fingerprint(),
                                                       .vocab_size = config.vocab_size},
                                        options.law_limits, nullptr, clock);
  engine_ =
      std::make_unique<Engine>(options.engine, target, tokenizer, pool_.get(), nullptr, clock);
  pool_->set_consumer(engine_.get());
  loop_ = std::make_unique<DraftLoop>(drafter, options.drafter, clock, nullptr);
  const Status joined = pool_->Join(kConnection,
                                    {.protocol_version = kDraftingProtocolVersion,
                                     .name = "local",
                                     .model = drafter->config().name,
                                     .tokenizer = tokenizer->fingerprint(),
                                     .vocab_size = drafter->config().vocab_size,
                                     .max_sessions = options.drafter.max_sessions,
                                     .max_draft_length = options.drafter.max_draft_length,
                                     .max_draft_tokens = options.drafter.max_draft_tokens,
                                     .max_context = drafter->config().max_position_embeddings},
                                    std::make_shared<ToDrafter>(loop_.get(), to_verifier_));
  OUTRIDER_CHECK(joined.ok());
}

LocalPair::~LocalPair() = default;

void LocalPair::Run() {
  for (bool busy = true; busy;) {
    busy = engine_->Step();
    while (loop_->Step()) busy = true;
    for (std::vector<Draft>& batch : std::exchange(to_verifier_->batches, {})) {
      busy = true;
      const auto bytes = static_cast<int64_t>(ToWire(batch).ByteSizeLong());
      draft_bytes_ += bytes;
      ++draft_messages_;
      largest_draft_bytes_ = std::max(largest_draft_bytes_, bytes);
      std::vector<ArrivedDraft> arrived;
      for (Draft& d : batch) {
        arrived.push_back({.session = d.session, .round = d.round, .chunk = std::move(d.chunk)});
      }
      pool_->OnDrafts(kConnection, std::move(arrived), static_cast<size_t>(bytes));
    }
  }
}

}  // namespace outrider::testing
