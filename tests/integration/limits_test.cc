// Walks the tables of docs/limits.md: every row is tried at its limit and above it against a
// running verifier, which must answer with the row's error; if that is all that can be done, only
// above it, or by another test.
//
// A row without a case fails the test, and so does a case without a row. To add a row:
//  1. Write it into the table of its port (a second-level heading). The first column names the
//     input and is the row's key, together with the heading. The column "Limit" begins with the
//     number, if there is one (`8 KiB`, `10 s`, `256`, `2^20`). The column "Error"
//     has what the peer sees in backticks, or is just that; if empty, it is INVALID_ARGUMENT. The
//     file in "Enforced in" and the flags in "Flag" must exist.
//  2. Add a case with that key to the cases of its port, in limits_http_cases.cc,
//     limits_grpc_cases.cc, limits_service_cases.cc or below. A `Try` gets the limit as stated in
//     the table (in bytes, milliseconds or pieces), makes an input of that size and returns what
//     the peer saw: "OK", the name of a gRPC code, an HTTP code, "closed" ... It is called twice:
//     with the limit, which must not be answered with the row's error, and with the limit + 1,
//     which must be. If the size cannot be exact, or the limit is not a number, use an `Only`: it
//     is called once, with the limit + 1. For a limit that takes too long to reach from outside,
//     name the test that checks it (`HeldBy`).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "tests/integration/limits_cases.h"
#include "tests/integration/random_models.h"

namespace outrider::limits {
namespace {

using ::testing::HasSubstr;
using testing::Process;
using testing::ProgramPath;
using testing::SourcePath;
using testing::StartVerifier;

struct Row {
  std::string key;  // "Heading: input"
  std::string limit_text;
  std::optional<int64_t> limit;  // bytes, milliseconds or pieces
  std::string enforced_in;
  std::string error;  // what the peer sees
  std::vector<std::string> flags;
};

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line.substr(1));
  for (std::string cell; std::getline(in, cell, '|');) cells.push_back(Trimmed(cell));
  return cells;
}

std::vector<std::string> Quoted(const std::string& cell) {
  static const std::regex quoted("`([^`]*)`");
  std::vector<std::string> all;
  for (std::sregex_iterator it(cell.begin(), cell.end(), quoted), end; it != end; ++it) {
    all.push_back((*it)[1]);
  }
  return all;
}

// The number at the beginning of a cell, and its unit.
std::optional<int64_t> NumberOf(const std::string& cell) {
  if (cell.starts_with("2^")) return int64_t{1} << std::stoi(cell.substr(2));
  static const std::regex number("^([0-9][0-9,]*)( (KiB|MiB|GiB|s)\\b)?.*");
  static const std::map<std::string, int64_t> units = {
      {"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"s", 1000}};
  std::smatch match;
  if (!std::regex_match(cell, match, number)) return std::nullopt;
  std::string digits = match[1];
  std::erase(digits, ',');
  return std::stoll(digits) * units.at(match[3]);
}

std::vector<Row> ReadRows() {
  std::ifstream page(SourcePath("docs/limits.md"));
  std::vector<Row> rows;
  std::string heading;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) heading = line.substr(3);
    const bool row = line.starts_with("| ") && !line.starts_with("| Input | Limit | Enforced in |");
    if (!row) continue;
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() != 5) {
      ADD_FAILURE() << "a row of five cells: " << line;
      continue;
    }
    const std::vector<std::string> errors = Quoted(cells[3]);
    rows.push_back({.key = heading + ": " + cells[0],
                    .limit_text = cells[1],
                    .limit = NumberOf(cells[1]),
                    .enforced_in = cells[2],
                    .error = !errors.empty()    ? errors.front()
                             : cells[3].empty() ? "INVALID_ARGUMENT"
                                                : cells[3],
                    .flags = Quoted(cells[4])});
  }
  return rows;
}

// How a verifier ends whose model has these files, of that size each: zeros follow their contents.
std::string StartWith(Target& target, const std::vector<std::string>& files, int64_t bytes) {
  std::string end;
  for (const std::string& file : files) {
    const testing::TempDir dir;
    const std::string model = dir / "model";
    std::filesystem::copy(target.model, model);
    // Which is read instead of the other.
    if (file == "tokenizer.model") std::filesystem::remove(model + "/tokenizer.json");
    std::ofstream(model + "/" + file, std::ios::app).flush();
    std::filesystem::resize_file(model + "/" + file, static_cast<uintmax_t>(bytes));
    const auto verifier = Process::Start({ProgramPath("outrider-verifier"), "--model", model,
                                          "--listen", "127.0.0.1:0", "--metrics", ""},
                                         dir / "verifier.log");
    EXPECT_EQ(verifier->Wait(), 1) << file;
    const std::string log = verifier->Log();
    const bool refused =
        log.find(file + ": " + std::to_string(bytes) + " bytes, at most ") != log.npos;
    if (end.empty()) end = refused ? "refused" : "read";
    EXPECT_EQ(end, refused ? "refused" : "read") << file << ": " << log;
  }
  return end;
}

