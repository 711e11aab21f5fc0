#include "client/plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace outrider {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kLongestRttMs = 1e5;
constexpr double kEnough = 0.95;  // share of what any number of drafters would achieve

// Bytes on the wire: an entry of a draft distribution (an id's gap and a weight), a draft token,
// and a message's frames (protobuf, gRPC, HTTP/2, TCP and IP).
constexpr double kEntryBytes = 4;
constexpr double kDrawBytes = 5;
constexpr double kMessageBytes = 120;

enum class Kind { kPlain, kColocated, kSplit, kAhead, kLookup };

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kPlain: return "plain";
    case Kind::kColocated: return "colocated";
    case Kind::kSplit: return "split";
    case Kind::kAhead: return "ahead";
    case Kind::kLookup: return "lookup";
  }
  return "";
}

bool HasDrafters(Kind kind) { return kind == Kind::kSplit || kind == Kind::kAhead; }

// One layout with one draft length. Times are in milliseconds.
class Layout {
 public:
  Layout(const PlanOptions& o, Kind kind, int length)
      : o_(o), kind_(kind), length_(kind == Kind::kPlain ? 0 : length) {}

  int length() const { return length_; }
  double Tokens() const {
    if (kind_ == Kind::kPlain) return 1;
    if (kind_ == Kind::kLookup) return ExpectedTokens(*o_.lookup_acceptance, length_, 1);
    return ExpectedTokens(o_.acceptance, length_, o_.sequences);
  }
  double Verify(double sessions) const {
    return o_.verify_ms + o_.verify_row_ms * (sessions * rows() - 1);
  }
  double Draft(double sessions) const {
    return length_ * (o_.draft_ms + o_.draft_row_ms * (sessions * sequences() - 1));
  }

  // A session's round with `sessions` sessions and `drafters` drafters.
  double RoundMs(double sessions, double drafters) const {
    switch (kind_) {
      case Kind::kPlain:
      case Kind::kLookup: return Verify(sessions);
      case Kind::kColocated: return Draft(sessions) + Verify(sessions);
      case Kind::kSplit:
      case Kind::kAhead: break;
    }
    // A round is a verdict, the way there and back and a draft, one after another. Steps follow
    // each other while there is work: each has a `batch` of sessions, and sessions that arrive
    // while one runs wait half of it on average. `mates` sessions share a drafter's pass. Each of
    // these depends on the round that results, hence the iteration.
    double batch = 1, mates = 1, round = 0;
    for (int i = 0; i < 300; ++i) {
      const double verify = Verify(batch) * (1 + 0.5 * (sessions - 1) / sessions);
      const double draft = Draft(mates);
      double hits = 0;
      if (kind_ == Kind::kAhead) {
        // Only an idle drafter drafts ahead.
        const double busy = round == 0 ? 0 : sessions / drafters / mates * draft / round;
        hits = o_.ahead_hits.value_or(std::pow(o_.acceptance, length_ + 1)) *
               (sessions == 1 ? 1 : std::max(0.0, 1 - busy));
      }
      const double away = verify + o_.rtt_ms;
      round = hits * std::max(away, draft) + (1 - hits) * (away + draft);
      constexpr double kDamping = 0.3;  // of the fixed-point iteration
      batch += kDamping * (std::clamp(sessions * Verify(batch) / round, 1.0, sessions) - batch);
      mates += kDamping * (std::clamp(sessions / drafters * draft / round, 1.0, sessions) - mates);
    }
    return round;
  }
  // Tokens per second of all sessions.
  double Speed(double sessions, double drafters) const {
    return sessions * Tokens() / RoundMs(sessions, drafters) * 1e3;
  }

  int DraftersNeeded(int sessions) const {
    if (!HasDrafters(kind_)) return 0;
    const double most = Speed(sessions, sessions);
    int drafters = 1;
    while (drafters < sessions && Speed(sessions, drafters) < kEnough * most) ++drafters;
    return drafters;
  }
  double FullBatch() const { return Speed(o_.sessions, std::max(DraftersNeeded(o_.sessions), 1)); }

  int Clients() const {
    const auto served = [this](int clients) {
      return Speed(clients, clients) / clients >= o_.client_rate;
    };
    if (!served(1)) return 0;
    int low = 1, high = kMaxPlanClients;
    if (served(high)) return high;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (served(middle) ? low : high) = middle;
    }
    return low;
  }

  PlannedLayout Planned() const {
    PlannedLayout planned{.name = Name(kind_),
                          .draft_length = length_,
                          .tokens_per_round = Tokens(),
                          .one_request = Speed(1, 1),
                          .full_batch = FullBatch(),
                          .clients = static_cast<double>(Clients()),
                          .drafters = DraftersNeeded(o_.sessions)};
    const double rounds = planned.full_batch / planned.tokens_per_round;  // a second
    if (HasDrafters(kind_)) {
      constexpr double kMbitPerByte = 8e-6;
      const double draws = length_ * o_.sequences;
      planned.mbit_to_verifier =
          kMbitPerByte * rounds *
          (kMessageBytes + draws * (kDrawBytes + o_.distribution_entries * kEntryBytes));
      planned.mbit_to_drafters =
          kMbitPerByte * rounds * (kMessageBytes + planned.tokens_per_round * kDrawBytes);
    }
    const double price = o_.verifier_price + planned.drafters * o_.drafter_price;
    planned.per_million = price / 3600 / planned.full_batch * 1e6;
    return planned;
  }

 private:
  double sequences() const { return kind_ == Kind::kLookup ? 1 : o_.sequences; }
  double rows() const { return 1 + length_ * sequences(); }

  const PlanOptions& o_;
  const Kind kind_;
  const int length_;
};

