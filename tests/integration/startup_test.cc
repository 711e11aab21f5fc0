// The messages and exit codes of programs that are started wrongly, and what the verifier reports
// about its model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/random_models.h"
#include "tests/support/services.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Process;
using testing::ProgramPath;
using testing::SmallPair;
using testing::TempDir;

class Startup : public ::testing::Test {
 protected:
  // The program's output; fails the test unless it ends with `code`.
  std::string Run(std::vector<std::string> argv, int code) {
    argv[0] = ProgramPath(argv[0]);
    const auto process = Process::Start(argv, dir_ / "program.log");
    EXPECT_EQ(process->Wait(), code) << ::testing::PrintToString(argv);
    return process->Log();
  }
  // Copies the default target, so that it can be changed.
  std::string CopyModel() {
    const std::string copy = dir_ / "model";
    std::filesystem::copy(SmallPair("target"), copy);
    return copy;
  }

  TempDir dir_;
  std::string log_;
};

TEST_F(Startup, NamesFlagsThatMissAnother) {
  const std::string target = SmallPair("target");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--http-model", "a"}, "need --http"},
      {{"--http-cors", "*"}, "need --http"},
      {{"--http-ignore-unknown"}, "need --http"},
      {{"--http-metrics", "false"}, "need --http"},
      {{"--draft-ahead-tokens", "8"}, "need --draft-model"},
      {{"--fp8-activations"}, "--fp8-activations needs a CUDA device, but --device is cpu"},
      {{"--fp8-activations", "--device", "cuda:0", "--weights", "f32"},
       "--fp8-activations needs activations in bf16"},
      {{"--store-shared", "--store-tokens", "0"}, "--store-shared needs --store-tokens"},
      {{"--trace-max-mb", "8"}, "--trace-max-mb requires --trace-file"},
      {{"--trace-sample-ratio", "0.5"}, "needs --trace-file or --trace-endpoint"}};
  for (const auto& [flags, message] : cases) {
    std::vector<std::string> command = {"outrider-verifier", "--model", target};
    command.insert(command.end(), flags.begin(), flags.end());
    EXPECT_THAT(Run(command, 2), HasSubstr(message));
  }
  EXPECT_THAT(Run({"outrider-drafter", "--model", target, "--verifier", "127.0.0.1:1",
                   "--tls-server-name", "v"},
                  2),
              HasSubstr("--tls-server-name needs --tls-ca"));
  EXPECT_THAT(Run({"outrider-drafter", "--model", target, "--verifier", "127.0.0.1:1", "--tls-cert",
                   "c.pem", "--tls-key", "k.pem"},
                  2),
              HasSubstr("--tls-cert needs --tls-ca"));
  EXPECT_THAT(Run({"outrider-drafter", "--model", target, "--verifier", "127.0.0.1:1",
                   "--collect-head-examples", "5"},
                  2),
              HasSubstr("--collect-head-examples needs --collect-head-data"));
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--listen", "unix:/tmp/outrider"}, 2),
              HasSubstr("--listen"));
}

