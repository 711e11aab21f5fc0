#include "verifier/propose/suffix_store.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

void SuffixStore::Add(std::string_view client, std::span<const TokenId> text) {
  if (!on() || text.empty()) return;
  text = text.last(std::min(text.size(), static_cast<size_t>(max_text()) - 1));
  const int size = static_cast<int>(text.size()) + 1;
  const std::string_view key = KeyOf(client);
  auto owner = clients_.find(key);
  if (owner == clients_.end()) owner = clients_.emplace(key, ClientSegments()).first;
  ClientSegments& own = owner->second;
  if (own.empty() || own.back()->text.size() + size > max_text()) {
    segments_.push_front({next_id_++, std::string(key), SuffixAutomaton(max_text())});
    own.push_back(segments_.begin());
  } else {
    Touch(own.back());
  }
  for (const TokenId token : text) segments_.front().text.Append(token);
  segments_.front().text.Append(SuffixAutomaton::kBreak);
  tokens_ += size;
  // This stops before it evicts the segment just used, which is at most an eighth of the bound.
  while (tokens_ > options_.max_tokens) EvictLast();
}

void SuffixStore::EvictLast() {
  const auto last = std::prev(segments_.end());
  const auto owner = clients_.find(last->client);
  OUTRIDER_CHECK(owner != clients_.end());
  std::erase(owner->second, last);
  if (owner->second.empty()) clients_.erase(owner);
  tokens_ -= last->text.size();
  segments_.erase(last);
}

SuffixStore::Found SuffixStore::Find(std::string_view client, std::span<const TokenId> tail,
                                     int64_t observed, int min_match, Cursor* cursor) {
  tail = tail.last(std::min<size_t>(tail.size(), kContext));
  const int64_t unread = observed - cursor->observed;
  cursor->observed = observed;
  const auto owner = clients_.find(KeyOf(client));
  if (owner == clients_.end()) {
    cursor->places.clear();
    return {};
  }
  const ClientSegments& own = owner->second;
  cursor->places.resize(own.size());
  Found found;
  size_t found_in = 0;
  for (size_t i = 0; i < own.size(); ++i) {
    const SuffixAutomaton& text = own[i]->text;
    Cursor::Place& place = cursor->places[i];
    std::span<const TokenId> unseen = tail;
    if (place.segment == own[i]->id && place.version == text.version() &&
        unread <= static_cast<int64_t>(tail.size())) {
      unseen = tail.last(static_cast<size_t>(unread));
    } else {
      place = {own[i]->id, text.version(), {}};
    }
    for (const TokenId token : unseen) place.match = text.Step(place.match, token);
    if (place.match.length >= std::max(min_match, found.match.length)) {
      found = {&text, place.match};
      found_in = i;
    }
  }
  if (found.automaton != nullptr) Touch(own[found_in]);
  return found;
}

size_t SuffixStore::bytes() const {
  size_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.text.bytes();
  return bytes;
}

}  // namespace outrider