// The length that the options name, or the one with the most tokens per second at the full batch.
Layout BestOf(const PlanOptions& o, Kind kind) {
  if (kind == Kind::kPlain || o.draft_length > 0) return Layout(o, kind, o.draft_length);
  int best = 1;
  for (int length = 2; length <= kMaxPlanLength; ++length) {
    if (Layout(o, kind, length).FullBatch() > Layout(o, kind, best).FullBatch()) best = length;
  }
  return Layout(o, kind, best);
}

// The longest round trip at which `speed` reaches `other`; speed decreases with the round trip.
double BreakEvenMs(const PlanOptions& o, double other,
                   const std::function<double(const PlanOptions&)>& speed) {
  PlanOptions tried = o;
  tried.rtt_ms = 0;
  if (speed(tried) < other) return -1;
  tried.rtt_ms = kLongestRttMs;
  if (speed(tried) >= other) return kInfinite;
  double low = 0, high = kLongestRttMs;
  while (high - low > 1e-3) {
    tried.rtt_ms = (low + high) / 2;
    (speed(tried) >= other ? low : high) = tried.rtt_ms;
  }
  return low;
}

Status Check(const PlanOptions& o) {
  const auto positive = [](double value) { return std::isfinite(value) && value > 0; };
  const auto not_negative = [](double value) { return std::isfinite(value) && value >= 0; };
  const auto chance = [](double value) { return value >= 0 && value < 1; };
  if (!positive(o.draft_ms)) return InvalidArgument("--t-draft must be above 0");
  if (!positive(o.verify_ms)) return InvalidArgument("--t-verify must be above 0");
  if (!not_negative(o.draft_row_ms)) return InvalidArgument("--t-draft-row must not be negative");
  if (!not_negative(o.verify_row_ms)) return InvalidArgument("--t-verify-row must not be negative");
  if (!not_negative(o.rtt_ms)) return InvalidArgument("--rtt must not be negative");
  if (!chance(o.acceptance)) return InvalidArgument("--acceptance must be in [0, 1)");
  if (o.lookup_acceptance.has_value() && !chance(*o.lookup_acceptance)) {
    return InvalidArgument("--lookup-acceptance must be in [0, 1)");
  }
  if (o.ahead_hits.has_value() && !(*o.ahead_hits >= 0 && *o.ahead_hits <= 1)) {
    return InvalidArgument("--ahead-hits must be in [0, 1]");
  }
  if (o.draft_length < 0 || o.draft_length > 64) {
    return InvalidArgument("--draft-length must be in 0 .. 64");
  }
  if (o.sequences < 1 || o.sequences > 64) {
    return InvalidArgument("--paths must be in 1 .. 64");
  }
  if (o.sessions < 1 || o.sessions > 4096) {
    return InvalidArgument("--sessions must be in 1 .. 4096");
  }
  if (!positive(o.client_rate)) return InvalidArgument("--client-rate must be above 0");
  if (!not_negative(o.distribution_entries)) {
    return InvalidArgument("--law-entries must not be negative");
  }
  if (!not_negative(o.verifier_price) || !not_negative(o.drafter_price)) {
    return InvalidArgument("prices must not be negative");
  }
  return Status();
}

}  // namespace

double ExpectedTokens(double acceptance, int length, int sequences) {
  double tokens = 1, accepted = 1;
  for (int i = 0; i < length; ++i) {
    accepted *= acceptance;
    tokens += 1 - std::pow(1 - accepted, sequences);
  }
  return tokens;
}

Result<PlanReport> MakePlan(const PlanOptions& o) {
  OUTRIDER_TRY(Check(o));
  std::vector<Kind> kinds = {Kind::kPlain, Kind::kColocated, Kind::kSplit, Kind::kAhead};
  if (o.lookup_acceptance.has_value()) kinds.push_back(Kind::kLookup);
  PlanReport report;
  for (const Kind kind : kinds) report.layouts.push_back(BestOf(o, kind).Planned());

  const auto best = [&](auto value) {
    return std::max_element(report.layouts.begin(), report.layouts.end(),
                            [&](const auto& a, const auto& b) { return value(a) < value(b); })
        ->name;
  };
  report.fastest = best([](const PlannedLayout& l) { return l.one_request; });
  report.largest = best([](const PlannedLayout& l) { return l.full_batch; });
  if (o.verifier_price > 0 || o.drafter_price > 0) {
    report.cheapest = best([](const PlannedLayout& l) { return -l.per_million; });
  }
  const Layout split(o, Kind::kSplit, report.layouts[2].draft_length);
  report.capacity_ratio = 1 + split.Draft(o.sessions) / split.Verify(o.sessions);

  for (const Kind kind : {Kind::kSplit, Kind::kAhead}) {
    const int length = report.layouts[kind == Kind::kSplit ? 2 : 3].draft_length;
    for (const size_t against : {0u, 1u}) {
      report.break_even.push_back(
          {.layout = Name(kind),
           .against = report.layouts[against].name,
           .one_request_ms = BreakEvenMs(o, report.layouts[against].one_request,
                                         [&](const PlanOptions& options) {
                                           return Layout(options, kind, length).Speed(1, 1);
                                         }),
           .full_batch_ms =
               BreakEvenMs(o, report.layouts[against].full_batch, [&](const PlanOptions& options) {
                 return Layout(options, kind, length).Speed(options.sessions, options.sessions);
               })});
    }
  }
  return report;
}

}  // namespace outrider