constexpr char kGgufTest[] = "tests/common/gguf/gguf_file_test.cc";
constexpr char kGgufTokenizerTest[] = "tests/common/text/gguf_tokenizer_test.cc";
const Cases kModelFileCases = {
    {"bytes of `config.json` and of `generation_config.json`",
     Try{[](Target& target, int64_t bytes) {
       return StartWith(target, {"config.json", "generation_config.json"}, bytes);
     }}},
    {"bytes of `tokenizer.json`, of `tokenizer.model` and of `tokenizer_config.json`",
     Try{[](Target& target, int64_t bytes) {
       return StartWith(target, {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"},
                        bytes);
     }}},
    {"safetensors: bytes of a header, and of the index of several files",
     HeldBy{"tests/common/model/safetensors_test.cc", "RefusesCorruptFiles"}},
    {"GGUF: pairs of metadata", HeldBy{kGgufTest, "IsRefusedByFileAndFault"}},
    {"GGUF: tensors", HeldBy{kGgufTest, "IsRefusedByFileAndFault"}},
    {"GGUF: counts, lengths, shapes and offsets", HeldBy{kGgufTest, "IsRefusedByFileAndFault"}},
    {"GGUF: tokens", HeldBy{kGgufTokenizerTest, "RefusesListsThatDoNotFit"}},
    {"Unigram and WordPiece: bytes of a token",
     HeldBy{"tests/common/text/tokenizer_json_test.cc", "RefusesTooLongTokens"}},
    {"bytes of an added token, also when normalized",
     HeldBy{"tests/common/text/tokenizer_json_test.cc", "ContentsOfAddedTokensAreLimited"}},
    {"SentencePiece: bytes of a piece", HeldBy{kGgufTokenizerTest, "RefusesListsThatDoNotFit"}},
    {"SentencePiece: merges that follow from scores",
     HeldBy{kGgufTokenizerTest, "RefusesListsThatDoNotFit"}},
};

Cases AllCases() {
  const std::map<std::string, const Cases*> ports = {
      {"HTTP", &HttpCases()},
      {"gRPC", &GrpcCases()},
      {"Metrics and status", &MetricsCases()},
      {"Connections and streams", &ConnectionCases()},
      {"Logs", &LogCases()},
      {"Trace collectors", &CollectorCases()},
      {"Model files", &kModelFileCases},
  };
  Cases all;
  for (const auto& [heading, cases] : ports) {
    for (const auto& [input, one] : *cases) all.emplace(heading + ": " + input, one);
  }
  return all;
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void CheckRow(const Row& row, const Case& one, Target& target) {
  SCOPED_TRACE(row.key);
  if (const auto* held = std::get_if<HeldBy>(&one)) {
    EXPECT_THAT(ReadAll(SourcePath(held->file)), HasSubstr(", " + held->test + ")"));
    return;
  }
  if (const auto* tried = std::get_if<Try>(&one)) {
    ASSERT_TRUE(row.limit.has_value()) << "no number in '" << row.limit_text << "'";
    EXPECT_NE(tried->ask(target, *row.limit), row.error) << "at the limit";
    EXPECT_EQ(tried->ask(target, *row.limit + 1), row.error) << "above the limit";
    return;
  }
  EXPECT_EQ(std::get<Only>(one).ask(target, row.limit.value_or(0) + 1), row.error);
}

TEST(Limits, EveryRowOfTheTablesHolds) {
  Target target;
  target.model = testing::MakeRandomModel(target.dir / "model");
  target.verifier = StartVerifier(target.model, target.dir / "verifier.log",
                                  {"--http", "127.0.0.1:0", "--log-json"});
  ASSERT_NE(target.verifier.port, 0);

  const auto help =
      Process::Start({ProgramPath("outrider-verifier"), "--help"}, target.dir / "help");
  EXPECT_EQ(help->Wait(), 0);
  Cases cases = AllCases();
  const std::vector<Row> rows = ReadRows();
  ASSERT_GT(rows.size(), 10u);
  for (const Row& row : rows) {
    EXPECT_TRUE(std::filesystem::exists(SourcePath(row.enforced_in))) << row.key;
    for (const std::string& flag : row.flags) EXPECT_THAT(help->Log(), HasSubstr(flag)) << row.key;
    const auto found = cases.find(row.key);
    if (found == cases.end()) {
      ADD_FAILURE() << "no case for the row '" << row.key << "'";
      continue;
    }
    CheckRow(row, found->second, target);
    cases.erase(found);
  }
  for (const auto& [key, one] : cases) ADD_FAILURE() << "no row for the case '" << key << "'";

  // Whatever the input, the log is JSON: no line comes from a library or contains part of a peer's
  // name.
  std::istringstream log(target.verifier.process->Log());
  for (std::string line; std::getline(log, line);) {
    EXPECT_TRUE(nlohmann::json::accept(line)) << line;
  }
}

}  // namespace

}  // namespace outrider::limits
