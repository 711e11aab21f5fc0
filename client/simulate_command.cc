#include "client/simulate_command.h"

#include <nlohmann/json.hpp>
#include <string>

namespace outrider {

Status RunSimulateCommand(const SimulateFlags& flags, const Console& console) {
  OUTRIDER_ASSIGN(const std::string result, RunSimulate(flags.options));
  if (flags.json) {
    console.out << result << std::endl;
    return Status();
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
  return Status();
}

}  // namespace outrider
