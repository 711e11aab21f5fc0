// Messages of a drafter to the verifier's pool: honest drafts, modified ones, and arbitrary bytes.
// Every rule can verify what is accepted; what is rejected closes only that drafter's stream, and
// another drafter's sessions are not affected.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/rpc/drafting_wire.h"
#include "common/rules/host_rounds.h"
#include "tests/fuzz/draft_maker.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/fake_clock.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider::fuzz {
namespace {

constexpr int kVocab = 12;
constexpr uint64_t kHonest = 1, kHostile = 2;
constexpr uint64_t kFirstHostileSession = 3;

TokenizerFingerprint Fingerprint() {
  return {.vocabulary = 1, .merges = 2, .special_tokens = 3, .vocab_size = kVocab};
}

v1::FromDrafter HelloMessage() {
  v1::FromDrafter message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_protocol_version(kDraftingProtocol);
  hello->set_name("d");
  hello->mutable_tokenizer()->set_vocabulary(1);
  hello->mutable_tokenizer()->set_merges(2);
  hello->mutable_tokenizer()->set_special_tokens(3);
  hello->mutable_tokenizer()->set_vocab_size(kVocab);
  hello->set_vocab_size(16);
  hello->set_max_sessions(16);
  hello->set_max_draft_length(8);
  hello->set_max_draft_tokens(64);
  hello->set_max_context(64);
  return message;
}

std::shared_ptr<const VocabularyEntries> Vocabulary() {
  auto vocabulary = std::make_shared<VocabularyEntries>();
  for (char c = 'a'; vocabulary->size() < 16; ++c) {
    Require(vocabulary->Add(TokenKind::kText, {&c, 1}).ok());
  }
  return vocabulary;
}

class Link final : public DrafterLink {
 public:
  void SendVocabulary(const VocabularyEntries&) override {}
  void SendWelcome(const DrafterWelcome&) override {}
  void SendDemand(const DrafterDemand&) override {}
  void SendOpen(SessionOpening) override {}
  void SendVerdicts(std::vector<SessionVerdict>) override {}
  void SendClose(uint64_t) override {}
  void SendDrain() override {}
  // OK: after a visit.
  void Close(const Status&) override { closed = true; }

  bool closed = false;
};

// A row of target probabilities, some of them 0, that depends on the node.
std::vector<float> TargetRow(int node) {
  std::vector<float> row(kVocab);
  uint32_t hash = static_cast<uint32_t>(node) * 2654435761u + 12345u;
  float sum = 0;
  for (float& p : row) {
    hash = hash * 1664525u + 1013904223u;
    p = (hash >> 28) < 4 ? 0.f : static_cast<float>((hash >> 8) & 0xffff) + 1.f;
    sum += p;
  }
  if (sum == 0) row[0] = sum = 1;
  for (float& p : row) p /= sum;
  return row;
}

void CheckVerdict(Rule rule, const DraftTree& tree) {
  std::vector<std::vector<float>> rows;
  for (int node = 0; node <= tree.size(); ++node) rows.push_back(TargetRow(node));
  const Verdict verdict = VerifyRound(
      rule, tree,
      [&](int node) -> std::span<const float> { return rows[static_cast<size_t>(node)]; }, kVocab,
      /*seed=*/7, /*round=*/3, /*position=*/5);
  Require(verdict.node >= 0 && verdict.node <= tree.size());
  Require(verdict.accepted == tree.depth(verdict.node));
  Require(verdict.next >= 0 && verdict.next < kVocab);
  // Accepted tokens have positive target probability.
  for (int node = verdict.node; node != DraftTree::kRoot; node = tree.parent(node)) {
    Require(rows[static_cast<size_t>(tree.parent(node))][static_cast<size_t>(tree.token(node))] >
            0);
  }
  Require(rows[static_cast<size_t>(verdict.node)][static_cast<size_t>(verdict.next)] > 0);
}

struct Plan {
  DraftKind kind;
  DraftShape shape;
};
const std::vector<Plan>& Plans() {
  static const std::vector<Plan> plans = {
      {DraftKind::kSampled, Sequences(1, 4)},
      {DraftKind::kSampled, Sequences(3, 3)},
      {DraftKind::kSampled, {.length = 3, .branching = {2, 1, 2}}},
      {DraftKind::kArgmax, {.length = 3, .branching = {3, 2}}},
      {DraftKind::kRace, Sequences(2, 3)},
  };
  return plans;
}

class Verifier final : public DraftConsumer {
 public:
  Verifier() {
    SetLogLevel(static_cast<LogLevel>(static_cast<int>(LogLevel::kError) + 1));  // no log
    pool_.set_consumer(this);
    DrafterHello hello = FromWire(HelloMessage().hello()).value();
    hello.max_sessions = 2;
    Require(pool_.roster().Join(kHonest, hello, std::make_shared<Link>()).ok());
    // It has shown that it drafts, so that it gets two sessions.
    Open(0);
    pool_.OnDrafts(kHonest,
                   {{.session = 0,
                     .round = 1,
                     .chunk = {.tokens = {1},
                               .distributions = {{.ids = {1}, .weights = {kDraftWeightTotal}}}}}},
                   0);
    pool_.Close(0);
    Open(1);
    Open(2);
  }

