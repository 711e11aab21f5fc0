// A benchmark's figures, formatted for people and for programs.
#pragma once

#include <string>

#include "client/bench_stats.h"

namespace outrider {

std::string BenchTable(const BenchReport& report);
// One object on one line; its keys are BenchReport's names.
std::string BenchJson(const BenchReport& report);

}  // namespace outrider
