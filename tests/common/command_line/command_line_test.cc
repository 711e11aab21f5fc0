#include "common/command_line/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A program with everything that our programs have: flags, flag groups, commands, a flag file.
class CommandLine : public ::testing::Test {
 protected:
  // The exit code; -1: there was no error.
  int Parse(std::vector<const char*> arguments) {
    CLI::App app("A program", "program");
    AddConfigFlag(app);
    app.add_option("--port", port_)->check(CLI::Range(1, 9));
    app.add_option("--share", share_)->check(Between(0, 1));
    app.add_option("--weight", weight_)->check(AtLeast(0));
    app.add_option("--seed", seed_);
    app.add_option("--count", count_);
    app.add_option("--ids", ids_)->delimiter(',')->allow_extra_args(false);
    CLI::App* run = app.add_subcommand("run", "");
    CLI::Option_group* group = run->add_option_group("Prompt", "One of these");
    std::string ignored;
    group->add_option("--prompt", ignored);
    group->add_option("--prompt-file", ignored);
    group->require_option(1);
    CLI::App* status = app.add_subcommand("status", "");
    status->add_option_function<uint32_t>("--limit", [](uint32_t /*value*/) {});
    if (commands_required_) app.require_subcommand(1);
    arguments.insert(arguments.begin(), "program");
    std::ostringstream out, err;
    const auto code = ParseCommandLine(app, static_cast<int>(arguments.size()), arguments.data(),
                                       out, err, [this] { return checked_; });
    out_ = out.str();
    err_ = err.str();
    return code.value_or(-1);
  }
  // Parses a flag file with this text.
  int ParseFile(const std::string& text) {
    commands_required_ = false;
    const testing::TempDir dir;
    const std::string path = dir / "flags.conf";
    std::ofstream(path) << text;
    const int code = Parse({"--config", path.c_str()});
    return code;
  }

  bool commands_required_ = true;
  Status checked_;
  int port_ = 1;
  double share_ = 0, weight_ = 0;
  std::optional<uint64_t> seed_;
  int count_ = 0;
  std::vector<uint32_t> ids_;
  std::string out_, err_;
};

TEST_F(CommandLine, NamesUnknownWordsAndTheNearest) {
  EXPECT_EQ(Parse({"run", "--promt", "Once"}), 2);
  EXPECT_THAT(err_, HasSubstr("unknown option --promt; did you mean --prompt?")) << err_;
  EXPECT_EQ(Parse({"run", "--promptfile=x"}), 2);
  EXPECT_THAT(err_, HasSubstr("--promptfile; did you mean --prompt-file?")) << err_;
  EXPECT_EQ(Parse({"--prot", "3", "run", "--prompt", "a"}), 2);
  EXPECT_THAT(err_, HasSubstr("--prot; did you mean --port?")) << err_;
  EXPECT_EQ(Parse({"frobnicate"}), 2);
  EXPECT_THAT(err_, HasSubstr("unknown command 'frobnicate'; there are run, status")) << err_;
  EXPECT_EQ(Parse({"sttaus"}), 2);
  EXPECT_THAT(err_, HasSubstr("unknown command 'sttaus'; did you mean status?")) << err_;
  EXPECT_EQ(Parse({"run", "--prompt", "a", "b"}), 2);
  EXPECT_THAT(err_, HasSubstr("unexpected argument 'b'")) << err_;
  EXPECT_EQ(Parse({"run", "--", "\x1b[31m"}), 2);
  EXPECT_THAT(err_, Not(HasSubstr("\x1b"))) << err_;
}

