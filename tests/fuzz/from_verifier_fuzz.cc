// Messages of a verifier to the drafting loop on a model without weights: honest messages and
// arbitrary bytes. Every plan is answered by a valid draft or a refusal, a draft that has begun is
// always completed, and at the stream's end every sequence and page is freed.

#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/rpc/drafting_wire.h"
#include "drafter/propose/draft_loop.h"
#include "drafter/rpc/link_message.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"

namespace outrider::fuzz {
namespace {

constexpr uint64_t kConnection = 7;
constexpr int kVocab = 20;
constexpr TokenId kEnd = 5;  // of the draft model

// The last plan of a session, and its answer so far.
struct Asked {
  uint32_t round = 0;
  DraftShape shape;
  DraftKind kind = DraftKind::kSampled;
  DraftTree draft;
  bool complete = false;
};

class Link final : public VerifierLink {
 public:
  void SendDrafts(std::vector<DraftPart> drafts) override {
    for (DraftPart& draft : drafts) Arrive(std::move(draft));
  }
  void SendLoad(const DrafterLoad& load) override {
    Require(load.sessions >= 0 && load.free_pages >= 0 && load.session_limit.value() > 0);
  }
  void Close() override {}

  std::map<uint64_t, Asked> asked;
  int vocab_limit = 0;

 private:
  void Arrive(DraftPart draft) {
    // As sent over the wire.
    v1::FromDrafter message = ToWire(std::vector<DraftPart>{draft});
    const Result<DraftPart> sent = FromWire(message.drafts().drafts(0));
    Require(sent.ok() && sent->chunk.tokens == draft.chunk.tokens);
    const auto found = asked.find(draft.session);
    if (draft.chunk.tokens.empty()) {
      if (found == asked.end()) return;
      Require(found->second.draft.empty());
      asked.erase(found);
      return;
    }
    Require(found != asked.end());
    Asked& a = found->second;
    Require(draft.round == a.round && !a.complete);
    a.complete = !draft.chunk.more;
    Require(a.draft.Append(sent->chunk).ok());
    Require(Validate(a.draft, a.shape, a.kind == DraftKind::kSampled, vocab_limit).ok());
  }
};

float Extreme(Input& in) {
  constexpr float kValues[] = {0.f, 1.f, 0.5f, 1e-45f, 1e-38f, 3e38f, -1.f, 2.f, 100.f, 0.9f};
  return kValues[in.Below(static_cast<int>(std::size(kValues)))];
}

void FillPlan(Input& in, uint32_t round, v1::Plan* plan) {
  plan->set_round(round);
  plan->set_length(static_cast<uint32_t>(in.Below(7)));
  for (int i = in.Below(4); i > 0; --i) plan->add_branching(static_cast<uint32_t>(in.Below(5)));
  if (in.Below(3) > 0) return;
  plan->mutable_stop()->set_kind(static_cast<v1::StopRule::Kind>(in.Below(6)));
  plan->mutable_stop()->set_threshold(Extreme(in));
}

class Drafter {
 public:
  explicit Drafter(bool keeps_prefixes)
      : model_({.vocab_size = kVocab,
                .page_tokens = 2,
                .total_pages = 40,
                .max_batch_tokens = 16,
                .max_position_embeddings = 40,
                .eos_token_ids = {kEnd}}),
        keeps_prefixes_(keeps_prefixes) {
    loop_.emplace(&model_,
                  DraftLoopOptions{.max_sessions = 4,
                                   .max_draft_length = 5,
                                   .max_draft_tokens = 30,
                                   .chunk_depths = 2,
                                   .tokenizer_vocab = kVocab - 1,
                                   .prefix_cache = keeps_prefixes,
                                   .max_chunk_tokens = 8},
                  &clock_, nullptr);
    SetLogLevel(static_cast<LogLevel>(static_cast<int>(LogLevel::kError) + 1));  // no log
  }

