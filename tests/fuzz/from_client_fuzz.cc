// Messages of clients, through the engine on a model without weights, with drafts that arrive
// whole, in parts, late or never. Whatever passes Validate runs to its end, each sink is told of
// exactly one end, and every sequence and page is freed.

#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/rpc/values_wire.h"
#include "common/text/utf8.h"
#include "tests/fuzz/draft_maker.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/engine/engine.h"
#include "verifier/rpc/generation_wire.h"

namespace outrider::fuzz {
namespace {

constexpr int kVocab = 20;
constexpr int kContext = 40;

// Drafters controlled by the input.
class Drafts final : public DraftSource {
 public:
  struct Held {
    DraftKind kind;
    uint32_t round;
    DraftMaker maker;
    DraftTree draft;  // the part that has been sent
    bool late = false;
    bool is_early = false;
  };

  bool HasRoom(int) override { return accepts; }
  void Open(SessionOpening s) override {
    Require(accepts);
    Require(!s.tokens.empty() && static_cast<size_t>(s.prompt_tokens) <= s.tokens.size());
    Require(s.plan.shape.length > 0);
    // The engine opens only sessions without a drafter, and sends verdicts and closes only for
    // those with one.
    Require(!held.contains(s.session));
    held.emplace(s.session,
                 Held{s.kind, s.plan.round, DraftMaker(s.plan.shape, s.kind, kVocab), DraftTree()});
  }
  void Decide(SessionVerdict d) override {
    Held& h = held.at(d.session);
    Require(d.round == h.round && d.plan.round > d.round);
    Require(d.node >= 0 && d.node <= h.draft.size() && !d.next.empty());
    h.round = d.plan.round;
    h.maker = DraftMaker(d.plan.shape, h.kind, kVocab);
    h.draft = {};
    h.is_early = false;
    // Some drafts are made before their plans.
    if (in == nullptr || d.session % 3 != 0) return;
    while (!h.maker.done()) Require(h.draft.Append(h.maker.Next(*in)).ok());
    h.is_early = !h.draft.empty();
  }
  const DraftTree* EarlyDraft(uint64_t session) const override {
    const Held& h = held.at(session);
    return h.is_early ? &h.draft : nullptr;
  }
  void Close(uint64_t session) override { Require(held.erase(session) == 1); }
  void RecordAccepted(uint64_t session, int tokens) override {
    Require(tokens >= 0 && tokens <= held.at(session).draft.size());
  }
  void Flush() override {}
  DraftTimeout SetTimeout(uint64_t session, Duration, Duration) override {
    Require(held.contains(session));
    return {.usual = std::chrono::milliseconds(session % 4 == 0 ? 0 : 100),
            .trial = session % 8 < 4};
  }
  std::optional<DraftTiming> Timing(uint64_t, int) override { return DraftTiming(); }
  void MarkLate(uint64_t session) override { held.at(session).late = true; }
  bool ReassignSession(uint64_t session) override {
    if (!held.at(session).late) return false;
    moves = !moves;
    if (moves) Close(session);
    return moves;
  }
  std::string DrafterName(uint64_t) const override { return "d"; }

  Input* in = nullptr;
  bool accepts = true;
  bool moves = false;
  std::map<uint64_t, Held> held;
};

class Sink final : public GenerationSink {
 public:
  explicit Sink(int max_tokens) : max_tokens_(max_tokens) {}
  ~Sink() override { Require(ended_); }

  void Send(Chunk chunk) override {
    Require(!ended_ && !chunk.tokens.empty());
    Require(chunk.accepted >= 0 && chunk.accepted <= static_cast<int>(chunk.tokens.size()));
    Require(chunk.accepted <= chunk.drafted);
    Require(chunk.forced >= 0 && chunk.forced <= static_cast<int>(chunk.tokens.size()));
    for (const TokenId token : chunk.tokens) Require(token >= 0 && token < kVocab);
    tokens_ += static_cast<int>(chunk.tokens.size());
    Require(tokens_ <= max_tokens_ && !FindInvalidUtf8(chunk.text).has_value());
  }
  void Finish(const Summary& summary) override {
    Require(!ended_ && summary.completion_tokens == tokens_);
    Require(summary.accepted_tokens <= tokens_);
    ended_ = true;
  }
  void Fail(const Status& status) override {
    // The model only rejects what the engine must not request.
    Require(!ended_ && status.message().find("forward pass") == std::string::npos);
    ended_ = true;
  }

