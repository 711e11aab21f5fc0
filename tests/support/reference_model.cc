#include "tests/support/reference_model.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace outrider {
namespace {

using Json = nlohmann::json;

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

size_t BytesOf(const std::string& dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  return dtype == "I8" || dtype == "F8_E4M3" ? 1 : 2;
}

template <class T>
double Read(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

double Widen(const std::string& dtype, const char* bytes) {
  if (dtype == "I8") return static_cast<signed char>(*bytes);
  if (dtype == "I64") return Read<int64_t>(bytes);
  if (dtype == "I32") return Read<uint32_t>(bytes);
  if (dtype == "F32") return Read<float>(bytes);
  if (dtype == "F8_E4M3") {
    const auto code = static_cast<unsigned char>(*bytes);
    const int exponent = code >> 3 & 15;
    const double magnitude =
        exponent == 0 ? std::ldexp(code & 7, -9) : std::ldexp(8 + (code & 7), exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  const int exponent_bits = dtype == "BF16" ? 8 : 5;
  if (dtype != "BF16" && dtype != "F16") throw std::runtime_error("dtype " + dtype);
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double fraction = std::ldexp(bits & ((1 << mantissa_bits) - 1), -mantissa_bits);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return bits >> 15 ? -magnitude : magnitude;
}

bool Set(const Json& json, const char* name) {
  return json.contains(name) && !json[name].is_null();
}

}  // namespace

ReferenceModel::ReferenceModel(const std::filesystem::path& directory) {
  ReadConfig(directory / "config.json");
  const std::filesystem::path index = directory / "model.safetensors.index.json";
  std::set<std::string> shards = {"model.safetensors"};
  if (std::filesystem::exists(index)) {
    shards.clear();
    const Json listed = Json::parse(ReadAll(index))["weight_map"];
    for (const auto& [tensor, shard] : listed.items()) shards.insert(shard);
  }
  for (const std::string& shard : shards) ReadWeights(directory / shard);
  const Json config = Json::parse(ReadAll(directory / "config.json"));
  if (Set(config, "quantization_config")) {
    DequantizeTensors(config["quantization_config"], &tensors_);
  }
}

void ReferenceModel::ReadConfig(const std::filesystem::path& path) {
  const Json config = Json::parse(ReadAll(path));
  vocab_ = config["vocab_size"];
  layers_ = config["num_hidden_layers"];
  heads_ = config["num_attention_heads"];
  kv_heads_ =
      Set(config, "num_key_value_heads") ? config["num_key_value_heads"].get<int>() : heads_;
  head_dim_ = Set(config, "head_dim") ? config["head_dim"].get<int>()
                                      : config["hidden_size"].get<int>() / heads_;
  tied_ = config.value("tie_word_embeddings", false);
  eps_ = config["rms_norm_eps"];
  windows_.assign(static_cast<size_t>(layers_), 0);
  if (config["architectures"][0] == "MistralForCausalLM" && Set(config, "sliding_window")) {
    windows_.assign(static_cast<size_t>(layers_), config["sliding_window"].get<int>());
  }

  query_scalar_ = head_dim_;
  gemma_ = config["architectures"][0] == "Gemma2ForCausalLM";
  if (gemma_) ReadGemma2(config);

  Json rope = Json::object();
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    if (Set(config, name)) rope = config[name];
  }
  const double theta = rope.contains("rope_theta") ? rope["rope_theta"].get<double>()
                                                   : config.value("rope_theta", 10000.0);
  Vector frequencies;
  for (int i = 0; i < head_dim_; i += 2) {
    double frequency = 1 / std::pow(theta, static_cast<double>(i) / head_dim_);
    const std::string type = rope.value("rope_type", rope.value("type", "default"));
    if (type == "llama3") {
      const double factor = rope["factor"];
      const double low = rope["low_freq_factor"];
      const double high = rope["high_freq_factor"];
      const double original = rope["original_max_position_embeddings"];
      const double wavelength = 2 * M_PI / frequency;
      if (wavelength > original / low) {
        frequency /= factor;
      } else if (wavelength > original / high) {
        const double smooth = (original / wavelength - low) / (high - low);
        frequency = (1 - smooth) * frequency / factor + smooth * frequency;
      }
    }
    frequencies.push_back(frequency);
  }
  frequencies_.assign(static_cast<size_t>(layers_), frequencies);
}

void ReferenceModel::ReadGemma2(const Json& config) {
  query_scalar_ = config["query_pre_attn_scalar"];
  score_cap_ = config["attn_logit_softcapping"];
  logit_cap_ = config["final_logit_softcapping"];
  for (size_t i = 0; i < windows_.size(); i += 2) windows_[i] = config["sliding_window"];
  // To bfloat16, whose mantissa has eight bits: the root's place above the point is known.
  embedding_scale_ = std::sqrt(config["hidden_size"].get<double>());
  const double step = std::exp2(std::floor(std::log2(embedding_scale_)) - 7);
  if (config["torch_dtype"] == "bfloat16") {
    embedding_scale_ = std::nearbyint(embedding_scale_ / step) * step;
  }
}

void ReferenceModel::SetRopeTheta(int layer, double theta) {
  Vector& frequencies = frequencies_[static_cast<size_t>(layer)];
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = 1 / std::pow(theta, 2.0 * static_cast<double>(i) / head_dim_);
  }
}

void ReferenceModel::ReadWeights(const std::filesystem::path& path) {
  const std::string file = ReadAll(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), 8);
  const Json header = Json::parse(file.substr(8, header_bytes));
  const char* data = file.data() + 8 + header_bytes;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string dtype = entry["dtype"];
    const size_t begin = entry["data_offsets"][0];
    const size_t end = entry["data_offsets"][1];
    WideTensor& tensor = tensors_[name];
    tensor.shape = entry["shape"].get<std::vector<int64_t>>();
    Vector& weight = tensor.values;
    for (size_t at = begin; at < end; at += BytesOf(dtype)) {
      weight.push_back(Widen(dtype, data + at));
    }
  }
}

