// make_checkpoint <directory> [name=value ...] writes a small random model; see checkpoint_maker.h.
//   make_checkpoint /tmp/target family=qwen3 layers=4 hidden=128 vocab=512 tokenizer=1
//   make_checkpoint /tmp/quantized stored=awq tokenizer=1
//   make_checkpoint /tmp/mixture family=mixtral experts=8 top_k=2 expert_size=96 tokenizer=1
//   make_checkpoint /tmp/drafter family=qwen3 layers=4 hidden=128 vocab=512 tokenizer=1 noise=0.3

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "tests/support/checkpoint_maker.h"

namespace outrider {
namespace {

// Sets an option from its value.
using Setter = std::function<Status(const std::string& value)>;

Setter Integer(int* to) {
  return [to](const std::string& value) {
    *to = std::atoi(value.c_str());
    return Status();
  };
}

Setter Flag(bool* to) {
  return [to](const std::string& value) {
    *to = value == "1";
    return Status();
  };
}

Status SetDtype(const std::string& value, CheckpointOptions* options) {
  if (value != "f32" && value != "f16" && value != "bf16") {
    return InvalidArgument("dtype is f32, f16 or bf16, not " + value);
  }
  options->dtype = value == "f32" ? Dtype::kF32 : value == "f16" ? Dtype::kF16 : Dtype::kBf16;
  return Status();
}

std::map<std::string, Setter> Setters(CheckpointOptions* o) {
  return {{"vocab", Integer(&o->vocab_size)},
          {"hidden", Integer(&o->hidden_size)},
          {"intermediate", Integer(&o->intermediate_size)},
          {"layers", Integer(&o->num_layers)},
          {"heads", Integer(&o->num_heads)},
          {"kv_heads", Integer(&o->num_kv_heads)},
          {"head_dim", Integer(&o->head_dim)},
          {"positions", Integer(&o->max_position_embeddings)},
          {"window", Integer(&o->sliding_window)},
          {"experts", Integer(&o->num_experts)},
          {"top_k", Integer(&o->experts_per_token)},
          {"expert_size", Integer(&o->expert_size)},
          {"shards", Integer(&o->shards)},
          {"tied", Flag(&o->tied_embeddings)},
          {"attention_bias", Flag(&o->attention_bias)},
          {"mlp_bias", Flag(&o->mlp_bias)},
          {"rope_parameters", Flag(&o->rope_parameters)},
          {"tokenizer", Flag(&o->tokenizer)},
          {"family",
           [o](const std::string& value) {
             OUTRIDER_ASSIGN(o->family, ParseFamily(value));
             return Status();
           }},
          {"stored",
           [o](const std::string& value) {
             OUTRIDER_ASSIGN(o->stored_as, ParseStoredAs(value));
             return Status();
           }},
          {"config",
           [o](const std::string& value) {
             o->config = value;
             return Status();
           }},
          {"dtype", [o](const std::string& value) { return SetDtype(value, o); }},
          {"seed",
           [o](const std::string& value) {
             o->seed = std::strtoull(value.c_str(), nullptr, 10);
             return Status();
           }},
          {"noise", [o](const std::string& value) {
             o->noise = std::atof(value.c_str());
             return Status();
           }}};
}

std::string Usage(const std::map<std::string, Setter>& setters) {
  std::string usage = "usage: make_checkpoint <directory> [name=value ...]\nnames:";
  for (const auto& [name, setter] : setters) usage += " " + name;
  return usage;
}

Status Run(int argc, char** argv) {
  CheckpointOptions options;
  const std::map<std::string, Setter> setters = Setters(&options);
  const std::string directory = argc < 2 ? "" : argv[1];
  if (directory == "--help" || directory == "-h") {
    std::printf("%s\n", Usage(setters).c_str());
    return Status();
  }
  if (directory.empty() || directory.starts_with("-")) return InvalidArgument(Usage(setters));
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return InvalidArgument("no value: " + argument);
    const auto setter = setters.find(argument.substr(0, equals));
    if (setter == setters.end()) {
      return InvalidArgument("no option " + argument + "\n" + Usage(setters));
    }
    OUTRIDER_TRY(setter->second(argument.substr(equals + 1)));
  }
  return MakeCheckpoint(directory, options);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  const outrider::Status status = outrider::Run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
