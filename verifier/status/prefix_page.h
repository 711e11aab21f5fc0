// GET /prefix_cache of the metrics port: the hashes of the prefixes whose keys and values the
// verifier holds, for what routes requests. It is for operators (docs/security.md): whoever has a
// text can tell from it whether somebody sent that text.
//
// Thread: the exporter's, which never waits for the engine and which the engine never waits for.
#pragma once

#include <memory>
#include <string>

#include "common/metrics/exporter.h"
#include "common/routing/prefix_digest.h"

namespace outrider {

// Hashes that a page lists at most; a verifier with more pages lists some of them.
inline constexpr int kMaxListedPrefixes = 65536;

// `model`: its name. `page_tokens`: tokens of a page.
void ServePrefixPage(MetricsExporter& exporter, const std::string& model, int page_tokens,
                     std::shared_ptr<const PrefixDigest> digest);

// The page's JSON.
std::string PrefixPage(const std::string& model, int page_tokens, const PrefixDigest& digest);

}  // namespace outrider
