#include "simulate/fleet/paced_model.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/mix_bits.h"

namespace outrider {
namespace {

constexpr uint64_t kTextStart = 0x6f757472;
constexpr uint64_t kAgreement = 0x64726166;

}  // namespace

PacedModel::PacedModel(PacedModelOptions options, SpendFn spend)
    : options_(std::move(options)), spend_(std::move(spend)), pool_(options_.total_pages) {
  config_.architecture = "PacedModel";
  config_.name = options_.name;
  config_.vocab_size = options_.vocab_size;
  config_.hidden_size = 1;
  config_.layers.resize(1);
  config_.max_position_embeddings = options_.max_position_embeddings;
  config_.eos_token_ids = options_.eos_token_ids;
}

PacedModel::Sequence& PacedModel::Get(SequenceId id) {
  const auto it = sequences_.find(id);
  OUTRIDER_CHECK(it != sequences_.end());
  return it->second;
}

const PacedModel::Sequence& PacedModel::Get(SequenceId id) const {
  const auto it = sequences_.find(id);
  OUTRIDER_CHECK(it != sequences_.end());
  return it->second;
}

SequenceId PacedModel::NewSequence() {
  sequences_.emplace(next_id_, Sequence{.table{&pool_, options_.page_tokens}});
  return next_id_++;
}

Status PacedModel::Reserve(SequenceId sequence, int tokens) {
  std::vector<SlotCopy> copies;  // not performed: no page has memory
  return Get(sequence).table.Reserve(tokens, &copies);
}

Result<SequenceId> PacedModel::Fork(SequenceId sequence, int length) {
  Sequence& from = Get(sequence);
  std::vector<SlotCopy> copies;  // not performed: no page has memory
  OUTRIDER_ASSIGN(PageTable table, from.table.Fork(length, &copies));
  sequences_.emplace(next_id_, Sequence{.first = from.first,
                                        .hashes{from.hashes.begin(), from.hashes.begin() + length},
                                        .table = std::move(table),
                                        .last_begin = length});
  return next_id_++;
}

int PacedModel::length(SequenceId sequence) const {
  return static_cast<int>(Get(sequence).hashes.size());
}

uint64_t PacedModel::HashOf(uint64_t before, TokenId token) {
  return SplitMix(before ^ (static_cast<uint64_t>(token) << 32));
}

uint64_t PacedModel::HashOfNothing() { return SplitMix(kTextStart); }

PacedNext PacedModel::Next(uint64_t hash, TokenId first) const {
  if (const auto it = options_.recorded.find(hash); it != options_.recorded.end()) {
    return it->second;
  }
  const auto vocab = static_cast<uint64_t>(options_.vocab_size);
  const uint64_t bits = SplitMix(hash);
  const uint64_t likely = bits % vocab;
  if (options_.acceptance.empty()) return {static_cast<TokenId>(likely)};
  const double acceptance =
      options_.acceptance[static_cast<size_t>(first) % options_.acceptance.size()];
  const bool agrees = UnitOf(SplitMix(hash ^ kAgreement)) < acceptance;
  return {static_cast<TokenId>(agrees ? likely : (likely + 1) % vocab)};
}

void PacedModel::AddRow(const PacedNext& next) {
  const size_t row = logits_.size();
  logits_.resize(row + static_cast<size_t>(options_.vocab_size), 0.f);
  logits_[row + static_cast<size_t>(next.token)] = next.logit;
  hidden_.push_back(0.f);
}

void PacedModel::Append(const ForwardSequence& share) {
  Sequence& s = Get(share.sequence);
  const size_t begin = s.hashes.size();
  if (begin == 0) s.first = share.tokens.front();
  s.last_begin = static_cast<int>(begin);
  const uint64_t before = begin == 0 ? HashOfNothing() : s.hashes.back();
  for (size_t i = 0; i < share.tokens.size(); ++i) {
    const int parent = share.parents.empty() ? static_cast<int>(i) - 1 : share.parents[i];
    const uint64_t parent_hash =
        parent < 0 ? before : s.hashes[begin + static_cast<size_t>(parent)];
    s.hashes.push_back(HashOf(parent_hash, share.tokens[i]));
  }
  s.table.Append(static_cast<int>(share.tokens.size()), share.parents);
  for (const int row : share.logit_rows) {
    AddRow(Next(s.hashes[begin + static_cast<size_t>(row)], s.first));
  }
}

Status PacedModel::Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                           ForwardOutput* output) {
  int rows = 0;
  int pages = 0;
  for (const ForwardSequence& share : batch) {
    const int tokens = TokensAfter(share);
    if (tokens > options_.max_position_embeddings) {
      return InvalidArgument(std::to_string(tokens) + " tokens are beyond the model's positions");
    }
    rows += static_cast<int>(share.tokens.size());
    pages += PagesNeeded(share.sequence, tokens);
  }
  if (rows > options_.max_batch_tokens) {
    return InvalidArgument(std::to_string(rows) + " tokens in a batch, limit " +
                           std::to_string(options_.max_batch_tokens));
  }
  if (pages > free_pages()) return ResourceExhausted("pages are out");
  spend_(options_.cost.Seconds(rows));
  logits_.clear();
  hidden_.clear();
  for (const ForwardSequence& share : batch) {
    OUTRIDER_TRY(Reserve(share.sequence, TokensAfter(share)));
    Append(share);
    logit_rows_ += static_cast<int64_t>(share.logit_rows.size());
  }
  output->logits = logits_.data();
  output->hidden = want_hidden ? hidden_.data() : nullptr;
  output->rows = static_cast<int>(hidden_.size());
  return Status();
}

Decisions PacedModel::Decide(const RoundBatch& batch, int allowed) {
  return host_rounds_.Decide(batch, LogitRows{logits_.data(), options_.vocab_size, allowed});
}

std::span<const PickedRow> PacedModel::Draft(const PickBatch& batch) {
  return host_picks_.Read(batch, logits_.data(), options_.vocab_size);
}

void PacedModel::KeepPath(SequenceId sequence, std::span<const int32_t> path) {
  Sequence& s = Get(sequence);
  std::vector<SlotCopy> copies;  // not performed: no page has memory
  s.table.KeepPath(path, &copies);
  const auto begin = static_cast<size_t>(s.last_begin);
  size_t kept = begin;
  for (const int32_t node : path) s.hashes[kept++] = s.hashes[begin + static_cast<size_t>(node)];
  s.hashes.resize(kept);
  s.last_begin = static_cast<int>(kept);
}

void PacedModel::Truncate(SequenceId sequence, int length) {
  Sequence& s = Get(sequence);
  s.table.Truncate(length);
  s.hashes.resize(static_cast<size_t>(length));
  s.last_begin = std::min(s.last_begin, length);
}

void PacedModel::Release(SequenceId sequence) { OUTRIDER_CHECK(sequences_.erase(sequence) == 1); }

}  // namespace outrider
