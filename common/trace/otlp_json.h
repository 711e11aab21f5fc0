// Spans in OTLP's JSON encoding: ids in hexadecimal, names in lowerCamelCase, 64-bit integers as
// strings, enums as numbers.
#pragma once

#include <span>
#include <string>

#include "common/trace/span.h"

namespace outrider {

// One ExportTraceServiceRequest without line breaks: a line of a file for the OpenTelemetry
// Collector's otlpjsonfile receiver. `resource`: attributes of the process.
std::string ToOtlpJson(const Attributes& resource, std::span<const Span> spans);

}  // namespace outrider
