#include "client/flags.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/client/command.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The options of a command line that is right.
template <class Options>
Options Parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"outrider"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::istringstream in;
  std::ostringstream out;
  const auto parsed = ParseFlags(static_cast<int>(argv.size()), argv.data(),
                                 Console{.in = in, .out = out, .err = out});
  if (!std::holds_alternative<Command>(parsed)) {
    ADD_FAILURE() << out.str();
    return {};
  }
  return std::get<Options>(std::get<Command>(parsed));
}

TEST(Flags, WatchTakesATimeOrNone) {
  const auto seconds = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "status");
    return Parse<StatusOptions>(arguments).watch_seconds;
  };
  EXPECT_EQ(seconds({}), 0);
  EXPECT_EQ(seconds({"--watch"}), 2);
  EXPECT_EQ(seconds({"--watch", "--json"}), 2);
  EXPECT_EQ(seconds({"--watch", "0.5"}), 0.5);
  EXPECT_EQ(seconds({"--watch=7"}), 7);
  EXPECT_EQ(RunOutrider({"status", "--watch", "0.01"}).exit_code, 2);
}

TEST(Flags, EveryRequestFlagReachesTheOptions) {
  const auto options = Parse<GenerateOptions>({"generate",
                                               "--verifier",
                                               "h:1",
                                               "--allow-plaintext",
                                               "--prompt",
                                               "Once",
                                               "--max-tokens",
                                               "9",
                                               "--temperature",
                                               "0.5",
                                               "--top-p",
                                               "0.9",
                                               "--top-k",
                                               "40",
                                               "--min-p",
                                               "0.05",
                                               "--repetition-penalty",
                                               "1.5",
                                               "--presence-penalty",
                                               "-0.25",
                                               "--frequency-penalty",
                                               "0.75",
                                               "--stop",
                                               "END",
                                               "--stop",
                                               "[a,b]",
                                               "--ignore-eos",
                                               "--seed",
                                               "18446744073709551615",
                                               "--speculation",
                                               "off",
                                               "--rule",
                                               "spectr",
                                               "--paths",
                                               "3",
                                               "--draft-length",
                                               "6",
                                               "--stop-rule",
                                               "entropy",
                                               "--stop-threshold",
                                               "1.5",
                                               "--timeout",
                                               "2.5",
                                               "--json",
                                               "--show-drafts"});
  EXPECT_EQ(options.connection.verifier, "h:1");
  EXPECT_EQ(std::get<TextPrompt>(options.prompt).text, "Once");
  const RequestOptions& request = options.request;
  EXPECT_EQ(request.max_tokens, 9u);
  EXPECT_EQ(request.sampling.temperature(), 0.5f);
  EXPECT_EQ(request.sampling.top_p(), 0.9f);
  EXPECT_EQ(request.sampling.top_k(), 40u);
  EXPECT_EQ(request.sampling.min_p(), 0.05f);
  EXPECT_EQ(request.sampling.repetition_penalty(), 1.5f);
  EXPECT_EQ(request.sampling.presence_penalty(), -0.25f);
  EXPECT_EQ(request.sampling.frequency_penalty(), 0.75f);
  EXPECT_THAT(request.stop_strings, ElementsAre("END", "[a,b]"));
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.seed, 18446744073709551615u);
  EXPECT_FALSE(request.speculation);
  EXPECT_EQ(request.rule, Rule::kSpecTr);
  EXPECT_EQ(request.draft_length, 6u);
  EXPECT_EQ(request.paths, 3u);
  EXPECT_EQ(request.stop, (StopRule{.kind = StopRule::Kind::kEntropy, .threshold = 1.5f}));
  EXPECT_EQ(request.timeout_seconds, 2.5);
  EXPECT_TRUE(options.json);
  EXPECT_TRUE(options.show_drafts);
}

TEST(Flags, TreeExcludesLengthAndPaths) {
  const auto options = Parse<GenerateOptions>({"generate", "--prompt", "p", "--tree", "2,1"});
  EXPECT_THAT(options.request.tree, ElementsAre(2u, 1u));
  for (const char* other : {"--draft-length", "--paths"}) {
    const CommandResult both =
        RunOutrider({"generate", "--prompt", "p", "--tree", "2,1", other, "3"});
    EXPECT_EQ(both.exit_code, 2);
    EXPECT_THAT(both.err, ::testing::AllOf(HasSubstr("--tree"), HasSubstr(other)));
  }
}

TEST(Flags, DefaultsLeaveChoiceToServer) {
  unsetenv("OUTRIDER_VERIFIER");
  const auto options = Parse<GenerateOptions>({"generate", "--prompt", ""});
  EXPECT_EQ(options.connection.verifier, "127.0.0.1:7300");
  EXPECT_EQ(std::get<TextPrompt>(options.prompt).text, "");
  EXPECT_FALSE(options.request.max_tokens.has_value());
  EXPECT_FALSE(options.request.seed.has_value());
  EXPECT_FALSE(options.request.rule.has_value());
  EXPECT_FALSE(options.request.stop.has_value());
  EXPECT_TRUE(options.request.speculation);
  // Not the usual values: the model may have defaults of its own.
  EXPECT_EQ(options.request.sampling.ByteSizeLong(), 0u);
}

