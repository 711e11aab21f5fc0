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
    : options_(std::move(options)), spend_(std::move(spend)) {
  config_.architecture = "PacedModel";
  config_.name = options_.name;
  config_.vocab_size = options_.vocab_size;
  config_.hidden_size = 1;
  config_.layers.resize(1);
  config_.max_position_embeddings = options_.max_position_embeddings;
  config_.eos_token_ids = options_.eos_token_ids;
  holders_.resize(static_cast<size_t>(options_.total_pages));
  for (int page = options_.total_pages; page-- > 0;) free_.push_back(page);
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

int PacedModel::PagesFor(int tokens) const {
  return (tokens + options_.page_tokens - 1) / options_.page_tokens;
}

SequenceId PacedModel::NewSequence() {
  sequences_.emplace(next_id_, Sequence());
  return next_id_++;
}

Status PacedModel::Reserve(SequenceId sequence, int tokens) {
  Sequence& s = Get(sequence);
  const int needed = PagesFor(tokens) - static_cast<int>(s.pages.size());
  if (needed > free_pages()) {
    return ResourceExhausted("sequence " + std::to_string(sequence) + " needs " +
                             std::to_string(needed) + " more pages, " +
                             std::to_string(free_pages()) + " are free");
  }
  for (int i = 0; i < needed; ++i) {
    holders_[static_cast<size_t>(free_.back())] = 1;
    s.pages.push_back(free_.back());
    free_.pop_back();
  }
  return Status();
}

Result<SequenceId> PacedModel::Fork(SequenceId sequence, int length) {
  const int full = length / options_.page_tokens;
  const bool is_partial = length % options_.page_tokens != 0;
  if (is_partial && free_.empty()) return ResourceExhausted("no page for the fork's last one");
  const Sequence& from = Get(sequence);
  OUTRIDER_CHECK(length >= 0 && length <= static_cast<int>(from.hashes.size()));
  Sequence fork{.first = from.first, .last_begin = length};
  fork.hashes.assign(from.hashes.begin(), from.hashes.begin() + length);
  fork.pages.assign(from.pages.begin(), from.pages.begin() + full);
  for (const int page : fork.pages) ++holders_[static_cast<size_t>(page)];
  const SequenceId id = next_id_++;
  sequences_.emplace(id, std::move(fork));
  OUTRIDER_TRY(Reserve(id, length));
  return id;
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
  for (const int row : share.logit_rows) {
    AddRow(Next(s.hashes[begin + static_cast<size_t>(row)], s.first));
  }
}

Status PacedModel::Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                           ForwardOutput* output) {
  int rows = 0;
  int pages = 0;
  for (const ForwardSequence& share : batch) {
    const Sequence& s = Get(share.sequence);
    const auto tokens = static_cast<int>(s.hashes.size() + share.tokens.size());
    if (tokens > options_.max_position_embeddings) {
      return InvalidArgument(std::to_string(tokens) + " tokens are beyond the model's positions");
    }
    rows += static_cast<int>(share.tokens.size());
    pages += std::max(0, PagesFor(tokens) - static_cast<int>(s.pages.size()));
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
    Append(share);
    logit_rows_ += static_cast<int64_t>(share.logit_rows.size());
    OUTRIDER_TRY(Reserve(share.sequence, length(share.sequence)));
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
  const auto begin = static_cast<size_t>(s.last_begin);
  size_t kept = begin;
  for (const int32_t node : path) s.hashes[kept++] = s.hashes[begin + static_cast<size_t>(node)];
  s.hashes.resize(kept);
  s.last_begin = static_cast<int>(kept);
}

void PacedModel::Truncate(SequenceId sequence, int length) {
  Sequence& s = Get(sequence);
  OUTRIDER_CHECK(length >= 0 && length <= static_cast<int>(s.hashes.size()));
  s.hashes.resize(static_cast<size_t>(length));
  s.last_begin = std::min(s.last_begin, length);
}

void PacedModel::Release(SequenceId sequence) {
  const auto it = sequences_.find(sequence);
  OUTRIDER_CHECK(it != sequences_.end());
  for (const int page : it->second.pages) {
    if (--holders_[static_cast<size_t>(page)] == 0) free_.push_back(page);
  }
  sequences_.erase(it);
}

}  // namespace outrider
