#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <sstream>
#include <string>

#include "client/train/head_loss.h"
#include "client/train/head_split.h"
#include "client/train/head_trainer.h"

namespace outrider {
namespace {

AcceptanceHead SomeHead(int width, int depth) {
  AcceptanceHead head{.width = width, .depth = depth, .parameters = {}};
  head.parameters.resize(ResidualMlpSize(width, depth));
  for (size_t i = 0; i < head.parameters.size(); ++i) {
    head.parameters[i] = 0.6f * std::sin(static_cast<float>(i) * 1.7f + 0.3f);
  }
  return head;
}

TEST(HeadLoss, GradientIsThatOfTheLoss) {
  const std::vector<float> hidden = {0.7f, -1.2f, 0.4f};
  for (const int depth : {0, 1, 3}) {
    for (const float label : {0.f, 0.3f, 1.f}) {
      AcceptanceHead head = SomeHead(3, depth);
      std::vector<float> gradient(head.parameters.size()), ignored(head.parameters.size());
      AddHeadGradient(head, hidden, label, 6.f, 1.f, gradient);
      for (size_t i = 0; i < head.parameters.size(); ++i) {
        constexpr float kStep = 4e-3f;
        const float before = head.parameters[i];
        head.parameters[i] = before + kStep;
        const double above = AddHeadGradient(head, hidden, label, 6.f, 1.f, ignored);
        head.parameters[i] = before - kStep;
        const double below = AddHeadGradient(head, hidden, label, 6.f, 1.f, ignored);
        head.parameters[i] = before;
        // Floats: the loss is good to 1e-6, the quotient to some 1e-4, its curvature aside.
        const double slope = (above - below) / (2 * static_cast<double>(kStep));
        EXPECT_NEAR(static_cast<double>(gradient[i]), slope, 2e-3 + 2e-3 * std::abs(slope))
            << "depth " << depth << ", label " << label << ", parameter " << i;
      }
    }
  }
}

TEST(HeadLoss, IsWeightedCrossEntropy) {
  const AcceptanceHead head = SomeHead(3, 2);
  const std::vector<float> hidden = {0.7f, -1.2f, 0.4f};
  std::vector<float> gradient(head.parameters.size());
  const double s = 1 / (1 + std::exp(-static_cast<double>(head.Logits(hidden)[0])));
  EXPECT_NEAR(AddHeadGradient(head, hidden, 0.25f, 3.f, 1.f, gradient),
              -0.25 * std::log(s) - 3 * 0.75 * std::log(1 - s), 1e-5);
}

TEST(HeadReport, KnownFigures) {
  // Accepted at 0.9 and 0.4, rejected at 0.6 and 0.1: of four pairs three are in order.
  const std::vector<float> predictions = {0.9f, 0.4f, 0.6f, 0.1f}, labels = {1, 1, 0, 0};
  const HeadReport report = Evaluate(predictions, labels).value();
  EXPECT_DOUBLE_EQ(report.auc, 0.75);
  EXPECT_NEAR(report.ece, (0.1 + 0.6 + 0.6 + 0.1) / 4, 1e-6);
  EXPECT_NEAR(report.loss, -(std::log(0.9) + std::log(0.4) + std::log(0.4) + std::log(0.9)) / 4,
              1e-6);
  EXPECT_NEAR(report.loss_of_mean, std::log(2), 1e-6);
  EXPECT_DOUBLE_EQ(Evaluate(std::vector<float>(4, 0.5f), labels)->auc, 0.5);
  // Soft: 0.8 at the higher prediction, 0.2 at the lower. Accepted weigh 1, rejected 1; pairs in
  // order 0.8 * 0.8, tied 2 * 0.8 * 0.2.
  const std::vector<float> certain = {0.8f, 0.2f};
  const HeadReport soft = Evaluate(certain, certain).value();
  EXPECT_NEAR(soft.auc, 0.64 + 0.32 / 2, 1e-6);
  EXPECT_NEAR(soft.ece, 0, 1e-6);
}

// NaN is not equal to itself, so a loop over ties of a prediction would never end.
TEST(HeadReport, NanPredictionsHaveNone) {
  const std::vector<float> labels = {1, 0, 1, 0};
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EXPECT_FALSE(Evaluate(std::vector<float>{0.9f, bad, 0.6f, bad}, labels).has_value());
  }
  // Finite parameters, and a logit of infinity - infinity.
  const AcceptanceHead head{.width = 2, .depth = 0, .parameters = {3e38f, -3e38f, 0.f}};
  const HeadExamples examples{.width = 2, .hidden = {2.f, 2.f}, .labels = {1.f}};
  EXPECT_FALSE(Evaluate(head, examples).has_value());
}

// The label is the logistic function of twice the first entry.
HeadExamples Separable(size_t count) {
  HeadExamples examples{.width = 4, .hidden = {}, .labels = {}};
  std::mt19937 random(3);
  for (size_t i = 0; i < count; ++i) {
    for (int j = 0; j < 4; ++j) {
      examples.hidden.push_back(static_cast<float>(random() % 2001) / 500.f - 2.f);
    }
    const float x = examples.hidden[4 * i];
    examples.labels.push_back(1.f / (1.f + std::exp(-2.f * x)));
  }
  return examples;
}

TEST(HeadTrainer, IsCalibratedAtAnyWeight) {
  const HeadExamples examples = Separable(2000);
  for (const float weight : {1.f, 6.f}) {
    for (const int depth : {0, 2}) {
      HeadTrainer trainer(4, {.depth = depth,
                              .epochs = 40,
                              .batch = 32,
                              .learning_rate = 1e-2,
                              .rejection_weight = weight});
      const HeadReport before = Evaluate(trainer.Finish(), examples).value();
      while (!trainer.done()) ASSERT_TRUE(trainer.RunEpoch(examples).ok());
      const HeadReport report = Evaluate(trainer.Finish(), examples).value();
      const HeadReport best = Evaluate(examples.labels, examples.labels).value();
      EXPECT_LT(report.loss, best.loss + 0.01) << weight << ", " << depth;
      EXPECT_GT(before.loss, best.loss + 0.1);
      EXPECT_GT(report.auc, best.auc - 0.01);
      EXPECT_LT(report.ece, 0.02);
    }
  }
}

TEST(HeadTrainer, DivergenceIsError) {
  const HeadExamples examples = Separable(300);
  HeadTrainer trainer(4, {.epochs = 5, .batch = 32, .learning_rate = 1e30});
  Status status;
  while (status.ok() && !trainer.done()) status = trainer.RunEpoch(examples).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("--learning-rate"), std::string::npos) << status.message();
}