TEST(Flags, PromptMayBeTokensOrFile) {
  const auto tokens = Parse<GenerateOptions>({"generate", "--token-ids", "1,2,300"});
  EXPECT_THAT(std::get<TokenPrompt>(tokens.prompt).token_ids, ElementsAre(1u, 2u, 300u));
  const auto file = Parse<GenerateOptions>({"generate", "--prompt-file", "-"});
  EXPECT_EQ(std::get<FilePrompt>(file.prompt).path, "-");
}

TEST(Flags, FlagOverridesVerifierOfEnvironment) {
  setenv("OUTRIDER_VERIFIER", "env:1", 1);
  const auto verifier = [](std::vector<std::string> arguments) {
    arguments.emplace_back("--allow-plaintext");
    return Parse<StatusOptions>(arguments).connection.verifier;
  };
  EXPECT_EQ(verifier({"status"}), "env:1");
  EXPECT_EQ(verifier({"status", "--verifier", "flag:1"}), "flag:1");
  unsetenv("OUTRIDER_VERIFIER");
}

TEST(Flags, RemotePlaintextMustBeRequested) {
  const CommandResult plain = RunOutrider({"status", "--verifier", "h:1"});
  EXPECT_EQ(plain.exit_code, 2);
  EXPECT_THAT(plain.err, HasSubstr("--tls-ca"));
  EXPECT_THAT(plain.err, HasSubstr("--allow-plaintext"));
  const auto tls = Parse<StatusOptions>({"status", "--verifier", "h:1", "--tls-ca", "ca.pem",
                                         "--tls-cert", "c.pem", "--tls-key", "c.key",
                                         "--tls-server-name", "v", "--token-file", "t"});
  EXPECT_EQ(tls.connection.tls.ca, "ca.pem");
  EXPECT_EQ(tls.connection.tls.cert, "c.pem");
  EXPECT_EQ(tls.connection.tls.key, "c.key");
  EXPECT_EQ(tls.connection.tls_server_name, "v");
  EXPECT_EQ(tls.connection.token_file, "t");
}

TEST(Flags, EnvironmentHoldsToken) {
  setenv("OUTRIDER_TOKEN", "secret", 1);
  EXPECT_EQ(Parse<StatusOptions>({"status"}).connection.token, "secret");
  unsetenv("OUTRIDER_TOKEN");
  EXPECT_EQ(Parse<StatusOptions>({"status"}).connection.token, "");
}

TEST(Flags, UsageErrorsExitWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"fly"},
      {"generate"},
      {"generate", "--prompt", "a", "--token-ids", "1"},
      {"generate", "--prompt", "a", "--colour"},
      {"generate", "--prompt", "a", "--temperature", "-1"},
      {"generate", "--prompt", "a", "--temperature", "warm"},
      {"generate", "--prompt", "a", "--top-p", "1.5"},
      {"generate", "--prompt", "a", "--max-tokens", "-3"},
      {"generate", "--prompt", "a", "--speculation", "maybe"},
      {"generate", "--prompt", "a", "--rule", "guess"},
      {"generate", "--prompt", "a", "--stop-rule", "luck"},
      {"generate", "--prompt", "a", "--stop-threshold", "-1"},
      {"generate", "--prompt", "a", "--stop-threshold", "0.5"},  // of no rule
      {"generate", "--prompt", "a", "--stop-rule", "length", "--stop-threshold", "0.5"},
      {"generate", "--prompt", "a", "--temperature", "nan"},
      {"generate", "--prompt", "a", "--top-p", "nan"},
      {"generate", "--prompt", "a", "--timeout", "nan"},
      {"bench", "--prompts", "f", "--rate", "nan"},
      {"generate", "--token-ids", "1,x"},
      {"bench", "--requests", "3"},
      {"bench", "--prompts", "f", "--concurrency", "0"},
      {"bench", "--prompts", "f", "--route", "by-chance"},
      {"bench", "--prompts", "f", "--verifier", "127.0.0.1:1", "--verifier", "127.0.0.1:70000"},
      {"bench", "--prompts", "f", "--verifier", "a:1", "--verifier", "127.0.0.1:1"},  // plaintext
      {"bench", "--prompts", "f", "--verifier", "127.0.0.1:1", "--verifier", "127.0.0.1:1"},
      {"status", "--tls-ca", "ca.pem", "--tls-cert", "c.pem"},
      {"status", "--tls-cert", "c.pem", "--tls-key", "c.key"},
      {"status", "--tls-server-name", "v"},
      {"generate", "--prompt", "a", "--tls-server-name", "v"},
      {"bench", "--prompts", "f", "--tls-server-name", "v"},
      {"train-head", "--data", "d", "--drafter", "m", "--prompts", "p", "--tls-server-name", "v"},
  };
  for (const auto& arguments : wrong) {
    const CommandResult result = RunOutrider(arguments);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(arguments);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err, "");
  }
}

