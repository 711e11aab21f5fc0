#include "client/train/train_head.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "client/prompt_file.h"
#include "common/backend/backend.h"
#include "common/model/transformer.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer.h"

namespace outrider {
namespace {

constexpr size_t kHeldOutEvery = 10;
constexpr int kBatchTokens = 512;

struct Split {
  HeadExamples training, held_out;
};

// What the examples and the training follow from: a state of other options is not gone on with.
std::string Fingerprint(const TrainHeadOptions& o) {
  std::ostringstream text;
  text.precision(17);
  const SamplingParams& s = o.data.sampling;
  const HeadTraining& t = o.training;
  text << "outrider head 1|" << o.target << '|' << o.drafter << '|' << o.prompts << '|'
       << o.repetitions << '|' << s.temperature << '|' << s.top_k << '|' << s.top_p << '|'
       << s.min_p << '|' << o.data.max_tokens << '|' << o.data.kept << '|' << o.data.seed << '|'
       << t.depth << '|' << t.epochs << '|' << t.batch << '|' << t.learning_rate << '|'
       << t.rejection_weight << '|' << t.seed << '\n';
  return text.str();
}

void Put(std::ostream& out, const HeadExamples& examples) {
  const uint64_t sizes[] = {static_cast<uint64_t>(examples.width), examples.size()};
  out.write(reinterpret_cast<const char*>(sizes), sizeof sizes);
  for (const std::vector<float>* part : {&examples.hidden, &examples.labels}) {
    out.write(reinterpret_cast<const char*>(part->data()),
              static_cast<std::streamsize>(part->size() * sizeof(float)));
  }
}

Status Get(std::istream& in, int width, HeadExamples* examples) {
  constexpr uint64_t kMost = uint64_t{1} << 28;
  uint64_t sizes[2] = {};
  in.read(reinterpret_cast<char*>(sizes), sizeof sizes);
  if (!in || sizes[0] != static_cast<uint64_t>(width) || sizes[1] > kMost) {
    return DataLoss("the state's examples are of another model");
  }
  examples->width = width;
  examples->hidden.resize(sizes[0] * sizes[1]);
  examples->labels.resize(sizes[1]);
  for (std::vector<float>* part : {&examples->hidden, &examples->labels}) {
    in.read(reinterpret_cast<char*>(part->data()),
            static_cast<std::streamsize>(part->size() * sizeof(float)));
  }
  return in ? Status() : DataLoss("the state's examples are cut short");
}

// The new file takes the old one's place whole or not at all.
Status SaveState(const std::string& path, const std::string& fingerprint, const Split& split,
                 const HeadTrainer& trainer) {
  const std::string fresh = path + ".new";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << fingerprint;
  Put(out, split.training);
  Put(out, split.held_out);
  trainer.Save(out);
  out.close();
  if (!out) return Unavailable(fresh + ": cannot be written");
  std::error_code failure;
  std::filesystem::rename(fresh, path, failure);
  return failure ? Unavailable(path + ": " + failure.message()) : Status();
}

// False: there is none of these options.
Result<bool> LoadState(const std::string& path, const std::string& fingerprint, int width,
                       Split* split, HeadTrainer* trainer) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return false;
  std::string line;
  std::getline(in, line);
  if (line + "\n" != fingerprint) return false;
  OUTRIDER_TRY(Get(in, width, &split->training));
  OUTRIDER_TRY(Get(in, width, &split->held_out));
  OUTRIDER_TRY(trainer->Load(in));
  return true;
}

Result<std::unique_ptr<Model>> Load(const std::string& directory, int threads) {
  OUTRIDER_ASSIGN(std::unique_ptr<Backend> backend, CreateCpuBackend({.threads = threads}));
  return LoadModel(directory, std::move(backend), {.max_batch_tokens = kBatchTokens});
}

// A line that is written over where somebody watches.
void Progress(const Console& console, const std::string& text, bool last) {
  if (!console.err_is_terminal && !last) return;
  console.err << (console.err_is_terminal ? "\r\033[K" : "") << text;
  if (last || !console.err_is_terminal) console.err << '\n';
  console.err << std::flush;
}

Status Collect(const TrainHeadOptions& options, const Console& console, Model& target,
               Model& drafter, const Tokenizer& tokenizer, Split* split) {
  OUTRIDER_ASSIGN(const std::vector<BenchPrompt> prompts, ReadPrompts(options.prompts));
  HeadDataOptions data = options.data;
  data.vocab =
      std::min({tokenizer.vocab_size(), target.config().vocab_size, drafter.config().vocab_size});
  const size_t texts = prompts.size() * static_cast<size_t>(options.repetitions);
  for (size_t i = 0; i < texts; ++i) {
    const size_t number = i % prompts.size();
    OUTRIDER_ASSIGN(const std::vector<TokenId> ids,
                    tokenizer.Encode(prompts[number].prompt, /*parse_special=*/false));
    std::vector<TokenId> prompt = tokenizer.prompt_prefix();
    prompt.insert(prompt.end(), ids.begin(), ids.end());
    if (prompt.empty()) return InvalidArgument(options.prompts + ": an empty prompt");
    HeadExamples& part = number % kHeldOutEvery == 0 ? split->held_out : split->training;
    OUTRIDER_TRY(AddHeadExamples(target, drafter, prompt, static_cast<uint32_t>(i), data, &part));
    Progress(console,
             "texts " + std::to_string(i + 1) + "/" + std::to_string(texts) + ", examples " +
                 std::to_string(split->training.size()) + " and " +
                 std::to_string(split->held_out.size()) + " held out",
             i + 1 == texts);
  }
  if (split->training.size() == 0 || split->held_out.size() == 0) {
    return InvalidArgument(options.prompts +
                           ": too few prompts to train on some and measure on "
                           "others");
  }
  return Status();
}

std::string Number(double value) {
  std::ostringstream text;
  text.precision(4);
  text << std::fixed << value;
  return text.str();
}

void Print(const TrainHeadOptions& options, const Split& split, const HeadReport& report,
           const std::string& file, const Console& console) {
  if (options.json) {
    console.out << nlohmann::ordered_json{{"file", file},
                                          {"examples", split.training.size()},
                                          {"held_out_examples", split.held_out.size()},
                                          {"loss", report.loss},
                                          {"loss_of_mean", report.loss_of_mean},
                                          {"ece", report.ece},
                                          {"auc", report.auc}}
                       .dump()
                << std::endl;
    return;
  }
  console.out << file << "\nheld out: loss " << Number(report.loss) << " (the mean alone "
              << Number(report.loss_of_mean) << "), calibration error " << Number(report.ece)
              << ", AUC " << Number(report.auc) << std::endl;
}

}  // namespace

