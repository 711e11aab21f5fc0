// Runs the outrider command in this process and keeps its output.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "client/command_line.h"

namespace outrider {

struct CommandResult {
  int exit_code = 0;
  std::string out;
  std::string err;
};

struct CommandSetting {
  std::string input = {};
  bool colour = false;
  bool err_is_terminal = false;
};

inline CommandResult RunOutrider(const std::vector<std::string>& arguments,
                                 const CommandSetting& setting = {}) {
  std::vector<const char*> argv = {"outrider"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::istringstream in(setting.input);
  std::ostringstream out;
  std::ostringstream err;
  const Console console{.in = in,
                        .out = out,
                        .err = err,
                        .err_is_terminal = setting.err_is_terminal,
                        .colour = setting.colour};
  CommandResult result;
  result.exit_code = RunCommandLine(static_cast<int>(argv.size()), argv.data(), console);
  result.out = out.str();
  result.err = err.str();
  return result;
}

}  // namespace outrider
