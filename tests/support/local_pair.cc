#include "tests/support/local_pair.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/rpc/drafting_wire.h"
#include "verifier/embedded/local_link.h"

namespace outrider::testing {
namespace {

constexpr uint64_t kConnection = 1;

// Whether the engine has requested one of them.
bool HasAwaited(const std::vector<DraftPart>& batch) {
  return std::any_of(batch.begin(), batch.end(),
                     [](const DraftPart& part) { return !part.early.has_value(); });
}

}  // namespace

// Keeps drafts until the pair delivers them: a source never calls the engine from within a call.
class LocalPair::ToVerifier final : public VerifierLink {
 public:
  void SendDrafts(std::vector<DraftPart> drafts) override { batches.push_back(std::move(drafts)); }
  void SendLoad(const DrafterLoad& /*load*/) override {}
  void Close() override {}

  std::deque<std::vector<DraftPart>> batches;
};

LocalPair::LocalPair(const LocalPairOptions& options, Model* target, Model* drafter,
                     const Tokenizer* tokenizer, const Clock* clock)
    : drafts_cross_verdicts_(options.drafts_cross_verdicts),
      to_verifier_(std::make_shared<ToVerifier>()) {
  const ModelConfig& config = target->config();
  const bool translates = options.draft_tokenizer != nullptr;
  TargetIdentity identity{
      .model = config.name, .tokenizer = tokenizer->fingerprint(), .vocab_size = config.vocab_size};
  std::shared_ptr<const DrafterVocabulary> own;
  if (translates) {
    identity.vocabulary = std::make_shared<const VocabularyEntries>(
        VocabularyEntries::FromTokenizer(*tokenizer, config.vocab_size, config.eos_token_ids)
            .value());
    own = VocabularyOf(*options.draft_tokenizer, drafter->config());
  }
  pool_ = std::make_unique<DrafterPool>(identity, options.distribution_limits, nullptr, clock);
  engine_ =
      std::make_unique<Engine>(options.engine, target, tokenizer, pool_.get(), nullptr, clock);
  pool_->set_consumer(&engine_->draft_consumer());
  loop_ = std::make_shared<DraftLoop>(drafter, options.drafter, clock, nullptr);
  const auto link = std::make_shared<LocalDrafterLink>(kConnection, loop_, to_verifier_, own);
  const Tokenizer& draft_tokenizer = translates ? *options.draft_tokenizer : *tokenizer;
  const DrafterHello hello =
      LocalHello(*drafter, options.drafter, draft_tokenizer.fingerprint(), translates);
  OUTRIDER_CHECK(pool_->roster().Join(kConnection, hello, link).ok());
  if (link->match().has_value()) {
    OUTRIDER_CHECK(pool_->roster().OnMatch(kConnection, *link->match()).ok());
  }
}

LocalPair::~LocalPair() = default;

void LocalPair::Run() {
  for (bool busy = true; busy;) {
    busy = engine_->Step();
    while (loop_->Step()) busy = true;
    std::deque<std::vector<DraftPart>>& batches = to_verifier_->batches;
    for (bool is_stopped = false; !batches.empty() && !is_stopped; batches.pop_front()) {
      busy = true;
      is_stopped = drafts_cross_verdicts_ && HasAwaited(batches.front());
      HandOver(std::move(batches.front()));
    }
  }
}

void LocalPair::HandOver(std::vector<DraftPart> batch) {
  const auto bytes = static_cast<int64_t>(ToWire(batch).ByteSizeLong());
  draft_bytes_ += bytes;
  ++draft_messages_;
  pool_->OnDrafts(kConnection, std::move(batch), static_cast<size_t>(bytes));
}

}  // namespace outrider::testing