TEST_F(Startup, NamesTheWordThatIsWrong) {
  const std::string target = SmallPair("target");
  EXPECT_THAT(Run({"outrider-verifier", "--modle", target}, 2),
              HasSubstr("unknown option --modle; did you mean --model?"));
  EXPECT_THAT(Run({"outrider-drafter", "--verifer", "127.0.0.1:1"}, 2),
              HasSubstr("unknown option --verifer; did you mean --verifier?"));
  EXPECT_THAT(Run({"outrider", "generate", "--promt", "a"}, 2),
              HasSubstr("unknown option --promt; did you mean --prompt?"));
  EXPECT_THAT(Run({"outrider", "frobnicate"}, 2), HasSubstr("unknown command 'frobnicate'"));
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--tool-parser", "hermess"}, 2),
              AllOf(HasSubstr("--tool-parser"), HasSubstr("hermes,llama3_json,pythonic")));
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--reasoning-parser", "r1"}, 2),
              AllOf(HasSubstr("--reasoning-parser"), HasSubstr("qwen3,deepseek_r1,mistral")));
  EXPECT_THAT(Run({"outrider-drafter", "--model", target, "--verifier", "127.0.0.1:1",
                   "--kv-cache-dtype", "fp4"},
                  2),
              AllOf(HasSubstr("--kv-cache-dtype"), HasSubstr("auto,bf16,f32,fp8")));
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--weights", "fp8"}, 2),
              HasSubstr("--weights: fp8 not in {bf16,f16,f32,int4,int8}"));
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--log-level", "warn"}, 2),
              HasSubstr("--log-level: warn not in {debug,error,info,warning}"));
  EXPECT_THAT(Run({"outrider", "bench", "--route", "any"}, 2),
              HasSubstr("--route: any not in {least-loaded,prefix,round-robin}"));
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--drain-timeout", "nan"}, 2),
              HasSubstr("--drain-timeout: 'nan' is not a number of 0 to 86400"));
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--stop-threshold", "nan"}, 2),
              HasSubstr("--stop-threshold: stop rule length: threshold nan"));
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--draft-threads", "2"}, 2),
              HasSubstr("need --draft-model"));
  EXPECT_THAT(Run({"outrider-drafter", "--model", target, "--verifier", "127.0.0.1:70000"}, 2),
              HasSubstr("a port is at most 65535"));
  EXPECT_THAT(Run({"outrider", "status", "--verifier", "127.0.0.1:70000"}, 2),
              HasSubstr("a port is at most 65535"));
  EXPECT_THAT(Run({"outrider-drafter", "--model", target, "--verifier", "127.0.0.1:1", "--name",
                   std::string(300, 'n')},
                  2),
              HasSubstr("--name"));
  std::ofstream(dir_ / "flags") << "model=" << target << "\nmax-sesions=4\n";
  EXPECT_THAT(Run({"outrider-verifier", "--config", dir_ / "flags"}, 2),
              HasSubstr("unknown key 'max-sesions'; did you mean max-sessions?"));
}

TEST_F(Startup, RefusesHalfOfHarmony) {
  EXPECT_THAT(Run({"outrider-verifier", "--model", SmallPair("target"), "--tool-parser", "openai",
                   "--reasoning-parser", "qwen3"},
                  1),
              HasSubstr("--tool-parser openai and --reasoning-parser qwen3"));
}

TEST_F(Startup, RefusesDevicesThatCannotShare) {
  const std::string target = SmallPair("target");
  const auto refusal = [&](const std::vector<std::string>& flags, int code) {
    std::vector<std::string> argv = {"outrider-verifier", "--model", target};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return Run(argv, code);
  };
  EXPECT_THAT(refusal({"--devices", "cpu,tpu"}, 2), HasSubstr("device \"tpu\": cpu or cuda:N"));
  EXPECT_THAT(refusal({"--devices", "cpu,0"}, 2), HasSubstr("all of them are CUDA devices"));
  EXPECT_THAT(refusal({"--devices", "1,cuda:1"}, 2), HasSubstr("names a device twice"));
  EXPECT_THAT(refusal({"--devices", "0,1", "--device", "cuda:2"}, 2),
              HasSubstr("give one of them"));
  EXPECT_THAT(refusal({"--devices", "cpu,cpu", "--threads", "2", "--cores", "0,1"}, 2),
              HasSubstr("--cores names 2 cores; with --devices and --threads 2 it takes 4"));
  EXPECT_THAT(refusal({"--devices", "cpu,cpu,cpu", "--listen", "127.0.0.1:0", "--metrics", ""}, 1),
              HasSubstr("--devices: 3 devices"));
}

// On one device, the model's cache would take the draft model's memory.
TEST_F(Startup, RefusesDraftModelsWithoutRoom) {
  const std::string target = SmallPair("target"), drafter = SmallPair("drafter");
  const std::vector<std::string> both = {"outrider-verifier", "--model", target, "--draft-model",
                                         drafter};
  const auto refusal = [&](const std::vector<std::string>& flags, int code) {
    std::vector<std::string> argv = both;
    argv.insert(argv.end(), flags.begin(), flags.end());
    return Run(argv, code);
  };
  const auto says =
      HasSubstr("give --kv-tokens, or a lower --memory-fraction and --draft-kv-tokens");
  EXPECT_THAT(refusal({"--device", "cuda:999", "--draft-device", "cuda:999"}, 2), says);
  EXPECT_THAT(refusal({"--devices", "998,999", "--draft-device", "cuda:999"}, 2), says);
  // Only the device is missing.
  for (const char* flag : {"--kv-tokens", "--draft-kv-tokens"}) {
    EXPECT_THAT(refusal({"--device", "cuda:999", "--draft-device", "cuda:999", flag, "4096",
                         "--listen", "127.0.0.1:0", "--metrics", ""},
                        1),
                ::testing::Not(says));
  }
  EXPECT_THAT(Run({"outrider-verifier", "--model", target, "--draft-kv-tokens", "64"}, 2),
              HasSubstr("need --draft-model"));
}