TEST(HeadTrainer, ResumedTrainingGivesSameHead) {
  const HeadExamples examples = Separable(300);
  const HeadTraining training{.epochs = 6, .batch = 50, .seed = 9};
  HeadTrainer whole(4, training), first(4, training);
  while (!whole.done()) ASSERT_TRUE(whole.RunEpoch(examples).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(first.RunEpoch(examples).ok());
  std::stringstream state;
  first.Save(state);
  HeadTrainer second(4, training);
  ASSERT_TRUE(second.Load(state).ok());
  EXPECT_EQ(second.epoch(), 2);
  while (!second.done()) ASSERT_TRUE(second.RunEpoch(examples).ok());
  EXPECT_EQ(second.Finish().parameters, whole.Finish().parameters);
  std::stringstream other("nonsense");
  EXPECT_EQ(second.Load(other).code(), Code::kDataLoss);
}

TEST(HeadTrainer, StateBytesAreThoseOfSave) {
  std::stringstream state;
  HeadTrainer(4, {.depth = 2}).Save(state);
  EXPECT_EQ(state.str().size(), HeadStateBytes(4, 2));
  // More than the GiB that was read at most: 12 bytes for each of 134 million parameters.
  EXPECT_EQ(HeadStateBytes(8192, 2), 24 + 12 * (2 * (size_t{8192} * 8192 + 8192) + 8193));
}

// Of 25 prompts every tenth is held out, with all that belongs to it and nothing else.
TEST(HeadSplit, NoPromptIsOnBothSides) {
  HeadData data{.header = {.width = 2}};
  std::mt19937_64 random(11);
  std::vector<uint64_t> ids(25);
  for (uint64_t& id : ids) id = random();
  for (size_t i = 0; i < 1000; ++i) {
    const size_t prompt = random() % ids.size();
    data.prompts.push_back(ids[prompt]);
    data.labels.push_back(static_cast<float>(i));
    for (const float x : {static_cast<float>(prompt), static_cast<float>(i)}) {
      data.hidden.push_back(x);
    }
  }
  const HeadSplit split = SplitByPrompt(data);
  const auto prompts = [](const HeadExamples& part) {
    std::set<float> seen;
    for (size_t i = 0; i < part.size(); ++i) {
      seen.insert(part.row(i)[0]);
      EXPECT_EQ(part.row(i)[1], part.labels[i]);  // still together
    }
    return seen;
  };
  const std::set<float> training = prompts(split.training), held_out = prompts(split.held_out);
  EXPECT_EQ(split.training.width, 2);
  EXPECT_EQ(split.training.size() + split.held_out.size(), 1000u);
  EXPECT_EQ(held_out.size(), 3u);
  EXPECT_EQ(training.size(), 22u);
  for (const float prompt : held_out) EXPECT_FALSE(training.contains(prompt)) << prompt;
}

TEST(HeadSplit, SinglePromptIsOnlyValidation) {
  HeadData data;
  data.header.width = 1;
  data.prompts = {7, 7};
  data.labels = {0.f, 1.f};
  data.hidden = {1.f, 2.f};
  EXPECT_EQ(SplitByPrompt(data).held_out.size(), 2u);
  EXPECT_EQ(SplitByPrompt(data).training.size(), 0u);
}

}  // namespace
}  // namespace outrider
