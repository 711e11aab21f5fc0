#include "tests/support/fake_model.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/mix_bits.h"

namespace outrider {
namespace {

// Uniform in [0, 1).
float Unit(uint64_t hash) { return static_cast<float>(hash >> 40) * 0x1p-24f; }

}  // namespace

FakeModel::FakeModel(FakeModelOptions options)
    : options_(std::move(options)), pool_(options_.total_pages) {
  config_.architecture = "FakeModel";
  config_.name = "fake";
  config_.vocab_size = options_.vocab_size;
  config_.hidden_size = options_.hidden_size;
  config_.layers.resize(1);
  config_.max_position_embeddings = options_.max_position_embeddings;
  config_.eos_token_ids = options_.eos_token_ids;
}

FakeModel::Sequence& FakeModel::Get(SequenceId id) {
  const auto it = sequences_.find(id);
  OUTRIDER_CHECK(it != sequences_.end());
  return it->second;
}

const FakeModel::Sequence& FakeModel::Get(SequenceId id) const {
  const auto it = sequences_.find(id);
  OUTRIDER_CHECK(it != sequences_.end());
  return it->second;
}

const std::vector<TokenId>& FakeModel::tokens(SequenceId sequence) const {
  return Get(sequence).tokens;
}

SequenceId FakeModel::NewSequence() {
  sequences_.emplace(next_id_, Sequence{.tokens = {}, .table{&pool_, options_.page_tokens}});
  return next_id_++;
}

Status FakeModel::Reserve(SequenceId sequence, int tokens) {
  std::vector<SlotCopy> copies;  // not performed: no page has memory
  return Get(sequence).table.Reserve(tokens, &copies);
}

Result<SequenceId> FakeModel::Fork(SequenceId sequence, int length) {
  Sequence& from = Get(sequence);
  std::vector<SlotCopy> copies;  // not performed: no page has memory
  OUTRIDER_ASSIGN(PageTable table, from.table.Fork(length, &copies));
  sequences_.emplace(next_id_, Sequence{.tokens{from.tokens.begin(), from.tokens.begin() + length},
                                        .table = std::move(table),
                                        .last_begin = length});
  return next_id_++;
}

int FakeModel::length(SequenceId sequence) const {
  return static_cast<int>(Get(sequence).tokens.size());
}

Status FakeModel::CheckShare(const ForwardSequence& share) const {
  const int n = static_cast<int>(share.tokens.size());
  if (n < 1) return InvalidArgument("a sequence without tokens");
  for (const TokenId token : share.tokens) {
    if (token < 0 || token >= options_.vocab_size) {
      return InvalidArgument("token id " + std::to_string(token) + " is out of the vocabulary");
    }
  }
  if (!share.parents.empty() && static_cast<int>(share.parents.size()) != n) {
    return InvalidArgument("parents and tokens differ in number");
  }
  std::vector<int> depth(share.tokens.size(), 0);
  for (int i = 0; i < n; ++i) {
    const int parent = share.parents.empty() ? i - 1 : share.parents[i];
    if (parent < -1 || parent >= i) return InvalidArgument("a parent after its child");
    depth[i] = parent < 0 ? 0 : depth[parent] + 1;
  }
  const int deepest = *std::max_element(depth.begin(), depth.end());
  if (length(share.sequence) + deepest + 1 > options_.max_position_embeddings) {
    return InvalidArgument("longer than the model's positions");
  }
  for (size_t i = 0; i < share.logit_rows.size(); ++i) {
    const int row = share.logit_rows[i];
    if (row < 0 || row >= n || (i > 0 && row <= share.logit_rows[i - 1])) {
      return InvalidArgument("logit_rows do not ascend");
    }
  }
  return Status();
}

Status FakeModel::Forward(std::span<const ForwardSequence> batch, bool want_hidden,
                          ForwardOutput* output) {
  if (!next_failure_.ok()) return std::exchange(next_failure_, Status());
  int tokens = 0;
  int host_rows = 0;
  int pages = 0;
  std::set<SequenceId> seen;
  for (const ForwardSequence& share : batch) {
    OUTRIDER_TRY(CheckShare(share));
    if (!seen.insert(share.sequence).second) return InvalidArgument("a sequence twice in a batch");
    const Sequence& s = Get(share.sequence);
    if (s.is_tree) return InvalidArgument("a tree was left without KeepPath or Truncate");
    tokens += static_cast<int>(share.tokens.size());
    pages += s.table.PagesNeeded(static_cast<int>(s.tokens.size() + share.tokens.size()));
  }
  if (tokens > options_.max_batch_tokens) {
    return InvalidArgument(std::to_string(tokens) + " tokens in a batch, limit " +
                           std::to_string(options_.max_batch_tokens));
  }
  if (pages > free_pages()) return ResourceExhausted("pages are out");
  if (on_forward_) on_forward_(tokens);

  logits_.clear();
  host_logits_.clear();
  hidden_.clear();
  std::vector<Share> record;
  for (const ForwardSequence& share : batch) {
    Sequence& s = Get(share.sequence);
    const int context = static_cast<int>(s.tokens.size());
    record.push_back({share.sequence,
                      context,
                      {share.tokens.begin(), share.tokens.end()},
                      {share.parents.begin(), share.parents.end()},
                      {share.logit_rows.begin(), share.logit_rows.end()},
                      share.logits_to_host,
                      chain_depth_});
    for (const int row : share.logit_rows) {
      std::vector<TokenId> path;
      for (int i = row; i >= 0; i = share.parents.empty() ? i - 1 : share.parents[i]) {
        path.insert(path.begin(), share.tokens[i]);
      }
      path.insert(path.begin(), s.tokens.begin(), s.tokens.end());
      std::vector<float> row_logits = Logits(path);
      if (on_row_) on_row_(row_logits);
      if (share.logits_to_host) {
        ++host_rows;
        host_logits_.insert(host_logits_.end(), row_logits.begin(), row_logits.end());
      }
      logits_.insert(logits_.end(), row_logits.begin(), row_logits.end());
      if (want_hidden) {
        hidden_.insert(hidden_.end(), row_logits.begin(), row_logits.begin() + config_.hidden_size);
      }
    }
    s.tokens.insert(s.tokens.end(), share.tokens.begin(), share.tokens.end());
    s.last_begin = context;
    s.is_tree = !share.parents.empty();
    OUTRIDER_TRY(Reserve(share.sequence, static_cast<int>(s.tokens.size())));
    s.table.Append(static_cast<int>(share.tokens.size()), share.parents);
  }
  batches_.push_back(std::move(record));
  if (device() != nullptr)
    bytes_to_host_ += static_cast<int64_t>(host_logits_.size() * sizeof(float));
  output->logits = host_rows > 0 ? host_logits_.data() : nullptr;
  output->hidden = want_hidden ? hidden_.data() : nullptr;
  output->rows = host_rows;
  return Status();
}

Decisions FakeModel::Decide(const RoundBatch& batch, int allowed) {
  const LogitRows rows{logits_.data(), options_.vocab_size, allowed};
  OUTRIDER_CHECK(static_cast<size_t>(batch.nodes() * rows.vocab) <= logits_.size());
  return decide_ ? decide_(batch, rows) : host_rounds_.Decide(batch, rows);
}

std::span<const PickedRow> FakeModel::Draft(const PickBatch& batch) {
  const int vocab = options_.vocab_size;
  OUTRIDER_CHECK(static_cast<size_t>(batch.size() * vocab) == logits_.size());
  return draft_device_ ? draft_device_->Draft(batch, logits_.data(), vocab)
                       : host_picks_.Read(batch, logits_.data(), vocab);
}

Status FakeModel::DraftChains(std::span<const DraftChain> chains, int depths,
                              const PickBatch& draws, std::span<const PickedRow>* picked) {
  OUTRIDER_CHECK(draft_device_ && depths >= 1 &&
                 static_cast<size_t>(draws.size()) == chains.size());
  int pages = 0;
  for (const DraftChain& chain : chains) {
    const Sequence& s = Get(chain.sequence);
    const int tokens = static_cast<int>(s.tokens.size() + chain.tokens.size()) + depths - 1;
    pages += s.table.PagesNeeded(tokens);
    if (tokens > options_.max_position_embeddings) {
      return InvalidArgument("longer than the model's positions");
    }
  }
  if (pages > free_pages()) return ResourceExhausted("pages are out");
  std::vector<float> rows(chains.size() * static_cast<size_t>(options_.vocab_size));
  draft_device_->BeginChains(draws, rows.data(), options_.vocab_size);
  std::vector<TokenId> drawn;
  for (int depth = 0; depth < depths; ++depth) {
    std::vector<int32_t> last_rows(chains.size());
    std::vector<ForwardSequence> batch;
    for (size_t i = 0; i < chains.size(); ++i) {
      const std::span<const TokenId> tokens =
          depth == 0 ? chains[i].tokens : std::span<const TokenId>(drawn).subspan(i, 1);
      last_rows[i] = static_cast<int32_t>(tokens.size()) - 1;
      batch.push_back({.sequence = chains[i].sequence,
                       .tokens = tokens,
                       .parents = {},
                       .logit_rows = {&last_rows[i], 1},
                       .logits_to_host = false});
    }
    ForwardOutput output;
    chain_depth_ = depth;
    const Status ran = Forward(batch, /*want_hidden=*/false, &output);
    chain_depth_ = -1;
    if (depth == 0) OUTRIDER_TRY(ran);
    OUTRIDER_CHECK(ran.ok());
    std::copy(logits_.begin(), logits_.end(), rows.begin());
    const std::span<const TokenId> tokens = draft_device_->DrawChains(depth);
    drawn.assign(tokens.begin(), tokens.end());
  }
  *picked = draft_device_->EndChains();
  return Status();
}

void FakeModel::KeepPath(SequenceId sequence, std::span<const int32_t> path) {
  Sequence& s = Get(sequence);
  std::vector<SlotCopy> copies;  // not performed: no page has memory
  s.table.KeepPath(path, &copies);
  std::vector<TokenId> kept(s.tokens.begin(), s.tokens.begin() + s.last_begin);
  for (const int node : path) kept.push_back(s.tokens[static_cast<size_t>(s.last_begin + node)]);
  s.tokens = std::move(kept);
  s.last_begin = static_cast<int>(s.tokens.size());
  s.is_tree = false;
}

void FakeModel::Truncate(SequenceId sequence, int length) {
  if (on_truncate_) on_truncate_();
  Sequence& s = Get(sequence);
  s.table.Truncate(length);
  s.tokens.resize(static_cast<size_t>(length));
  if (length <= s.last_begin) s.is_tree = false;
  s.last_begin = std::min(s.last_begin, length);
}

void FakeModel::Release(SequenceId sequence) { OUTRIDER_CHECK(sequences_.erase(sequence) == 1); }

std::vector<float> FakeModel::Logits(std::span<const TokenId> path) const {
  const size_t order = static_cast<size_t>(options_.order);
  if (order > 0 && path.size() > order) path = path.last(order);
  uint64_t hash = SplitMix(options_.seed);
  for (const TokenId token : path) hash = SplitMix(hash ^ static_cast<uint64_t>(token));
  std::vector<float> logits(static_cast<size_t>(options_.vocab_size));
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = options_.sharpness * Unit(SplitMix(hash + i));
  }
  return logits;
}

}  // namespace outrider