 private:
  int max_tokens_;
  int tokens_ = 0;
  bool ended_ = false;
};

float Extreme(Input& in) {
  constexpr float kValues[] = {0.f,
                               1.f,
                               0.5f,
                               1e-45f,
                               1e-38f,
                               3e38f,
                               -1.f,
                               -0.f,
                               2.f,
                               -2.f,
                               100.f,
                               0.9f,
                               -100.f,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  return kValues[in.Below(static_cast<int>(std::size(kValues)))];
}

// With letters that have tokens: "a" to "t"; "d" ends texts.
void AddGrammar(Input& in, v1::StructuredOutput* out) {
  const char* kRegexes[] = {"a*",          "abc", "(ab|ba){3}", "[a-t]{2,5}",
                            "aaaaaaaaaaa", "z?b", "a*a*a*"};
  switch (in.Below(4)) {
    case 0: out->set_regex(kRegexes[in.Below(static_cast<int>(std::size(kRegexes)))]); break;
    case 1: out->set_regex(std::string(in.Block().substr(0, 20))); break;
    case 2: out->set_gbnf("root ::= \"a\" root \"b\" | \"c\""); break;
    default:
      for (int i = in.Below(4); i >= 0; --i) {
        out->mutable_choice()->add_texts(std::string(in.Block().substr(0, 5)));
      }
  }
}

v1::GenerateRequest SomeRequest(Input& in) {
  v1::GenerateRequest request;
  if (in.Below(2) == 0) {
    const char* kTexts[] = {"abc", "a", "", "hello", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    request.set_text(kTexts[in.Below(static_cast<int>(std::size(kTexts)))]);
  } else {
    for (int i = in.Below(30); i >= 0; --i) {
      request.mutable_token_ids()->add_ids(static_cast<uint32_t>(in.Below(kVocab)));
    }
  }
  for (int changes = in.Below(4); changes > 0; --changes) {
    v1::SamplingParams* sampling = request.mutable_sampling();
    v1::StopConditions* stop = request.mutable_stop();
    v1::SpeculationOptions* speculation = request.mutable_speculation();
    switch (in.Below(18)) {
      case 0: sampling->set_temperature(Extreme(in)); break;
      case 1: sampling->set_top_k(in.Byte()); break;
      case 2: sampling->set_top_p(Extreme(in)); break;
      case 3: sampling->set_min_p(Extreme(in)); break;
      case 4: sampling->set_repetition_penalty(Extreme(in)); break;
      case 5: sampling->set_presence_penalty(Extreme(in)); break;
      case 6: sampling->set_frequency_penalty(Extreme(in)); break;
      case 7: (*sampling->mutable_logit_bias())[in.Byte() % 24u] = Extreme(in); break;
      case 8: stop->set_max_tokens(in.Byte()); break;
      case 9: stop->add_stop_strings(std::string(in.Block().substr(0, 3))); break;
      case 10: stop->add_stop_token_ids(in.Byte() % 24u); break;
      case 11: request.set_seed(in.Byte()); break;
      case 12: speculation->set_rule(static_cast<v1::SpeculationOptions::Rule>(in.Below(9))); break;
      case 13: speculation->set_draft_length(in.Byte() % 10u); break;
      case 14: speculation->set_paths(in.Byte() % 6u); break;
      case 15:
        speculation->mutable_stop()->set_kind(static_cast<v1::StopRule::Kind>(in.Below(6)));
        speculation->mutable_stop()->set_threshold(Extreme(in));
        break;
      case 16: AddGrammar(in, sampling->mutable_structured_output()); break;
      default:
        for (int i = in.Below(5); i > 0; --i) speculation->add_tree(in.Byte() % 4u);
    }
  }
  return request;
}

class Verifier {
 public:
  explicit Verifier(Input& in)
      : model_({.vocab_size = kVocab,
                .page_tokens = 4,
                .total_pages = 12 + in.Below(30),
                .max_batch_tokens = 48,
                .max_position_embeddings = kContext,
                .eos_token_ids = {3}}),
        engine_(std::in_place, Options(in), &model_, &Tokens(), &drafts_, nullptr, &clock_) {
    SetLogLevel(static_cast<LogLevel>(static_cast<int>(LogLevel::kError) + 1));  // no log
  }

  void Run(Input& in) {
    drafts_.in = &in;
    for (int i = 0; i < 100 && !in.empty(); ++i) Do(in);
    drafts_.in = nullptr;
    // Drafts no longer arrive; everything that was accepted ends by itself.
    for (int i = 0; i < 4000 && !engine_->idle(); ++i) {
      if (!engine_->Step()) clock_.Advance(std::chrono::seconds(3));
    }
    Require(engine_->idle() && drafts_.held.empty());
    engine_.reset();
    Require(model_.sequences() == 0 && model_.free_pages() == model_.total_pages());
  }

 private:
  static const Tokenizer& Tokens() {
    static const auto tokenizer =
        std::move(Tokenizer::FromJson(testing::TinyTokenizerJson(kVocab))).value();
    return *tokenizer;
  }

  static grammar::GrammarCache& Grammars() {
    static const auto grammars =
        std::move(grammar::GrammarCache::Create(Tokens(), std::vector<TokenId>{3}, kVocab)).value();
    return *grammars;
  }

  static EngineOptions Options(Input& in) {
    const int flags = in.Byte();
    return {.admission = {.max_running = 1 + flags % 4,
                          .max_waiting = 6,
                          .max_waiting_per_client = 4,
                          .prefix_cache = (flags & 16) != 0},
            .speculation = {.draft_length = 3, .paths = 1 + (flags >> 5) % 3},
            .max_draft_length = 6,
            .max_paths = 4,
            .max_draft_tokens = 20,
            .untrusted_drafters = (flags & 128) != 0,
            .scheduler = {.token_budget = 48, .prefill_chunk = 16}};
  }

  void Do(Input& in) {
    switch (in.Below(16)) {
      case 0: {
        const std::string_view bytes = in.Block();
        v1::GenerateRequest request;
        if (request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
          Submit(request, in);
        }
        return;
      }
      case 1:
      case 2: Submit(SomeRequest(in), in); return;
      case 3: clock_.Advance(std::chrono::milliseconds(20 * in.Byte())); return;
      case 4: Disturb(in); return;
      case 5:
      case 6:
      case 7:
      case 8: SendDraft(in); return;
      default: engine_->Step();
    }
  }

  void Submit(const v1::GenerateRequest& wire, Input& in) {
    if (!CheckSizes(wire, engine_->limits()).ok()) return;
    Result<GenerationRequest> request = FromWire(wire, Tokens(), engine_->limits());
    if (!request.ok()) return;
    // The engine chooses a seed if one is needed and none is given; here the input must determine
    // everything.
    if (!request->sampling.greedy() && !request->seed.has_value()) request->seed = last_id_;
    request->client = std::string(1, static_cast<char>('a' + in.Below(2)));
    const Status valid = Validate(*request, engine_->limits());
    if (valid.ok() && !CompileGrammar(&Grammars(), &*request).ok()) return;
    int max_tokens = 0;
    if (valid.ok()) {
      const ResolvedSpeculation plan =
          ResolveSpeculation(*request, {.draft_length = 3, .paths = 1}, engine_->limits());
      Require(plan.shape.length >= 0 && plan.shape.total_draws() <= 20);
      max_tokens = MaxNewTokens(*request, engine_->limits());
      Require(max_tokens > 0 && max_tokens + static_cast<int>(request->prompt.size()) <= kContext);
    }
    auto sink = std::make_shared<Sink>(max_tokens);
    const Status submitted = engine_->Submit(++last_id_, std::move(request).value(), sink);
    // A full queue comes first.
    Require(valid.ok() || submitted.code() == valid.code() ||
            submitted.code() == Code::kResourceExhausted);
    if (!submitted.ok()) sink->Fail(submitted);
  }

  // A session that may not exist.
  uint64_t SomeId(Input& in) const {
    return last_id_ - std::min<uint64_t>(last_id_, static_cast<uint64_t>(in.Below(6)));
  }

  void Disturb(Input& in) {
    const uint64_t id = SomeId(in);
    switch (in.Below(4)) {
      case 0: engine_->Cancel(id, Status(Code::kCancelled, "gone")); return;
      case 1: drafts_.accepts = !drafts_.accepts; return;
      case 2:
        if (drafts_.held.erase(id) == 1) engine_->draft_consumer().OnDrafterLost(id);
        return;
      default:
        if (drafts_.held.erase(id) == 1) engine_->draft_consumer().OnRefused(id);
    }
  }

  void SendDraft(Input& in) {
    const uint64_t id = SomeId(in);
    const auto found = drafts_.held.find(id);
    if (found == drafts_.held.end() || found->second.maker.done()) return;
    Drafts::Held& held = found->second;
    DraftChunk chunk = held.maker.Next(in);
    const bool more = chunk.more;
    Require(held.draft.Append(std::move(chunk)).ok());
    engine_->draft_consumer().OnDraft(id, held.round - (in.Below(16) == 0 ? 1 : 0), held.draft,
                                      !more);
  }

  testing::FakeClock clock_;
  Drafts drafts_;
  FakeModel model_;
  uint64_t last_id_ = 0;
  std::optional<Engine> engine_;
};

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  outrider::fuzz::Verifier(in).Run(in);
  return 0;
}
