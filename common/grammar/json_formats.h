// The formats of JSON Schema's strings that grammars know.
//
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider::grammar {

// A regular expression of texts of this format, all of them valid, not always all that are valid:
// RFC 3339's date-time, date and time without leap seconds, RFC 4122's uuid, email without quoted
// names, RFC 1123's hostname, ipv4, ipv6 in full, RFC 3339's duration. nullopt: not known.
std::optional<std::string> RegexOfFormat(std::string_view format);

// The names of all formats, for messages.
std::string KnownFormats();

}  // namespace outrider::grammar
