#include "verifier/status/prefix_page.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "common/routing/page_hashes.h"

namespace outrider {

std::string PrefixPage(const std::string& model, int page_tokens, const PrefixDigest& digest) {
  nlohmann::ordered_json hashes = nlohmann::ordered_json::array();
  for (const uint64_t hash : digest.Hashes()) hashes.push_back(PageHashText(hash));
  const nlohmann::ordered_json page = {{"model", model},
                                       {"page_tokens", page_tokens},
                                       {"hash", "fnv1a-64"},
                                       {"pages", digest.pages()},
                                       {"hashes", std::move(hashes)}};
  return page.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void ServePrefixPage(MetricsExporter& exporter, const std::string& model, int page_tokens,
                     std::shared_ptr<const PrefixDigest> digest) {
  exporter.AddPage("/prefix_cache", [model, page_tokens, digest = std::move(digest)] {
    return MetricsPage{.content_type = "application/json",
                       .headers = {{"Cache-Control", "no-store"}},
                       .body = PrefixPage(model, page_tokens, *digest)};
  });
}

}  // namespace outrider