TEST(Flags, BenchTakesSeveralVerifiers) {
  const auto one = Parse<BenchOptions>({"bench", "--prompts", "f"});
  EXPECT_THAT(one.verifiers, ElementsAre("127.0.0.1:7300"));
  EXPECT_EQ(one.route, RoutePolicy::kPrefix);
  const auto three = Parse<BenchOptions>({"bench", "--verifier", "127.0.0.1:1", "--verifier",
                                          "127.0.0.1:2", "--prompts", "f", "--verifier",
                                          "localhost:3", "--route", "least-loaded"});
  EXPECT_THAT(three.verifiers, ElementsAre("127.0.0.1:1", "127.0.0.1:2", "localhost:3"));
  EXPECT_EQ(three.route, RoutePolicy::kLeastLoaded);
}

TEST(Flags, HelpIsNoError) {
  for (const char* command : {"generate", "bench", "status"}) {
    const CommandResult result = RunOutrider({command, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("--verifier"));
    EXPECT_EQ(result.err, "");
  }
  EXPECT_EQ(RunOutrider({"--help"}).exit_code, 0);
}

TEST(Flags, LostOutputIsAnError) {
  const std::vector<const char*> argv = {"outrider", "--help"};
  std::istringstream in;
  std::ofstream out("/dev/full");
  std::ostringstream err;
  const Console console{.in = in, .out = out, .err = err};
  EXPECT_EQ(RunCommandLine(static_cast<int>(argv.size()), argv.data(), console), 1);
  EXPECT_THAT(err.str(), HasSubstr("the output could not be written"));
}

TEST(Flags, TrainHeadTakesCollectionFlags) {
  const auto options = Parse<TrainHeadOptions>(
      {"train-head", "--data",        "d",           "--drafter",      "m",  "--prompts",
       "p",          "--verifier",    "localhost:9", "--examples",     "77", "--concurrency",
       "3",          "--temperature", "0.5",         "--draft-length", "5",  "--max-tokens",
       "9",          "--seed",        "4",           "--depth",        "2"});
  EXPECT_EQ(options.data, "d");
  EXPECT_EQ(options.drafter, "m");
  EXPECT_EQ(options.prompts, "p");
  EXPECT_EQ(options.connection.verifier, "localhost:9");
  EXPECT_EQ(options.examples, 77u);
  EXPECT_EQ(options.concurrency, 3);
  EXPECT_EQ(options.sampling.temperature, 0.5f);
  EXPECT_EQ(options.draft_length, 5u);
  EXPECT_EQ(options.max_tokens, 9u);
  EXPECT_EQ(options.training.seed, 4u);
  EXPECT_EQ(options.training.depth, 2);
  EXPECT_EQ(Parse<TrainHeadOptions>({"train-head", "--data", "d", "--drafter", "m"}).prompts, "");
}

TEST(Flags, TrainHeadTextFlagsNeedPrompts) {
  unsetenv("OUTRIDER_VERIFIER");
  const std::vector<std::string> offline = {"train-head", "--data", "d", "--drafter", "m"};
  const std::vector<std::vector<std::string>> text_flags = {
      {"--examples", "9"},     {"--concurrency", "2"},          {"--max-tokens", "9"},
      {"--draft-length", "4"}, {"--temperature", "1"},          {"--top-p", "0.9"},
      {"--top-k", "9"},        {"--tls-ca", "ca.pem"},          {"--tls-cert", "c.pem"},
      {"--tls-key", "c.key"},  {"--token-file", "t"},           {"--tls-server-name", "v"},
      {"--allow-plaintext"},   {"--verifier", "127.0.0.1:7300"}};
  for (const std::vector<std::string>& flag : text_flags) {
    std::vector<std::string> arguments = offline;
    arguments.insert(arguments.end(), flag.begin(), flag.end());
    const CommandResult result = RunOutrider(arguments);
    EXPECT_EQ(result.exit_code, 2) << flag.front();
    EXPECT_THAT(result.err, HasSubstr(flag.front() + " needs --prompts"));
  }
}

TEST(Flags, OfflineTrainingIgnoresVerifierOfEnvironment) {
  const std::vector<std::string> offline = {"train-head", "--data", "d", "--drafter", "m"};
  std::vector<std::string> online = offline;
  online.insert(online.end(), {"--prompts", "p"});
  setenv("OUTRIDER_VERIFIER", "remote:7300", 1);
  setenv("OUTRIDER_TLS_CERT", "c.pem", 1);
  EXPECT_EQ(Parse<TrainHeadOptions>(offline).data, "d");
  const CommandResult both = RunOutrider(online);
  unsetenv("OUTRIDER_TLS_CERT");
  const CommandResult plaintext = RunOutrider(online);
  unsetenv("OUTRIDER_VERIFIER");
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("--tls-key"));
  EXPECT_EQ(plaintext.exit_code, 2);
  EXPECT_THAT(plaintext.err, HasSubstr("--tls-ca"));
}

}  // namespace
}  // namespace outrider