  // The verifier's tokens are the first letters or determined by the input; the drafter's are the
  // same in reverse order, with one more instead of "a".
  void Offer(Input& in) {
    v1::FromVerifier message;
    v1::Vocabulary* vocabulary = message.mutable_vocabulary();
    DrafterVocabulary own;
    for (int i = 0; i < kVocab; ++i) {
      vocabulary->add_entries(4 + 1);
      vocabulary->mutable_text()->push_back(static_cast<char>('a' + i));
      const char last = static_cast<char>('a' + kVocab - i);
      const bool is_end = i == kEnd;
      Require(own.entries
                  .Add(is_end ? TokenKind::kSpecial : TokenKind::kText,
                       is_end ? std::string_view("<end>") : std::string_view(&last, 1))
                  .ok());
    }
    Require(own.entries.AddEndToken(kEnd).ok());
    for (int changes = in.Below(4); changes > 0; --changes) {
      const int id = in.Below(kVocab);
      const uint32_t bytes = in.Byte() % 4u;
      vocabulary->set_entries(id, 4 * bytes + in.Byte() % 4u);
      if (in.Below(2) == 0) vocabulary->mutable_text()->append(bytes, 'z');
    }
    for (int ends = in.Below(3); ends > 0; --ends) vocabulary->add_end_tokens(in.Byte() % 32u);
    const Result<VocabularyEntries> entries = FromWire(message.vocabulary());
    Result<VocabularyMap> map = entries.ok() ? VocabularyMap::Create(*entries, own)
                                             : Result<VocabularyMap>(entries.status());
    if (map.ok()) map_ = std::make_shared<const VocabularyMap>(std::move(map).value());
  }

  void Run(Input& in) {
    if (in.Below(4) == 1) Offer(in);
    if (in.Below(8) != 0) {
      v1::FromVerifier message;
      v1::Welcome* welcome = message.mutable_welcome();
      welcome->set_protocol_version(kDraftingProtocol);
      welcome->set_vocab_limit(1u + in.Byte() % 32);
      welcome->mutable_law_limits()->set_mass(in.Below(4) == 0 ? Extreme(in) : 0.99f);
      welcome->mutable_law_limits()->set_max_entries(1u + in.Byte());
      Arrive(message);
    }
    for (int i = 0; i < 80 && !in.empty() && !over_; ++i) Do(in);
    // The loop comes to rest with every complete plan answered.
    for (int i = 0; i < 2000 && loop_->Step(); ++i) {
    }
    Require(!loop_->Step());
    for (const auto& [session, a] : link_->asked) Require(a.complete || a.shape.length == 0);
    loop_->PushUrgent({kConnection, DisconnectedEvent{}});
    loop_->Step();
    Require(loop_->load().sessions == 0);
    Require(keeps_prefixes_ || loop_->load().free_pages == model_.total_pages());
    loop_.reset();
    Require(model_.sequences() == 0 && model_.free_pages() == model_.total_pages());
  }

 private:
  void Do(Input& in) {
    v1::FromVerifier message;
    switch (in.Below(8)) {
      case 0: {
        const std::string_view bytes = in.Block();
        if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return;
        break;
      }
      case 1:
      case 2: FillOpen(in, message.mutable_open()); break;
      case 3:
      case 4: FillVerdict(in, message.mutable_verdicts()->add_verdicts()); break;
      case 5:
        if (in.Below(4) == 0) {
          message.mutable_drain();
        } else {
          message.mutable_close()->set_session(static_cast<uint64_t>(in.Below(6)));
        }
        break;
      default: loop_->Step(); return;
    }
    Arrive(message);
  }