const ReferenceModel::Vector& ReferenceModel::Weight(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error("no tensor " + name);
  return found->second.values;
}

ReferenceModel::Vector ReferenceModel::Linear(const std::string& name, const Vector& x) const {
  const Vector& weight = Weight(name + ".weight");
  Vector y(weight.size() / x.size());
  for (size_t row = 0; row < y.size(); ++row) {
    for (size_t i = 0; i < x.size(); ++i) y[row] += weight[row * x.size() + i] * x[i];
  }
  if (const auto bias = tensors_.find(name + ".bias"); bias != tensors_.end()) {
    for (size_t row = 0; row < y.size(); ++row) y[row] += bias->second.values[row];
  }
  return y;
}

// `x` may be several vectors of the gain's length, each normalised by itself.
ReferenceModel::Vector ReferenceModel::Norm(const Vector& x, const Vector& gain) const {
  Vector y(x.size());
  const size_t n = gain.size();
  for (size_t begin = 0; begin < x.size(); begin += n) {
    double squares = 0;
    for (size_t i = 0; i < n; ++i) squares += x[begin + i] * x[begin + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(n) + eps_);
    for (size_t i = 0; i < n; ++i) {
      y[begin + i] = x[begin + i] * scale * (gain[i] + (gemma_ ? 1 : 0));
    }
  }
  return y;
}