TEST_F(Startup, NamesWhatIsNoAddress) {
  const std::string target = SmallPair("target");
  for (const char* flag : {"--listen", "--http", "--metrics"}) {
    EXPECT_THAT(Run({"outrider-verifier", "--model", target, flag, "7300"}, 2),
                HasSubstr(std::string(flag) + ": '7300' is not host:port"));
  }
  const std::string scheme =
      "--verifier: 'http://127.0.0.1:7300': leave out the scheme http://, give host:port alone";
  EXPECT_THAT(
      Run({"outrider-drafter", "--model", target, "--verifier", "http://127.0.0.1:7300"}, 2),
      HasSubstr(scheme));
  EXPECT_THAT(Run({"outrider", "status", "--verifier", "http://127.0.0.1:7300"}, 2),
              HasSubstr(scheme));
}

TEST_F(Startup, FindsTakenPortsBeforeLoading) {
  const testing::VerifierProcess other =
      testing::StartVerifier(SmallPair("target"), dir_ / "other.log");
  ASSERT_NE(other.port, 0);
  const std::string taken = other.address();
  const std::string target = SmallPair("target");
  for (const std::string flag : {"--listen", "--http", "--metrics"}) {
    std::vector<std::string> argv = {"outrider-verifier", "--model", target};
    if (flag != "--listen") argv.insert(argv.end(), {"--listen", "127.0.0.1:0"});
    if (flag != "--metrics") argv.insert(argv.end(), {"--metrics", ""});
    argv.insert(argv.end(), {flag, taken});
    const std::string log = Run(argv, 1);
    EXPECT_THAT(log, HasSubstr("cannot listen on " + taken));
    EXPECT_THAT(log, HasSubstr("choose another " + flag));
    EXPECT_THAT(log, ::testing::Not(HasSubstr("loading model")));
  }
  const std::string log = Run(
      {"outrider-drafter", "--model", target, "--verifier", "127.0.0.1:1", "--metrics", taken}, 1);
  EXPECT_THAT(log, HasSubstr("choose another --metrics"));
  EXPECT_THAT(log, ::testing::Not(HasSubstr("loading model")));
}

TEST_F(Startup, SaysWhatIsNoModel) {
  EXPECT_THAT(Run({"outrider-verifier", "--model", "org/name"}, 1), HasSubstr("hf download"));
  EXPECT_THAT(Run({"outrider-drafter", "--model", "org/name", "--verifier", "127.0.0.1:1"}, 1),
              HasSubstr("hf download"));
  EXPECT_THAT(Run({"outrider", "train-head", "--drafter", "org/name", "--data", dir_ / "x"}, 1),
              HasSubstr("hf download"));
  // The architecture, not the tokenizer, is reported.
  const std::string model = CopyModel();
  nlohmann::json config = nlohmann::json::parse(std::ifstream(model + "/config.json"));
  config["architectures"] = {"MambaForCausalLM"};
  std::ofstream(model + "/config.json") << config.dump();
  std::ofstream(model + "/tokenizer.json") << "{}";
  EXPECT_THAT(Run({"outrider-verifier", "--model", model}, 1), HasSubstr("MambaForCausalLM"));
}

