// outrider generate: one request, its text as it comes.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

Status RunGenerate(const GenerateOptions& options, const Console& console);

}  // namespace outrider