  void Run(Input& in) {
    if (const int greeting = in.Below(8); greeting == 1) {
      GreetTranslating(in);
    } else if (greeting != 0) {
      Arrive(HelloMessage());
    }
    for (int i = 0; i < 60 && !in.empty() && !over_; ++i) Do(in);
    // The honest drafter still has its sessions.
    for (const uint64_t session : {uint64_t{1}, uint64_t{2}}) {
      Require(pool_.DrafterName(session) == "d");
    }
    pool_.roster().OnStreamEnd(kHostile, StreamEnd::kClosed);
    Require(pool_.roster().Snapshot().size() == 1 && pool_.roster().Snapshot()[0].sessions == 2);
  }

  void OnDraft(uint64_t id, uint32_t round, const DraftTree& tree, bool complete) override {
    if (id == 0) return;
    Session& session = Hostile(id);
    Require(round == session.round && !tree.empty() && !session.complete);
    session.complete = complete;
    const Plan& plan = Plans()[session.plan];
    Require(tree.max_depth() <= plan.shape.length);
    Require(tree.total_draws() <= plan.shape.total_draws());
    switch (plan.kind) {
      case DraftKind::kRace:
      case DraftKind::kArgmax: CheckVerdict(Rule::kGumbel, tree); break;
      case DraftKind::kSampled:
        for (const Rule rule : {Rule::kSpecTr, Rule::kMultiRound, Rule::kMultiPathBlock}) {
          CheckVerdict(rule, tree);
        }
        if (plan.shape.leaves() == 1) {
          CheckVerdict(Rule::kToken, tree);
          CheckVerdict(Rule::kBlock, tree);
        }
        AcceptanceOfFirstToken(tree, TargetRow(0));
    }
  }
  void OnDrafterLost(uint64_t session) override {
    Hostile(session);
    sessions_.erase(session);
  }
  void OnDrafterBack(uint64_t session) override {
    if (session != 0) Hostile(session);
  }
  void OnRefused(uint64_t session) override {
    Hostile(session);
    sessions_.erase(session);
  }

 private:
  struct Session {
    size_t plan = 0;
    uint32_t round = 1;
    bool complete = false;
    std::optional<DraftMaker> maker;
  };

  Session& Hostile(uint64_t id) {
    Require(id >= kFirstHostileSession && sessions_.contains(id));
    return sessions_.at(id);
  }

  void Open(uint64_t id) {
    const size_t plan = id % Plans().size();
    const std::vector<TokenId> tokens = {1, 2, 3};
    if (!pool_.HasRoom(static_cast<int>(tokens.size()) + Plans()[plan].shape.length)) return;
    pool_.Open({.session = id,
                .tokens = tokens,
                .prompt_tokens = 3,
                .seed = 9,
                .kind = Plans()[plan].kind,
                .plan = {.round = 1, .shape = Plans()[plan].shape}});
    if (id < kFirstHostileSession) return;
    sessions_[id] = {.plan = plan,
                     .maker = DraftMaker(Plans()[plan].shape, Plans()[plan].kind, kVocab)};
  }

  // Like a drafter with another vocabulary.
  void GreetTranslating(Input& in) {
    v1::FromDrafter message = HelloMessage();
    message.mutable_hello()->mutable_tokenizer()->set_vocabulary(77);
    message.mutable_hello()->set_translates(true);
    Arrive(message);
    message.mutable_match()->set_shared(in.Byte() % 20u);
    message.mutable_match()->set_tokens(in.Byte() % 20u);
    Arrive(message);
  }

