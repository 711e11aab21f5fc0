#include "common/grammar/json_formats.h"

#include <array>
#include <utility>

namespace outrider::grammar {
namespace {

// Years 0001 to 9999, with the right days for each month, and 29 February only in leap years.
constexpr const char* kDate =
    "(?:(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-"
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
    "02-(?:0[1-9]|1[0-9]|2[0-8]))|"
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";
constexpr const char* kTime =
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
// Of at most 62 bytes: four of them and their dots are within 253, the limit of a name as text.
constexpr const char* kLabel = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,60}[A-Za-z0-9])?";
constexpr const char* kByte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

// For paths, queries and fragments.
constexpr const char* kUriText = "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})";

std::string Host() { return std::string(kLabel) + "(?:\\." + kLabel + "){0,3}"; }

const std::array<std::pair<std::string, std::string>, 10>& Formats() {
  static const std::array<std::pair<std::string, std::string>, 10> kFormats = {{
      {"date-time", std::string(kDate) + "T" + kTime},
      {"date", kDate},
      {"time", kTime},
      {"duration",
       "P(?:[0-9]{1,4}W|(?:[0-9]{1,4}Y(?:[0-9]{1,4}M(?:[0-9]{1,4}D)?)?|"
       "[0-9]{1,4}M(?:[0-9]{1,4}D)?|[0-9]{1,4}D)"
       "(?:T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|"
       "[0-9]{1,4}S))?|"
       "T(?:[0-9]{1,4}H(?:[0-9]{1,4}M(?:[0-9]{1,4}S)?)?|[0-9]{1,4}M(?:[0-9]{1,4}S)?|"
       "[0-9]{1,4}S))"},
      {"uuid", "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"},
      {"email", "[A-Za-z0-9_%+-]{1,32}(?:\\.[A-Za-z0-9_%+-]{1,16}){0,1}@" + Host()},
      {"hostname", Host()},
      {"ipv4", std::string(kByte) + "(?:\\." + kByte + "){3}"},
      {"ipv6", "[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){7}"},
      {"uri", "[A-Za-z][A-Za-z0-9+.-]{0,15}://" + Host() + "(?::[0-9]{1,5})?(?:/" + kUriText +
                  "*)?(?:\\?" + kUriText + "*)?(?:#" + kUriText + "*)?"},
  }};
  return kFormats;
}

}  // namespace

std::optional<std::string> RegexOfFormat(std::string_view format) {
  for (const auto& [name, regex] : Formats()) {
    if (name == format) return regex;
  }
  return std::nullopt;
}

std::string KnownFormats() {
  std::string out;
  for (const auto& [name, regex] : Formats()) out += (out.empty() ? "" : ", ") + name;
  return out;
}

}  // namespace outrider::grammar
