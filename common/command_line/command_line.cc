#include "common/command_line/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/input_file.h"
#include "common/base/printable.h"
#include "common/base/short_number.h"

namespace outrider {
namespace {

constexpr int kBadUsage = 2;

// A word of the command line, for an error message.
std::string Shown(std::string_view word) { return Printable(word, 60); }

// `range`: "at least 0".
template <class Holds>
CLI::Validator NumberCheck(const std::string& range, Holds holds) {
  const auto check = [range, holds](const std::string& input) -> std::string {
    double number = 0;
    if (CLI::detail::lexical_cast(input, number) && std::isfinite(number) && holds(number)) {
      return "";
    }
    return "'" + Shown(input) + "' is not a number of " + range;
  };
  return CLI::Validator([check](std::string& input) { return check(input); }, range);
}

// Whether the option takes integers, and whether also negative ones: CLI11's names of their types,
// before what the option's checks add to them.
bool TakesUnsigned(const CLI::Option& option) { return option.get_type_name().starts_with("UINT"); }
bool TakesIntegers(const CLI::Option& option) {
  return TakesUnsigned(option) || option.get_type_name().starts_with("INT");
}

// Checks a word and rewrites it in plain digits; returns what is wrong, or "". CLI11 alone takes ""
// for 0 or for no value, the largest integer for a larger one and 2^64 - 1 for -1, and reads 010 as
// octal.
template <class Integer>
std::string ReadInteger(std::string& input) {
  Integer number = 0;
  const char* const end = input.data() + input.size();
  const auto [rest, error] = std::from_chars(input.data(), end, number);
  if (error == std::errc::result_out_of_range) {
    return "'" + Shown(input) + "' does not fit in 64 bits; give a smaller number";
  }
  if (error != std::errc() || rest != end) {
    return "'" + Shown(input) + "' is not an integer" +
           (std::is_unsigned_v<Integer> ? " of at least 0" : "");
  }
  input = std::to_string(number);
  return "";
}

// Makes the integers of all options of `app`, its groups and its commands strict.
void CheckIntegers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!TakesIntegers(*option)) continue;
    option->transform(
        CLI::Validator(TakesUnsigned(*option) ? ReadInteger<uint64_t> : ReadInteger<int64_t>, ""));
  }
  for (CLI::App* more : app.get_subcommands([](CLI::App* /*any*/) { return true; })) {
    CheckIntegers(*more);
  }
}

// CLI11 drops the empty elements of 1,,3.
void CheckElements(const CLI::Option* option, std::string_view list) {
  if (option == nullptr || !TakesIntegers(*option) || option->get_delimiter() != ',') return;
  if (!list.starts_with(',') && !list.ends_with(',') && list.find(",,") == list.npos) return;
  throw CLI::ValidationError(option->get_name(),
                             "'" + Shown(list) + "' has an empty element; give a number for each");
}

// Optimal string alignment distance (Damerau-Levenshtein, no substring edited twice).
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// Long names of the flags of `app`, including its groups, without dashes.
std::vector<std::string> FlagsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  for (const CLI::App* group :
       app.get_subcommands([](const CLI::App* sub) { return sub->get_name().empty(); })) {
    const std::vector<std::string> more = FlagsOf(*group);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::vector<std::string> CommandsOf(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string Joined(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : ", ") + word;
  return joined;
}

// Explains words of the command line that are neither flags, commands nor values. "": there are
// none.
std::string ExplainUnknownWord(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (unknown.empty()) return "";
  // A flag before what was meant to be its value.
  const auto flag = std::find_if(unknown.begin(), unknown.end(), [](const std::string& word) {
    return word.size() > 1 && word[0] == '-';
  });
  const std::string word = flag != unknown.end() ? *flag : unknown.front();
  const CLI::App* command = &app;
  std::vector<std::string> flags = FlagsOf(app);
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    const std::vector<std::string> more = FlagsOf(*command);
    flags.insert(flags.end(), more.begin(), more.end());
  }
  const std::vector<std::string> commands = CommandsOf(*command);
  if (flag != unknown.end()) {
    const std::string name = word.substr(0, word.find('='));
    const std::string nearest =
        Nearest(name.substr(name.find_first_not_of('-') % name.size()), flags);
    return "unknown option " + Shown(name) +
           (nearest.empty() ? "" : "; did you mean --" + nearest + "?");
  }
  if (commands.empty()) return "unexpected argument '" + Shown(word) + "'";
  const std::string nearest = Nearest(word, commands);
  return "unknown command '" + Shown(word) + "'; " +
         (nearest.empty() ? "there are " + Joined(commands) : "did you mean " + nearest + "?");
}