TEST_F(CommandLine, NamesMissingArguments) {
  EXPECT_EQ(Parse({"run"}), 2);
  EXPECT_THAT(err_, HasSubstr("--prompt")) << err_;
  EXPECT_EQ(Parse({}), 2);
  EXPECT_THAT(err_, HasSubstr("subcommand")) << err_;
  checked_ = InvalidArgument("two flags exclude each other");
  EXPECT_EQ(Parse({"status"}), 2);
  EXPECT_THAT(err_, HasSubstr("two flags exclude each other")) << err_;
  EXPECT_EQ(Parse({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("--share"));
}

TEST_F(CommandLine, EmptyValueLeavesTheNextWord) {
  EXPECT_EQ(Parse({"run", "--prompt="}), -1) << err_;
  EXPECT_EQ(Parse({"run", "--prompt=", "--prompt-file=x"}), 2) << "taken for the prompt";
  EXPECT_EQ(Parse({"run", "--prompt=", "b"}), 2);
  EXPECT_THAT(err_, HasSubstr("unexpected argument 'b'")) << err_;
  EXPECT_EQ(Parse({"--share=", "status"}), 2);
  EXPECT_THAT(err_, HasSubstr("'' is not a number of 0 to 1")) << err_;
  EXPECT_EQ(Parse({"--prot=", "status"}), 2);
  EXPECT_THAT(err_, HasSubstr("--prot; did you mean --port?")) << err_;
}

TEST(CheckWritten, FailsIfOutputWasLost) {
  std::ostringstream out, err;
  out << "text";
  EXPECT_EQ(CheckWritten(0, out, err), 0);
  EXPECT_EQ(CheckWritten(130, out, err), 130);
  EXPECT_EQ(err.str(), "");
  std::ofstream full("/dev/full");
  full << "text";
  EXPECT_EQ(CheckWritten(0, full, err), 1);
  EXPECT_THAT(err.str(), HasSubstr("the output could not be written"));
  EXPECT_EQ(CheckWritten(130, full, err), 130);
}

TEST_F(CommandLine, NumbersAreFiniteAndInRange) {
  EXPECT_EQ(Parse({"--share", "0.5", "--weight", "7", "status"}), -1) << err_;
  EXPECT_EQ(share_, 0.5);
  for (const char* bad : {"nan", "-nan", "inf", "-0.1", "1.5", "1e400", "half", ""}) {
    EXPECT_EQ(Parse({"--share", bad, "status"}), 2) << bad;
    EXPECT_THAT(err_, HasSubstr("is not a number of 0 to 1")) << err_;
  }
  for (const char* bad : {"nan", "inf", "-1"}) {
    EXPECT_EQ(Parse({"--weight", bad, "status"}), 2) << bad;
    EXPECT_THAT(err_,
                HasSubstr("--weight: '" + std::string(bad) + "' is not a number of at least 0"));
    EXPECT_LT(err_.size(), 120u) << err_;
  }
}

TEST_F(CommandLine, IntegersAreWholeAndFit) {
  EXPECT_EQ(Parse({"--seed", "18446744073709551615", "--port", "010", "--count=-7", "status"}), 2)
      << "010 is ten, not eight";
  EXPECT_THAT(err_, HasSubstr("--port: Value 10 not in range 1 to 9"));
  EXPECT_EQ(Parse({"--seed", "18446744073709551615", "--count=-7", "status"}), -1) << err_;
  EXPECT_EQ(seed_, 18446744073709551615u);
  EXPECT_EQ(count_, -7);
  for (const char* bad : {"", "-1", "+1", "0x10", "1.0", "1e3", " 1", "1 ", "one"}) {
    EXPECT_EQ(Parse({"--seed", bad, "status"}), 2) << bad;
    EXPECT_THAT(err_,
                HasSubstr("--seed: '" + std::string(bad) + "' is not an integer of at least 0"));
    EXPECT_EQ(Parse({"status", "--limit", bad}), 2) << bad;
    EXPECT_THAT(err_, HasSubstr("' is not an integer of at least 0")) << err_;
  }
  EXPECT_EQ(Parse({"--count=", "status"}), 2);
  EXPECT_THAT(err_, HasSubstr("--count: '' is not an integer"));
  for (const char* option : {"--seed", "--count", "--ids"}) {
    EXPECT_EQ(Parse({option, "99999999999999999999999", "status"}), 2);
    EXPECT_THAT(err_, HasSubstr("'99999999999999999999999' does not fit in 64 bits")) << err_;
  }
  EXPECT_EQ(Parse({"--count", "99999999999", "status"}), 2) << "it has 32 bits";
  EXPECT_THAT(err_, HasSubstr("--count = 99999999999"));
  EXPECT_EQ(ParseFile("seed=0x10\n"), 2);
  EXPECT_THAT(err_, HasSubstr("'0x10' is not an integer")) << err_;
}

TEST_F(CommandLine, EachElementIsAnInteger) {
  EXPECT_EQ(Parse({"--ids", "1,2,03", "status"}), -1) << err_;
  EXPECT_THAT(ids_, ElementsAre(1, 2, 3));
  for (const char* bad : {"1,,3", ",1", "1,", ","}) {
    EXPECT_EQ(Parse({"--ids", bad, "status"}), 2) << bad;
    EXPECT_THAT(err_, HasSubstr("--ids: '" + std::string(bad) + "' has an empty element"));
    EXPECT_EQ(Parse({("--ids=" + std::string(bad)).c_str(), "status"}), 2) << bad;
    EXPECT_THAT(err_, HasSubstr("has an empty element"));
  }
  EXPECT_EQ(ParseFile("ids=1,,3\n"), 2);
  EXPECT_THAT(err_, HasSubstr("'' is not an integer")) << err_;
  for (const char* bad : {"", "1,x", "1,-2"}) {
    EXPECT_EQ(Parse({"--ids", bad, "status"}), 2) << bad;
    EXPECT_THAT(err_, HasSubstr("is not an integer of at least 0")) << err_;
  }
  EXPECT_EQ(Parse({"--ids=", "status"}), 2);
  EXPECT_THAT(err_, HasSubstr("'' is not an integer")) << err_;
}

TEST_F(CommandLine, FlagFilesHoldKnownKeysOnce) {
  EXPECT_EQ(ParseFile("# a comment\nport=4\nshare=0.25\n"), -1) << err_;
  EXPECT_EQ(port_, 4);
  EXPECT_EQ(share_, 0.25);
  EXPECT_EQ(ParseFile("prot=4\n"), 2);
  EXPECT_THAT(err_, HasSubstr("--config: unknown key 'prot'; did you mean port?")) << err_;
  EXPECT_EQ(ParseFile("a.port=4\n"), 2) << "it would be dropped";
  EXPECT_THAT(err_, HasSubstr("--config: unknown key 'a.port'; did you mean port?")) << err_;
  EXPECT_EQ(ParseFile("port=4\nport=5\n"), 2);
  EXPECT_THAT(err_, HasSubstr("--port")) << err_;
  EXPECT_EQ(ParseFile("[run]\nprompt=a\n"), 2);
  EXPECT_THAT(err_, HasSubstr("no sections")) << err_;
  EXPECT_EQ(ParseFile("port=6 # a comment\n\n; and one\n"), -1) << err_;
  EXPECT_EQ(port_, 6);
  for (const char* cut : {"prompt=a#b\n", "prompt=\"a # b\"\n"}) {
    EXPECT_EQ(ParseFile(cut), 2) << cut;
    EXPECT_THAT(err_, HasSubstr("cannot hold '#'")) << err_;
  }
  EXPECT_EQ(ParseFile("port=4\nshare=0.5\nport=5\n"), 2);
  EXPECT_THAT(err_, HasSubstr("'port' is there twice")) << err_;
  EXPECT_EQ(ParseFile("[default]\nport=4\n"), 2);
  EXPECT_THAT(err_, HasSubstr("no sections")) << err_;
  EXPECT_EQ(ParseFile("share=[0.5\nport=4\n"), 2) << "as a list it would take the next lines";
  EXPECT_THAT(err_, HasSubstr("in quotes")) << err_;
  for (const char* skipped : {"=5\n", "=port\n", "p\n"}) {
    EXPECT_EQ(ParseFile(skipped), 2) << skipped;
    EXPECT_THAT(err_, HasSubstr("not of the form flag=value")) << err_;
  }
  EXPECT_EQ(ParseFile("share=nan\n"), 2);
  EXPECT_THAT(err_, HasSubstr("is not a number of 0 to 1")) << err_;
  commands_required_ = false;
  EXPECT_EQ(Parse({"--config", "/dev/zero"}), 2);
  EXPECT_THAT(err_, HasSubstr("not a regular file")) << err_;
}

TEST(Nearest, CountsSwappedNeighboursOnce) {
  EXPECT_EQ(Nearest("prot", {"part", "port"}), "port");
  EXPECT_EQ(Nearest("weigths", {"threads", "weights"}), "weights");
  EXPECT_EQ(Nearest("frobnicate", {"generate", "bench", "status"}), "");
  EXPECT_EQ(Nearest("x", {"a", "b"}), "");
  EXPECT_EQ(Nearest(std::string(1 << 20, 'a'), {"a"}), "");
}

}  // namespace
}  // namespace outrider
