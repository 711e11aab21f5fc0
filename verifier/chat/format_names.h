// A table of the formats of an enum and their names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"

namespace outrider {

template <class Format>
struct NamedFormat {
  std::string_view name;
  Format format;
};

// REQUIRES: `table` has `format`.
template <class Format, size_t kCount>
std::string_view NameIn(const NamedFormat<Format> (&table)[kCount], Format format) {
  const auto* const found = std::find_if(std::begin(table), std::end(table),
                                         [&](const auto& named) { return named.format == format; });
  OUTRIDER_CHECK(found != std::end(table));
  return found->name;
}

// REQUIRES: `table` has `name`.
template <class Format, size_t kCount>
Format FormatIn(const NamedFormat<Format> (&table)[kCount], std::string_view name) {
  const auto* const found = std::find_if(std::begin(table), std::end(table),
                                         [&](const auto& named) { return named.name == name; });
  OUTRIDER_CHECK(found != std::end(table));
  return found->format;
}

template <class Format, size_t kCount>
std::vector<std::string> NamesIn(const NamedFormat<Format> (&table)[kCount]) {
  std::vector<std::string> names;
  for (const NamedFormat<Format>& named : table) names.emplace_back(named.name);
  return names;
}

}  // namespace outrider
