#include "client/train/train_head.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "client/prompt_file.h"
#include "client/train/collect.h"
#include "client/train/head_split.h"
#include "common/base/fnv_hash.h"
#include "common/base/input_file.h"
#include "common/base/output_file.h"
#include "common/model/acceptance_head.h"
#include "common/model/config.h"
#include "common/model/model_directory.h"
#include "common/model/model_fingerprint.h"
#include "common/training/head_data.h"

namespace outrider {
namespace {

// Identifies what the examples and the training depend on, apart from the examples themselves.
Result<std::string> Fingerprint(const TrainHeadOptions& o, uint64_t model) {
  FnvHash prompts;
  if (!o.prompts.empty()) {
    OUTRIDER_ASSIGN(const std::vector<BenchPrompt> lines, ReadPrompts(o.prompts));
    for (const BenchPrompt& line : lines) prompts.Add(line.prompt);
  }
  std::ostringstream text;
  text.precision(17);
  const SamplingParams& s = o.sampling;
  const HeadTraining& t = o.training;
  text << "outrider head 2|" << model << '|' << prompts.value() << '|' << o.examples << '|'
       << o.max_tokens << '|' << o.draft_length << '|' << s.temperature << '|' << s.top_k << '|'
       << s.top_p << '|' << t.depth << '|' << t.epochs << '|' << t.batch << '|' << t.learning_rate
       << '|' << t.rejection_weight << '|' << t.seed;
  return text.str();
}

Status SaveState(const std::string& path, const std::string& fingerprint, const HeadData& data,
                 const HeadTrainer& trainer) {
  return ReplaceFile(path, [&](std::ostream& out) {
    out << fingerprint << '\n' << data.size() << ' ' << data.digest << '\n';
    trainer.Save(out);
  });
}

// What SaveState has written; nullopt: there is no file, or it is too large for a state that begins
// with `fingerprint`.
Result<std::optional<std::string>> ReadState(const std::string& path,
                                             const std::string& fingerprint, size_t trainer_bytes) {
  constexpr size_t kNumbers = 64;  // two of at most 20 digits, with what separates them
  const size_t limit = fingerprint.size() + kNumbers + trainer_bytes;
  const Result<InputFile> file = InputFile::Open(path);
  if (file.status().code() == Code::kNotFound) return std::optional<std::string>();
  if (!file.ok()) return file.status();
  if (file->size() > limit) return std::optional<std::string>();
  OUTRIDER_ASSIGN(std::string state, ReadFile(path, limit));
  return std::optional(std::move(state));
}

// The first examples of the file, at most `max_examples`, which must be of the draft model.
Result<HeadData> ReadExamples(const TrainHeadOptions& options, const DraftModel& model,
                              uint64_t max_examples) {
  OUTRIDER_ASSIGN(HeadData data, ReadHeadData(options.data, max_examples));
  OUTRIDER_TRY(CheckModel(options, data.header, model));
  return data;
}

// The examples that the state was trained on; nullopt: there is no state for these options, or the
// file no longer holds its examples.
Result<std::optional<HeadData>> LoadState(const TrainHeadOptions& options, const DraftModel& model,
                                          const std::string& path, const std::string& fingerprint,
                                          HeadTrainer* trainer) {
  OUTRIDER_ASSIGN(
      std::optional<std::string> state,
      ReadState(path, fingerprint, HeadStateBytes(model.width, options.training.depth)));
  if (!state.has_value()) return std::optional<HeadData>();
  std::istringstream in(*std::move(state));
  std::string line;
  uint64_t size = 0, digest = 0;
  if (!std::getline(in, line) || line != fingerprint || !(in >> size >> digest)) {
    return std::optional<HeadData>();
  }
  in.ignore();
  Result<HeadData> data = ReadExamples(options, model, size);
  if (!data.ok() || data->size() != size || data->digest != digest) {
    return std::optional<HeadData>();
  }
  OUTRIDER_TRY(trainer->Load(in));
  return std::optional(std::move(data).value());
}

std::string Number(double value) {
  std::ostringstream text;
  text.precision(4);
  text << std::fixed << value;
  return text.str();
}

std::string Words(const HeadReport& report) {
  return "loss " + Number(report.loss) + ", calibration error " + Number(report.ece) + ", AUC " +
         Number(report.auc);
}

nlohmann::ordered_json Json(const HeadReport& report) {
  return {{"loss", report.loss}, {"ece", report.ece}, {"auc", report.auc}};
}

// `before`: the report of the head that the new one replaces, if there is one whose predictions are
// finite.
void Print(const TrainHeadOptions& options, const HeadSplit& split, const HeadReport& report,
           const std::optional<HeadReport>& before, const std::string& file,
           const Console& console) {
  if (options.json) {
    nlohmann::ordered_json json{{"file", file},
                                {"examples", split.training.size()},
                                {"held_out_examples", split.held_out.size()}};
    json.update(Json(report));
    json["loss_of_mean"] = report.loss_of_mean;
    if (before.has_value()) json["before"] = Json(*before);
    console.out << json.dump() << std::endl;
    return;
  }
  console.out << file << "\nheld out: " << Words(report) << " (the mean alone: loss "
              << Number(report.loss_of_mean) << ")\n";
  if (before.has_value()) console.out << "before: " << Words(*before) << '\n';
  console.out << std::flush;
}

Result<DraftModel> ReadDraftModel(const TrainHeadOptions& options) {
  OUTRIDER_TRY(CheckModelDirectory(options.drafter));
  std::error_code ignored;
  if (options.out.empty() && !std::filesystem::is_directory(options.drafter, ignored)) {
    return InvalidArgument(options.drafter +
                           ": is a file, beside which no head is looked for; give --out FILE, and "
                           "that file to the drafter as --acceptance-head");
  }
  OUTRIDER_ASSIGN(const ModelConfig config, LoadModelConfig(options.drafter));
  OUTRIDER_ASSIGN(const uint64_t fingerprint, ModelFingerprint(options.drafter));
  return DraftModel{.width = config.hidden_size, .fingerprint = fingerprint};
}

}  // namespace

Status RunTrainHead(const TrainHeadOptions& options, const Console& console) {
  const std::string file =
      options.out.empty() ? (std::filesystem::path(options.drafter) / kAcceptanceHeadFile).string()
                          : options.out;
  const std::string state = file + ".state";
  OUTRIDER_ASSIGN(const DraftModel model, ReadDraftModel(options));
  OUTRIDER_ASSIGN(const std::string fingerprint, Fingerprint(options, model.fingerprint));
  HeadTrainer trainer(model.width, options.training);
  OUTRIDER_ASSIGN(std::optional<HeadData> data,
                  LoadState(options, model, state, fingerprint, &trainer));
  if (data.has_value()) {
    console.err << "continues after epoch " << trainer.epoch() << std::endl;
  } else {
    if (!options.prompts.empty()) OUTRIDER_TRY(CollectHeadData(options, model, console));
    OUTRIDER_ASSIGN(data, ReadExamples(options, model, std::numeric_limits<uint64_t>::max()));
  }
  const HeadSplit split = SplitByPrompt(*data);
  if (split.training.size() == 0 || split.held_out.size() == 0) {
    return InvalidArgument(options.data +
                           ": too few prompts to train on some and measure on others");
  }
  console.err << "training on " << split.training.size() << " examples, " << split.held_out.size()
              << " held out" << std::endl;
  while (!trainer.done()) {
    OUTRIDER_ASSIGN(const double loss, trainer.RunEpoch(split.training));
    const std::optional<HeadReport> report = Evaluate(trainer.Finish(), split.held_out);
    if (!report.has_value()) return TrainingDiverged();
    console.err << "epoch " << trainer.epoch() << "/" << options.training.epochs
                << ": weighted loss " << Number(loss) << ", held out: " << Words(*report)
                << std::endl;
    OUTRIDER_TRY(SaveState(state, fingerprint, *data, trainer));
  }
  const Result<AcceptanceHead> old = AcceptanceHead::Load(file, model.width);
  std::optional<HeadReport> before;
  if (old.ok()) before = Evaluate(*old, split.held_out);
  const AcceptanceHead head = trainer.Finish();
  const std::optional<HeadReport> report = Evaluate(head, split.held_out);
  if (!report.has_value()) return TrainingDiverged();
  OUTRIDER_TRY(head.Save(file));
  std::error_code ignored;
  std::filesystem::remove(state, ignored);
  Print(options, split, *report, before, file, console);
  return Status();
}

}  // namespace outrider
