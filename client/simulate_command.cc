#include "client/simulate_command.h"

#include <nlohmann/json.hpp>
#include <string>

namespace outrider {
namespace {

void Print(const std::string& result, bool as_json, const Console& console) {
  if (as_json) {
    console.out << result << std::endl;
    return;
  }
  const auto json = nlohmann::json::parse(result, nullptr, /*allow_exceptions=*/false);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object()) {
      console.out << key << ": " << value << "\n";
      continue;
    }
    console.out << key << ":\n";
    for (const auto& [entry, number] : value.items()) {
      console.out << "  " << entry << "  " << number << "\n";
    }
  }
  console.out << std::flush;
}

}  // namespace

Status RunSimulateCommand(const SimulateFlags& flags, const Console& console) {
  OUTRIDER_ASSIGN(const std::string result, RunSimulate(flags.options));
  Print(result, flags.json, console);
  return Status();
}

Status RunSimulateControlCommand(const SimulateControlFlags& flags, const Console& console) {
  OUTRIDER_ASSIGN(const std::string result, RunSimulateControl(flags.options));
  Print(result, flags.json, console);
  return Status();
}

}  // namespace outrider
