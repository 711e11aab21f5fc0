#include "client/train/head_data.h"

#include <algorithm>
#include <optional>

#include "common/spec/coins.h"
#include "common/spec/warper.h"

namespace outrider {
namespace {

// A model reading one sequence.
class Reader {
 public:
  explicit Reader(Model& model) : model_(model), sequence_(model.NewSequence()) {}
  ~Reader() { model_.Release(sequence_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // The logits behind the last of `tokens`; valid until the model's next pass.
  Result<std::span<float>> Read(std::span<const TokenId> tokens) {
    ForwardOutput output;
    while (!tokens.empty()) {
      const size_t count = std::min(tokens.size(), static_cast<size_t>(model_.max_batch_tokens()));
      const auto last = static_cast<int32_t>(count) - 1;
      OUTRIDER_TRY(Pass(tokens.first(count), {&last, count == tokens.size() ? 1u : 0u},
                        /*want_hidden=*/false, &output));
      tokens = tokens.subspan(count);
    }
    return std::span(output.logits, static_cast<size_t>(model_.config().vocab_size));
  }

  // Appends the last hidden states of `rows` (ascending) of `tokens`.
  Status AppendHidden(std::span<const TokenId> tokens, std::span<const int32_t> rows,
                      std::vector<float>* hidden) {
    const auto most = static_cast<size_t>(model_.max_batch_tokens());
    for (size_t begin = 0, row = 0; begin < tokens.size() && row < rows.size(); begin += most) {
      const size_t count = std::min(tokens.size() - begin, most);
      std::vector<int32_t> chosen;
      for (; row < rows.size() && static_cast<size_t>(rows[row]) < begin + count; ++row) {
        chosen.push_back(rows[row] - static_cast<int32_t>(begin));
      }
      ForwardOutput output;
      OUTRIDER_TRY(Pass(tokens.subspan(begin, count), chosen, /*want_hidden=*/true, &output));
      const auto floats = chosen.size() * static_cast<size_t>(model_.config().hidden_size);
      if (floats > 0) hidden->insert(hidden->end(), output.hidden, output.hidden + floats);
    }
    return Status();
  }

 private:
  Status Pass(std::span<const TokenId> tokens, std::span<const int32_t> rows, bool want_hidden,
              ForwardOutput* output) {
    const ForwardSequence sequence{
        .sequence = sequence_, .tokens = tokens, .parents = {}, .logit_rows = rows};
    return model_.Forward({&sequence, 1}, want_hidden, output);
  }

  Model& model_;
  const SequenceId sequence_;
};

}  // namespace

Status AddHeadExamples(Model& target, Model& drafter, std::span<const TokenId> prompt,
                       uint32_t index, const HeadDataOptions& options, HeadExamples* examples) {
  const ModelConfig& config = target.config();
  const int context =
      std::min(config.max_position_embeddings, drafter.config().max_position_embeddings);
  const int length = std::min(options.max_tokens, context - static_cast<int>(prompt.size()));
  Warper target_warper(options.sampling, config.vocab_size, options.vocab);
  Warper draft_warper(options.sampling, drafter.config().vocab_size, options.vocab);
  target_warper.ObservePrompt(prompt);
  draft_warper.ObservePrompt(prompt);

  std::vector<TokenId> mixed(prompt.begin(), prompt.end());
  std::vector<int32_t> drawn;  // of `mixed`, those that carry a label
  {
    Reader target_reader(target), draft_reader(drafter);
    std::vector<TokenId> unread(prompt.begin(), prompt.end());
    for (int i = 0; i < length; ++i) {
      OUTRIDER_ASSIGN(const std::span<float> p, target_reader.Read(unread));
      OUTRIDER_ASSIGN(const std::span<float> q, draft_reader.Read(unread));
      target_warper.Warp(p, {});
      draft_warper.Warp(q, {});
      const auto place = static_cast<uint32_t>(i);
      const TokenId text = SampleRow(p, Coin(options.seed, index, place, Purpose::kPlainToken));
      const DraftLaw law = MakeDraftLaw(q, options.law_limits);
      const TokenId draft =
          SampleDraftLaw(law, Coin(options.seed, index, place, Purpose::kDraftToken));
      if (Coin(options.seed, index, place, Purpose::kChoice) < options.kept) {
        mixed.push_back(text);
      } else {
        const double ratio =
            static_cast<double>(p[static_cast<size_t>(draft)]) / Probability(law, draft);
        examples->labels.push_back(static_cast<float>(std::min(ratio, 1.0)));
        drawn.push_back(static_cast<int32_t>(mixed.size()));
        mixed.push_back(draft);
      }
      target_warper.ObserveOutput(text);
      draft_warper.ObserveOutput(text);
      unread = {text};
      const std::vector<TokenId>& eos = config.eos_token_ids;
      if (std::find(eos.begin(), eos.end(), text) != eos.end()) break;
    }
  }
  examples->width = drafter.config().hidden_size;
  return Reader(drafter).AppendHidden(mixed, drawn, &examples->hidden);
}

}  // namespace outrider
