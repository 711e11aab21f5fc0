// Filters that take sequences and dictionaries.
//
// Thread: any.
#pragma once

#include <span>

#include "common/text/jinja/builtins.h"

namespace outrider::jinja {

std::span<const Builtin> SequenceFilters();

}  // namespace outrider::jinja
