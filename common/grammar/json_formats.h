// The string formats of JSON Schema that grammars support.
//
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider::grammar {

// A regular expression that only matches valid texts of this format, but not always all of them:
// RFC 3339's date-time, date and time without leap seconds, RFC 4122's uuid, email without quoted
// names, RFC 1123's hostname, ipv4, full ipv6, RFC 3339's duration. nullopt: unknown.
std::optional<std::string> RegexOfFormat(std::string_view format);

// The names of all formats, for messages.
std::string KnownFormats();

}  // namespace outrider::grammar
