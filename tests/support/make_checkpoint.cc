// make_checkpoint <directory> [name=value ...] writes a small random model; see checkpoint_maker.h.
//   make_checkpoint /tmp/target family=qwen3 layers=4 hidden=128 vocab=512 tokenizer=1
//   make_checkpoint /tmp/quantized stored=awq tokenizer=1
//   make_checkpoint /tmp/mixture family=mixtral experts=8 top_k=2 expert_size=96 tokenizer=1
//   make_checkpoint /tmp/drafter family=qwen3 layers=4 hidden=128 vocab=512 tokenizer=1 noise=0.3

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/support/checkpoint_maker.h"

namespace outrider {
namespace {

Status Set(const std::string& name, const std::string& value, CheckpointOptions* options) {
  const std::map<std::string, int*> integers = {{"vocab", &options->vocab_size},
                                                {"hidden", &options->hidden_size},
                                                {"intermediate", &options->intermediate_size},
                                                {"layers", &options->num_layers},
                                                {"heads", &options->num_heads},
                                                {"kv_heads", &options->num_kv_heads},
                                                {"head_dim", &options->head_dim},
                                                {"positions", &options->max_position_embeddings},
                                                {"window", &options->sliding_window},
                                                {"experts", &options->num_experts},
                                                {"top_k", &options->experts_per_token},
                                                {"expert_size", &options->expert_size},
                                                {"shards", &options->shards}};
  if (const auto found = integers.find(name); found != integers.end()) {
    *found->second = std::atoi(value.c_str());
  } else if (name == "family") {
    OUTRIDER_ASSIGN(options->family, ParseFamily(value));
  } else if (name == "tied") {
    options->tied_embeddings = value == "1";
  } else if (name == "attention_bias") {
    options->attention_bias = value == "1";
  } else if (name == "mlp_bias") {
    options->mlp_bias = value == "1";
  } else if (name == "rope_parameters") {
    options->rope_parameters = value == "1";
  } else if (name == "config") {
    options->config = value;
  } else if (name == "tokenizer") {
    options->tokenizer = value == "1";
  } else if (name == "dtype" && (value == "f32" || value == "f16" || value == "bf16")) {
    options->dtype = value == "f32" ? Dtype::kF32 : value == "f16" ? Dtype::kF16 : Dtype::kBf16;
  } else if (name == "stored") {
    OUTRIDER_ASSIGN(options->stored_as, ParseStoredAs(value));
  } else if (name == "seed") {
    options->seed = std::strtoull(value.c_str(), nullptr, 10);
  } else if (name == "noise") {
    options->noise = std::atof(value.c_str());
  } else {
    return InvalidArgument("no option " + name + "=" + value);
  }
  return Status();
}

Status Run(int argc, char** argv) {
  if (argc < 2) return InvalidArgument("usage: make_checkpoint <directory> [name=value ...]");
  CheckpointOptions options;
  for (int i = 2; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return InvalidArgument("no value: " + argument);
    OUTRIDER_TRY(Set(argument.substr(0, equals), argument.substr(equals + 1), &options));
  }
  return MakeCheckpoint(argv[1], options);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  const outrider::Status status = outrider::Run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
