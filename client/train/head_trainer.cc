#include "client/train/head_trainer.h"

#include <algorithm>
#include <cmath>
#include <istream>
#include <numbers>
#include <numeric>
#include <ostream>
#include <random>
#include <utility>

#include "common/base/all_finite.h"

namespace outrider {
namespace {

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;  // Kingma and Ba 2015

double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

template <class T>
void Put(std::ostream& out, const T* data, size_t count) {
  out.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(count * sizeof(T)));
}
template <class T>
void Get(std::istream& in, T* data, size_t count) {
  in.read(reinterpret_cast<char*>(data), static_cast<std::streamsize>(count * sizeof(T)));
}

}  // namespace

Status TrainingDiverged() { return FailedPrecondition("training diverged; lower --learning-rate"); }

HeadTrainer::HeadTrainer(int width, const HeadTraining& training)
    : training_(training), head_{.width = width, .depth = training.depth, .parameters = {}} {
  std::mt19937_64 random(training.seed);
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  head_.parameters.resize(ResidualMlpSize(width, training.depth));
  for (float& p : head_.parameters) p = static_cast<float>(bound * (2 * Uniform(random) - 1));
  first_.resize(head_.parameters.size());
  second_.resize(head_.parameters.size());
}

Result<double> HeadTrainer::RunEpoch(const HeadExamples& examples) {
  std::mt19937_64 random(training_.seed * 1000003 + static_cast<uint64_t>(epoch_) + 1);
  std::vector<size_t> order(examples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(Uniform(random) * static_cast<double>(i))]);
  }
  const auto batch = static_cast<size_t>(training_.batch);
  const size_t steps = (order.size() + batch - 1) / batch;
  double loss = 0, weights = 0;
  std::vector<float> gradient(head_.parameters.size());
  for (size_t begin = 0; begin < order.size(); begin += batch) {
    const std::span<const size_t> chosen =
        std::span(order).subspan(begin, std::min(batch, order.size() - begin));
    float weight = 0.f;
    for (const size_t i : chosen) {
      weight += examples.labels[i] + training_.rejection_weight * (1.f - examples.labels[i]);
    }
    std::fill(gradient.begin(), gradient.end(), 0.f);
    for (const size_t i : chosen) {
      loss += AddHeadGradient(head_, examples.row(i), examples.labels[i],
                              training_.rejection_weight, 1.f / weight, gradient);
    }
    weights += static_cast<double>(weight);
    Step(gradient, steps * static_cast<size_t>(training_.epochs));
  }
  loss /= weights;
  if (!std::isfinite(loss) || !AllFinite(head_.parameters)) return TrainingDiverged();
  ++epoch_;
  return loss;
}

void HeadTrainer::Step(std::vector<float>& gradient, size_t total_steps) {
  const double done = static_cast<double>(step_) / static_cast<double>(total_steps);
  const double rate = training_.learning_rate * (1 + std::cos(std::numbers::pi * done)) / 2;
  ++step_;
  const auto t = static_cast<double>(step_);
  const double correct1 = 1 - std::pow(kBeta1, t), correct2 = 1 - std::pow(kBeta2, t);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const auto g = static_cast<double>(gradient[i]);
    const double m = kBeta1 * static_cast<double>(first_[i]) + (1 - kBeta1) * g;
    const double v = kBeta2 * static_cast<double>(second_[i]) + (1 - kBeta2) * g * g;
    first_[i] = static_cast<float>(m);
    second_[i] = static_cast<float>(v);
    head_.parameters[i] -=
        static_cast<float>(rate * (m / correct1) / (std::sqrt(v / correct2) + kEpsilon));
  }
}

AcceptanceHead HeadTrainer::Finish() const {
  AcceptanceHead head = head_;
  head.parameters.back() += std::log(training_.rejection_weight);
  return head;
}

void HeadTrainer::Save(std::ostream& out) const {
  const uint64_t state[] = {head_.parameters.size(), static_cast<uint64_t>(epoch_), step_};
  Put(out, state, 3);
  for (const std::vector<float>* part : {&head_.parameters, &first_, &second_}) {
    Put(out, part->data(), part->size());
  }
}

Status HeadTrainer::Load(std::istream& in) {
  uint64_t state[3] = {};
  Get(in, state, 3);
  if (!in || state[0] != head_.parameters.size() ||
      state[1] > static_cast<uint64_t>(training_.epochs)) {
    return DataLoss("the state is of another training");
  }
  for (std::vector<float>* part : {&head_.parameters, &first_, &second_}) {
    Get(in, part->data(), part->size());
  }
  if (!in) return DataLoss("the state is cut short");
  epoch_ = static_cast<int>(state[1]);
  step_ = state[2];
  return Status();
}

}  // namespace outrider