// Checks what CLI11 would silently skip or shorten.
void CheckConfigLine(const std::string& line) {
  const auto wrong = [&line](const std::string& what) {
    throw CLI::ConfigError("--config: '" + Shown(line) + "': " + what);
  };
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string::npos || line[begin] == '#' || line[begin] == ';') return;
  if (line[begin] == '[') wrong("the file has no sections, one flag=value a line");
  const size_t equals = line.find('=');
  const size_t end = line.find_last_not_of(" \t\r");
  if (equals == begin || end - begin < 2) wrong("not of the form flag=value");
  const size_t value =
      equals == std::string::npos ? equals : line.find_first_not_of(" \t", equals + 1);
  if (value != std::string::npos && line[value] == '[') {
    wrong("a value that begins with '[' has to be in quotes");
  }
  const size_t comment = line.find('#');
  if (comment == std::string::npos || equals == std::string::npos || comment < equals) return;
  const size_t quote = line.find_first_of("\"'");
  if (quote < comment || (line[comment - 1] != ' ' && line[comment - 1] != '\t')) {
    wrong("a value cannot hold '#', which begins a comment; give this flag on the command line");
  }
}

class StrictConfig final : public CLI::ConfigTOML {
 public:
  explicit StrictConfig(const CLI::App* app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& in) const override {
    std::stringstream lines;
    for (std::string line; std::getline(in, line);) {
      CheckConfigLine(line);
      lines << line << '\n';
    }
    std::vector<CLI::ConfigItem> entries = CLI::ConfigTOML::from_config(lines);
    std::set<std::string> names;
    for (const CLI::ConfigItem& item : entries) {
      const std::string key = item.fullname();
      if (!names.insert(key).second) {
        throw CLI::ConfigError("--config: '" + Shown(key) + "' is there twice");
      }
      // CLI11 would drop a key of a command that is not there, such as `a.` in `a.max-sessions`.
      if (!item.parents.empty() || app_->get_option_no_throw("--" + item.name) == nullptr) {
        const std::string nearest = Nearest(item.name, FlagsOf(*app_));
        throw CLI::ConfigError("--config: unknown key '" + Shown(key) + "'" +
                               (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
      }
    }
    return entries;
  }

 private:
  const CLI::App* app_;
};

// The option of `app`, of its groups or of its commands that has this name and takes a value;
// nullptr if there is none.
const CLI::Option* FindOption(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw(name);
  if (option != nullptr) return option->get_items_expected_min() > 0 ? option : nullptr;
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); })) {
    option = FindOption(*command, name);
    if (option != nullptr) return option;
  }
  return nullptr;
}

// The command line with `--name=` as the two words `--name` and "": CLI11 would take the word after
// `--name=` for its value. Throws if CLI11 would drop elements of a list.
std::vector<std::string> SplitEmptyValues(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<std::string> words;
  const CLI::Option* option = nullptr;  // that the next word is the value of
  for (const std::string_view word : std::span(argv, static_cast<size_t>(argc))) {
    CheckElements(std::exchange(option, nullptr), word);
    words.emplace_back(word);
    if (!word.starts_with("--")) continue;
    const size_t equals = word.find('=');
    option = FindOption(app, std::string(word.substr(0, equals)));
    if (option == nullptr || equals == word.npos) continue;
    const std::string_view value = word.substr(equals + 1);
    CheckElements(std::exchange(option, nullptr), value);
    if (!value.empty()) continue;
    words.back().pop_back();
    words.emplace_back();
  }
  return words;
}

}  // namespace

std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv,
                                    std::ostream& out, std::ostream& err,
                                    const std::function<Status()>& check) {
  std::string wrong;
  try {
    CheckIntegers(app);
    const std::vector<std::string> words = SplitEmptyValues(app, argc, argv);
    std::vector<const char*> split(words.size());
    std::transform(words.begin(), words.end(), split.begin(),
                   [](const std::string& word) { return word.c_str(); });
    app.parse(static_cast<int>(split.size()), split.data());
    const Status status = check ? check() : Status();
    if (status.ok()) return std::nullopt;
    wrong = status.message();
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e, out, err);
    wrong = ExplainUnknownWord(app);
    if (wrong.empty()) wrong = e.what();
  }
  err << wrong << "\nRun with --help for more information." << std::endl;
  return kBadUsage;
}

int CheckWritten(int exit_code, std::ostream& out, std::ostream& err) {
  if (out.flush()) return exit_code;
  err << "error: the output could not be written in full; make room for it, or write elsewhere"
      << std::endl;
  return exit_code == 0 ? 1 : exit_code;
}

void AddConfigFlag(CLI::App& app) {
  app.set_config("--config,--flagfile", "", "Read flags from this file, one flag=value a line")
      ->check([](const std::string& path) { return InputFile::Open(path).status().message(); });
  app.config_formatter(std::make_shared<StrictConfig>(&app));
}

CLI::Validator AtLeast(double low) {
  return NumberCheck("at least " + ShortNumber(low), [low](double x) { return x >= low; });
}

CLI::Validator Above(double low) {
  return NumberCheck("more than " + ShortNumber(low), [low](double x) { return x > low; });
}

CLI::Validator Between(double low, double high) {
  return NumberCheck(ShortNumber(low) + " to " + ShortNumber(high),
                     [low, high](double x) { return x >= low && x <= high; });
}

std::string Nearest(std::string_view word, const std::vector<std::string>& known) {
  // longer than our names; the distance takes the product of both sizes
  constexpr size_t kLongest = 64;
  if (word.size() > kLongest) return "";
  // Half of a short word may be wrong, or a third of a long one.
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  std::string nearest;
  for (const std::string& candidate : known) {
    const size_t distance = EditDistance(word, candidate);
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

}  // namespace outrider
