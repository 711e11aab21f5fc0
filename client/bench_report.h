// A benchmark's figures as people and as programs read them.
#pragma once

#include <string>

#include "client/bench_stats.h"

namespace outrider {

std::string BenchTable(const BenchReport& report);
// One object in one line; its keys are BenchReport's names.
std::string BenchJson(const BenchReport& report);

}  // namespace outrider
