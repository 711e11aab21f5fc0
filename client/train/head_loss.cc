#include "client/train/head_loss.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "common/base/all_finite.h"

namespace outrider {
namespace {

double Softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }
float Sigmoid(float x) { return 1.f / (1.f + std::exp(-x)); }

// -p log s - (1 - p) log(1 - s), finite for any s in [0, 1].
double CrossEntropy(double p, double s) {
  constexpr double kMin = 1e-7;
  s = std::clamp(s, kMin, 1 - kMin);
  return -p * std::log(s) - (1 - p) * std::log(1 - s);
}

}  // namespace

double AddHeadGradient(const AcceptanceHead& head, std::span<const float> hidden, float label,
                       float rejection_weight, float scale, std::span<float> gradient) {
  const auto width = static_cast<size_t>(head.width);
  const size_t block_size = width * width + width;
  const auto depth = static_cast<size_t>(head.depth);
  // Each block's input and W x + b.
  std::vector<std::vector<float>> inputs, sums;
  std::vector<float> x(hidden.begin(), hidden.end());
  for (size_t block = 0; block < depth; ++block) {
    const float* p = head.parameters.data() + block * block_size;
    std::vector<float> z(p + width * width, p + block_size);
    for (size_t i = 0; i < width; ++i) {
      for (size_t j = 0; j < width; ++j) z[j] += x[i] * p[i * width + j];
    }
    inputs.push_back(x);
    for (size_t j = 0; j < width; ++j) x[j] += z[j] * Sigmoid(z[j]);
    sums.push_back(std::move(z));
  }
  const float* out = head.parameters.data() + depth * block_size;
  float* out_gradient = gradient.data() + depth * block_size;
  const float logit = std::inner_product(x.begin(), x.end(), out, out[width]);
  const float s = Sigmoid(logit);
  const float g = scale * (rejection_weight * (1.f - label) * s - label * (1.f - s));
  std::vector<float> dx(width);
  for (size_t i = 0; i < width; ++i) {
    out_gradient[i] += g * x[i];
    dx[i] = g * out[i];
  }
  out_gradient[width] += g;
  std::vector<float> dz(width);
  for (size_t block = depth; block-- > 0;) {
    const float* p = head.parameters.data() + block * block_size;
    float* d = gradient.data() + block * block_size;
    for (size_t j = 0; j < width; ++j) {
      const float z = sums[block][j], sigmoid = Sigmoid(z);
      dz[j] = dx[j] * sigmoid * (1.f + z * (1.f - sigmoid));
      d[width * width + j] += dz[j];
    }
    for (size_t i = 0; i < width; ++i) {
      float sum = 0.f;
      for (size_t j = 0; j < width; ++j) {
        d[i * width + j] += inputs[block][i] * dz[j];
        sum += p[i * width + j] * dz[j];
      }
      dx[i] += sum;  // in addition to the residual path
    }
  }
  const auto z = static_cast<double>(logit), p = static_cast<double>(label);
  return p * Softplus(-z) + static_cast<double>(rejection_weight) * (1 - p) * Softplus(z);
}

std::optional<HeadReport> Evaluate(std::span<const float> predictions,
                                   std::span<const float> labels) {
  // NaN has no bin and no order, and equals nothing, itself included.
  if (!AllFinite(predictions)) return std::nullopt;
  constexpr size_t kBins = 10;
  struct Bin {
    double predicted = 0, actual = 0;
  };
  std::array<Bin, kBins> bins;
  HeadReport report;
  const auto count = static_cast<double>(labels.size());
  const double mean = std::accumulate(labels.begin(), labels.end(), 0.0) / count;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto s = static_cast<double>(predictions[i]), p = static_cast<double>(labels[i]);
    report.loss += CrossEntropy(p, s) / count;
    report.loss_of_mean += CrossEntropy(p, mean) / count;
    Bin& bin = bins[std::min(static_cast<size_t>(s * kBins), kBins - 1)];
    bin.predicted += s;
    bin.actual += p;
  }
  for (const Bin& bin : bins) report.ece += std::abs(bin.predicted - bin.actual) / count;

  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return predictions[a] < predictions[b]; });
  double won = 0, accepted = 0, rejected = 0;
  for (size_t begin = 0; begin < order.size();) {
    double tied_accepted = 0, tied_rejected = 0;
    size_t end = begin;
    for (; end < order.size() && predictions[order[end]] == predictions[order[begin]]; ++end) {
      tied_accepted += static_cast<double>(labels[order[end]]);
      tied_rejected += 1 - static_cast<double>(labels[order[end]]);
    }
    won += tied_accepted * (rejected + tied_rejected / 2);
    accepted += tied_accepted;
    rejected += tied_rejected;
    begin = end;
  }
  report.auc = accepted * rejected > 0 ? won / (accepted * rejected) : 0.5;
  return report;
}

std::optional<HeadReport> Evaluate(const AcceptanceHead& head, const HeadExamples& examples) {
  std::vector<float> predictions = head.Logits(examples.hidden);
  for (float& z : predictions) z = Sigmoid(z);
  return Evaluate(predictions, examples.labels);
}

}  // namespace outrider