  static void FillOpen(Input& in, v1::Open* open) {
    open->set_session(static_cast<uint64_t>(in.Below(6)));
    const int tokens = in.Below(in.Below(4) == 0 ? 45 : 12);
    for (int i = 0; i < tokens; ++i) open->add_token_ids(static_cast<uint32_t>(in.Below(kVocab)));
    open->set_prompt_tokens(static_cast<uint32_t>(in.Below(tokens + 1)));
    open->set_kind(static_cast<v1::DraftKind>(in.Below(3)));
    open->set_seed(in.Byte());
    v1::SamplingParams* sampling = open->mutable_sampling();
    switch (in.Below(8)) {
      case 0: sampling->set_temperature(Extreme(in)); break;
      case 1: sampling->set_repetition_penalty(Extreme(in)); break;
      case 2: sampling->set_frequency_penalty(Extreme(in)); break;
      case 3: sampling->set_top_p(Extreme(in)); break;
      case 4: sampling->set_min_p(Extreme(in)); break;
      case 5: sampling->set_top_k(in.Byte()); break;
      case 6: (*sampling->mutable_logit_bias())[in.Byte()] = Extreme(in); break;
      default: break;
    }
    FillPlan(in, in.Byte(), open->mutable_plan());
  }

  // Mostly on a current round.
  void FillVerdict(Input& in, v1::Verdict* verdict) const {
    verdict->set_session(static_cast<uint64_t>(in.Below(6)));
    const auto found = link_ == nullptr ? std::map<uint64_t, Asked>::const_iterator()
                                        : link_->asked.find(verdict->session());
    uint32_t round = in.Byte();
    int nodes = 4;
    if (link_ != nullptr && found != link_->asked.end() && in.Below(8) != 0) {
      round = found->second.round;
      nodes = found->second.draft.size();
    }
    verdict->set_round(round);
    verdict->set_node(static_cast<uint32_t>(in.Below(nodes + 1)));
    for (int i = in.Below(4); i > 0; --i) {
      verdict->add_next(static_cast<uint32_t>(in.Below(kVocab)));
    }
    FillPlan(in, in.Below(8) == 0 ? in.Byte() : round + 1, verdict->mutable_plan());
  }

  // Handles a message like the attached stream.
  void Arrive(const v1::FromVerifier& wire) {
    Result<std::optional<LinkMessage>> parsed = ToLinkMessage(wire);
    if (!parsed.ok()) {
      over_ = true;
      return;
    }
    if (!parsed->has_value()) return;
    LinkMessage message = std::move(**parsed);
    auto* welcome = std::get_if<WelcomeEvent>(&message);
    if ((welcome != nullptr) == welcomed_) {
      over_ = true;
      return;
    }
    if (welcome != nullptr) {
      welcomed_ = true;
      welcome->link = link_;
      welcome->vocabulary = map_;
      link_->vocab_limit = map_ != nullptr ? map_->verifier_size()
                                           : std::min(welcome->welcome.vocab_limit, kVocab - 1);
    } else if (const auto* open = std::get_if<SessionOpening>(&message)) {
      link_->asked[open->session] = {
          .round = open->plan.round, .shape = open->plan.shape, .kind = open->kind};
    } else if (const auto* decisions = std::get_if<std::vector<SessionVerdict>>(&message)) {
      for (const SessionVerdict& v : *decisions) {
        Asked& a = link_->asked[v.session];
        a = {.round = v.plan.round, .shape = v.plan.shape, .kind = a.kind};
      }
    } else if (const auto* close = std::get_if<CloseEvent>(&message)) {
      link_->asked.erase(close->session);
    }
    Require(loop_->Push({kConnection, std::move(message)}));
    // Handled at once, so that `asked` and the loop agree on which plan a part answers.
    loop_->Step();
  }

  testing::FakeClock clock_;
  FakeModel model_;
  std::shared_ptr<Link> link_ = std::make_shared<Link>();
  std::shared_ptr<const VocabularyMap> map_;  // nullptr: the vocabularies are the same
  bool welcomed_ = false;
  bool over_ = false;
  const bool keeps_prefixes_;
  std::optional<DraftLoop> loop_;  // until the end of Run
};

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  outrider::fuzz::Drafter(/*keeps_prefixes=*/in.Below(2) == 1).Run(in);
  return 0;
}