double ReferenceModel::Activate(double x) const {
  if (!gemma_) return x / (1 + std::exp(-x));
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

// Turns (x[i], x[i + head_dim / 2]) of every head as one plane.
void ReferenceModel::Rotate(int layer, Vector& heads, int position) const {
  const Vector& frequencies = frequencies_[static_cast<size_t>(layer)];
  const size_t half = frequencies.size();
  for (size_t begin = 0; begin < heads.size(); begin += 2 * half) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = position * frequencies[i];
      const double a = heads[begin + i];
      const double b = heads[begin + half + i];
      heads[begin + i] = a * std::cos(angle) - b * std::sin(angle);
      heads[begin + half + i] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
}

ReferenceModel::Vector ReferenceModel::Attend(int layer, const Vector& query,
                                              const std::vector<Vector>& keys,
                                              const std::vector<Vector>& values) const {
  const auto dim = static_cast<size_t>(head_dim_);
  const auto window = static_cast<size_t>(windows_[static_cast<size_t>(layer)]);
  const size_t first = window > 0 && keys.size() > window ? keys.size() - window : 0;
  Vector out(query.size());
  for (size_t head = 0; head < static_cast<size_t>(heads_); ++head) {
    const size_t kv = head / static_cast<size_t>(heads_ / kv_heads_) * dim;
    Vector weights;
    double sum = 0;
    for (size_t t = first; t < keys.size(); ++t) {
      double dot = 0;
      for (size_t i = 0; i < dim; ++i) dot += query[head * dim + i] * keys[t][kv + i];
      double score = dot / std::sqrt(query_scalar_);
      if (score_cap_ > 0) score = score_cap_ * std::tanh(score / score_cap_);
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    for (size_t t = first; t < keys.size(); ++t) {
      for (size_t i = 0; i < dim; ++i) {
        out[head * dim + i] += weights[t - first] / sum * values[t][kv + i];
      }
    }
  }
  return out;
}

std::vector<std::vector<double>> ReferenceModel::Logits(const std::vector<int32_t>& tokens) const {
  const Vector& embedding = Weight("model.embed_tokens.weight");
  const size_t hidden = embedding.size() / static_cast<size_t>(vocab_);
  std::vector<Vector> states;
  for (const int32_t token : tokens) {
    const auto row = embedding.begin() + static_cast<ptrdiff_t>(hidden) * token;
    states.emplace_back(row, row + static_cast<ptrdiff_t>(hidden));
    for (double& x : states.back()) x *= embedding_scale_;
  }

  const auto add = [](Vector& to, const Vector& x) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += x[i];
  };
  for (int layer = 0; layer < layers_; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    const std::string attention = name + "self_attn.";
    const bool norm_heads = tensors_.count(attention + "q_norm.weight") > 0;
    std::vector<Vector> keys;
    std::vector<Vector> values;
    for (size_t t = 0; t < states.size(); ++t) {
      const Vector x = Norm(states[t], Weight(name + "input_layernorm.weight"));
      Vector query = Linear(attention + "q_proj", x);
      Vector key = Linear(attention + "k_proj", x);
      if (norm_heads) {
        query = Norm(query, Weight(attention + "q_norm.weight"));
        key = Norm(key, Weight(attention + "k_norm.weight"));
      }
      Rotate(layer, query, static_cast<int>(t));
      Rotate(layer, key, static_cast<int>(t));
      keys.push_back(key);
      values.push_back(Linear(attention + "v_proj", x));
      Vector attended = Linear(attention + "o_proj", Attend(layer, query, keys, values));
      if (gemma_) attended = Norm(attended, Weight(name + "post_attention_layernorm.weight"));
      add(states[t], attended);
    }
    const std::string mlp_norm = gemma_ ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    for (Vector& state : states) {
      const Vector x = Norm(state, Weight(name + mlp_norm + ".weight"));
      Vector gate = Linear(name + "mlp.gate_proj", x);
      const Vector up = Linear(name + "mlp.up_proj", x);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = Activate(gate[i]) * up[i];
      Vector down = Linear(name + "mlp.down_proj", gate);
      if (gemma_) down = Norm(down, Weight(name + "post_feedforward_layernorm.weight"));
      add(state, down);
    }
  }

  std::vector<Vector> logits;
  for (const Vector& state : states) {
    const Vector x = Norm(state, Weight("model.norm.weight"));
    logits.push_back(Linear(tied_ ? "model.embed_tokens" : "lm_head", x));
    if (logit_cap_ == 0) continue;
    for (double& logit : logits.back()) logit = logit_cap_ * std::tanh(logit / logit_cap_);
  }
  return logits;
}

}  // namespace outrider
