#include "tests/support/gguf_gpt_oss.h"

#include <cstddef>

namespace outrider {
namespace {

constexpr char kExperts[] = ".mlp.experts.";

// Calls f(element of the checkpoint's tensor, part, element of the part) for each element.
template <class F>
void ForElements(const std::vector<int64_t>& shape, int64_t parts, const F& f) {
  const int64_t inputs = shape.size() == 3 ? shape[1] : 1, outputs = shape.back();
  const int64_t rows = outputs / parts;
  for (int64_t expert = 0; expert < shape[0]; ++expert) {
    for (int64_t k = 0; k < inputs; ++k) {
      for (int64_t output = 0; output < outputs; ++output) {
        const int64_t from = (expert * inputs + k) * outputs + output;
        const int64_t to = (expert * rows + output / parts) * inputs + k;
        f(static_cast<size_t>(from), static_cast<size_t>(output % parts), static_cast<size_t>(to));
      }
    }
  }
}

}  // namespace

bool IsStackedExperts(const std::string& name) {
  const size_t pos = name.find(kExperts);
  if (pos == std::string::npos) return false;
  const std::string part = name.substr(pos + sizeof kExperts - 1);
  return part.starts_with("gate_up_proj") || part.starts_with("down_proj");
}

std::vector<GgufStack> SplitExperts(const std::string& name, const std::vector<int64_t>& shape,
                                    const std::vector<float>& values) {
  const std::string layers = "model.layers.";
  const std::string layer = name.substr(layers.size(), name.find(kExperts) - layers.size());
  const std::string suffix = name.ends_with("_bias") ? "_exps.bias" : "_exps.weight";
  std::vector<GgufStack> parts;
  const auto add = [&](const std::string& projection, int64_t rows) {
    std::vector<int64_t> sides = {shape[0], rows};
    if (shape.size() == 3) sides.push_back(shape[1]);
    parts.push_back({"blk." + layer + ".ffn_" + projection + suffix, sides, {}});
  };
  if (name.find("gate_up_proj") != std::string::npos) {
    add("gate", shape.back() / 2);
    add("up", shape.back() / 2);
  } else {
    add("down", shape.back());
  }
  for (GgufStack& part : parts) part.values.resize(values.size() / parts.size());
  ForElements(shape, static_cast<int64_t>(parts.size()),
              [&](size_t from, size_t part, size_t to) { parts[part].values[to] = values[from]; });
  return parts;
}

std::vector<float> JoinExperts(const std::vector<int64_t>& shape,
                               const std::vector<GgufStack>& parts) {
  std::vector<float> values(parts.size() * parts[0].values.size());
  ForElements(shape, static_cast<int64_t>(parts.size()),
              [&](size_t from, size_t part, size_t to) { values[from] = parts[part].values[to]; });
  return values;
}

}  // namespace outrider