Status RunTrainHead(const TrainHeadOptions& options, const Console& console) {
  const std::string file =
      options.out.empty() ? (std::filesystem::path(options.drafter) / kAcceptanceHeadFile).string()
                          : options.out;
  const std::string state = file + ".state", fingerprint = Fingerprint(options);
  OUTRIDER_ASSIGN(const ModelConfig config, LoadModelConfig(options.drafter));
  HeadTrainer trainer(config.hidden_size, options.training);
  Split split;
  OUTRIDER_ASSIGN(const bool resumed,
                  LoadState(state, fingerprint, config.hidden_size, &split, &trainer));
  if (resumed) {
    Progress(console, "goes on behind epoch " + std::to_string(trainer.epoch()), true);
  } else {
    OUTRIDER_ASSIGN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(options.target));
    OUTRIDER_ASSIGN(const std::unique_ptr<Tokenizer> other, Tokenizer::Load(options.drafter));
    if (const std::string mismatch =
            DescribeMismatch(tokenizer->fingerprint(), other->fingerprint());
        !mismatch.empty()) {
      return FailedPrecondition("the tokenizers differ: " + mismatch);
    }
    OUTRIDER_ASSIGN(const std::unique_ptr<Model> target, Load(options.target, options.threads));
    OUTRIDER_ASSIGN(const std::unique_ptr<Model> drafter, Load(options.drafter, options.threads));
    OUTRIDER_TRY(Collect(options, console, *target, *drafter, *tokenizer, &split));
    OUTRIDER_TRY(SaveState(state, fingerprint, split, trainer));
  }
  while (!trainer.done()) {
    const double loss = trainer.RunEpoch(split.training);
    const HeadReport report = Evaluate(trainer.Finish(), split.held_out);
    Progress(console,
             "epoch " + std::to_string(trainer.epoch()) + "/" +
                 std::to_string(options.training.epochs) + ": weighted loss " + Number(loss) +
                 ", held out: loss " + Number(report.loss) + ", AUC " + Number(report.auc),
             true);
    OUTRIDER_TRY(SaveState(state, fingerprint, split, trainer));
  }
  const AcceptanceHead head = trainer.Finish();
  OUTRIDER_TRY(head.Save(file));
  std::error_code ignored;
  std::filesystem::remove(state, ignored);
  Print(options, split, Evaluate(head, split.held_out), file, console);
  return Status();
}

}  // namespace outrider