  void Do(Input& in) {
    const int operation = in.Below(8);
    if (operation < 2) {
      const std::string_view bytes = in.Block();
      v1::FromDrafter message;
      if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) Arrive(message);
      return;
    }
    const uint64_t id = kFirstHostileSession + static_cast<uint64_t>(in.Below(10));
    const auto found = sessions_.find(id);
    if (found == sessions_.end()) {
      Open(id);
      return;
    }
    if (operation == 2) {  // closed, or the next round
      if (in.Below(4) == 0) {
        pool_.Close(id);
        sessions_.erase(found);
        return;
      }
      Session& session = found->second;
      const Plan& plan = Plans()[session.plan];
      const uint32_t decided = session.round++;
      pool_.Decide({.session = id,
                    .round = decided,
                    .next = {},
                    .plan = {.round = session.round, .shape = plan.shape}});
      pool_.Flush();
      session.complete = false;
      session.maker.emplace(plan.shape, plan.kind, kVocab);
      return;
    }
    clock_.Advance(std::chrono::milliseconds(in.Byte()));
    Arrive(DraftsMessage(id, found->second, in));
  }

  // The session's next part, modified if the input says so.
  static v1::FromDrafter DraftsMessage(uint64_t id, Session& session, Input& in) {
    v1::FromDrafter message;
    v1::Draft* draft = message.mutable_drafts()->add_drafts();
    DraftPart part{.session = id, .round = session.round, .chunk = {}};
    if (!session.maker->done()) part.chunk = session.maker->Next(in);
    ToWire(part, draft);
    const auto any = [&in](auto* list, auto value) {
      if (!list->empty()) list->Set(in.Below(std::min(list->size(), 256)), value);
    };
    switch (in.Below(20)) {
      case 0: draft->set_session(in.Byte()); break;
      case 1: draft->set_round(draft->round() + in.Byte() - 1u); break;
      case 2: any(draft->mutable_token_ids(), 0u - in.Byte()); break;
      case 3: any(draft->mutable_parents(), uint32_t{in.Byte()}); break;
      case 4: draft->clear_parents(); break;
      case 5: draft->add_token_ids(in.Byte()); break;
      case 6: draft->add_rows(); break;
      case 7: draft->clear_rows(); break;
      case 8: draft->set_more(!draft->more()); break;
      case 9:
        if (draft->rows_size() > 0) any(draft->mutable_rows(0)->mutable_weights(), in.Byte() * 1u);
        break;
      case 10:
        if (draft->rows_size() > 0) any(draft->mutable_rows(0)->mutable_id_gaps(), in.Byte() * 1u);
        break;
      case 11: *message.mutable_drafts()->add_drafts() = *draft; break;
      default: break;
    }
    return message;
  }

  // Handles a message of the hostile drafter's stream, like the service.
  void Arrive(const v1::FromDrafter& message) {
    if (over_) return;
    switch (message.message_case()) {
      case v1::FromDrafter::kHello: {
        if (link_ != nullptr) {
          over_ = true;
          return;
        }
        link_ = std::make_shared<Link>();
        const Result<DrafterHello> hello = FromWire(message.hello());
        over_ = !hello.ok() || !pool_.roster().Join(kHostile, *hello, link_).ok();
        return;
      }
      case v1::FromDrafter::kDrafts: {
        if (link_ == nullptr) {
          over_ = true;
          return;
        }
        Result<std::vector<DraftPart>> drafts =
            FromWire(message.drafts(), pool_.roster().distribution_limits().max_entries);
        if (!drafts.ok()) {
          over_ = true;
          return;
        }
        pool_.OnDrafts(kHostile, std::move(drafts).value(), message.ByteSizeLong());
        over_ = link_->closed;
        return;
      }
      case v1::FromDrafter::kMatch:
        if (link_ != nullptr) {
          over_ = !pool_.roster().OnMatch(kHostile, FromWire(message.match())).ok();
        }
        break;
      case v1::FromDrafter::kLoad:
        if (link_ != nullptr) pool_.roster().OnLoad(kHostile, FromWire(message.load()));
        return;
      default: return;
    }
  }

  testing::FakeClock clock_;
  std::map<uint64_t, Session> sessions_;  // the hostile drafter's
  std::shared_ptr<Link> link_;
  bool over_ = false;
  DrafterPool pool_{
      {.model = "large", .tokenizer = Fingerprint(), .vocab_size = 16, .vocabulary = Vocabulary()},
      {.mass = 0.999f, .max_entries = 8},
      nullptr,
      &clock_};
};

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  outrider::fuzz::Verifier().Run(in);
  return 0;
}