TEST_F(Startup, NeverWaitsForAFifo) {
  const std::string model = CopyModel();
  const std::string file = model + "/tokenizer_config.json";
  std::filesystem::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_THAT(Run({"outrider-verifier", "--model", model}, 1),
              AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("is a FIFO")));
  const std::string fifo = dir_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::string target = SmallPair("target");
  for (const char* flag : {"--client-tokens", "--trace-file"}) {
    EXPECT_THAT(Run({"outrider-verifier", "--model", target, flag, fifo}, 1), HasSubstr(fifo));
  }
  EXPECT_THAT(Run({"outrider-verifier", "--config", fifo}, 2), HasSubstr("is a FIFO"));
  EXPECT_THAT(
      Run({"outrider-drafter", "--model", SmallPair("drafter"), "--verifier", "file:" + fifo}, 2),
      HasSubstr("is a FIFO"));
}

// The memory of a model with a bf16 cache according to a row of docs/quantization.md's table: the
// sum of its numbers, without that for FP8 in the last column.
std::string MemoryInDocs(const std::string& model, const std::string& stored_as) {
  std::ifstream page(OUTRIDER_SOURCE_DIR "/docs/quantization.md");
  for (std::string row; std::getline(page, row);) {
    if (row.find("| " + model + " | " + stored_as) != 0) continue;
    row.erase(row.rfind('|', row.size() - 2));
    double sum = 0;
    const std::regex number(R"((\d+(\.\d+)?)(?= (GB|\+)))");
    for (std::sregex_iterator it(row.begin(), row.end(), number), end; it != end; ++it) {
      sum += std::stod(it->str());
    }
    std::ostringstream words;
    words << std::fixed << std::setprecision(1) << sum << " GB";
    return words.str();
  }
  return "no such row";
}

TEST_F(Startup, HelpSaysWhatModelsTake) {
  const std::string help = Run({"outrider-verifier", "--help"}, 0);
  const std::string big = MemoryInDocs("Llama 3.1 70B", "FP8");
  const std::string mixture = MemoryInDocs("Qwen 3 30B-A3B", "4 bits");
  const std::string small = MemoryInDocs("Llama 3.1 8B", "4 bits");
  const std::string made = MemoryInDocs("Llama 3.1 8B", "bf16, with `--weights int4`");
  EXPECT_THAT(help, ContainsRegex("70B +in FP8 +" + big));
  EXPECT_THAT(help, ContainsRegex("30B-A3B +in 4 bits +" + mixture));
  EXPECT_THAT(help, ContainsRegex("8B +in INT4 +" + small + " .--weights int4: " + made));
}

// generation_config.json applies to gRPC requests, too; and what the log says about the model.
TEST_F(Startup, LogsTheModelsDefaults) {
  const std::string model =
      testing::MakeRandomModel(dir_ / "made", {.vocab_size = 300, .dtype = Dtype::kF32});
  std::ofstream(model + "/generation_config.json") << R"({"temperature": 0, "max_new_tokens": 5})";
  std::ofstream(model + "/chat_template.jinja") << "\n{% new %}";  // prevents chats, not the start
  v1::GenerateRequest request;
  request.set_text("abc");
  request.mutable_stop()->set_ignore_eos(true);
  const auto texts = [&](const std::vector<std::string>& flags) {
    const auto verifier = testing::StartVerifier(model, dir_ / "verifier.log", flags);
    std::vector<std::vector<uint32_t>> tokens;
    testing::TestClient client(verifier.address());
    for (int i = 0; i < 2; ++i) tokens.push_back(client.Generate(request).tokens);
    log_ = verifier.process->Log();
    return tokens;
  };
  const auto greedy = texts({});
  EXPECT_EQ(greedy[0].size(), 5u);
  EXPECT_EQ(greedy[0], greedy[1]);
  EXPECT_THAT(log_, AllOf(HasSubstr("max_new_tokens=5"), HasSubstr("--weights f32 keeps them"),
                          HasSubstr("chats are refused: "), HasSubstr("line 2: '{% new %}'"),
                          HasSubstr("end_of_sequence_tokens=1:</s>")));
  request.mutable_stop()->set_max_tokens(40);
  const auto sampled = texts({"--generation-config", "none"});
  EXPECT_EQ(sampled[0].size(), 40u);
  EXPECT_NE(sampled[0], sampled[1]);
  const auto asked = texts({});
  EXPECT_EQ(asked[0].size(), 40u) << "the request's own";
  EXPECT_EQ(asked[0], asked[1]);
}

}  // namespace
}  // namespace outrider
