#include "simulate/fleet/rate_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/json/json.h"

namespace outrider {
namespace {

constexpr size_t kMaxColumns = 64;
constexpr size_t kMaxPoints = 256;
constexpr double kMost = 1e6;  // of any number
constexpr FleetLayout kLayouts[] = {FleetLayout::kSplit, FleetLayout::kColocated,
                                    FleetLayout::kPlain};

struct Field {
  const char* name;
  double RatePoint::*value;
};
constexpr Field kFields[] = {
    {"requests", &RatePoint::requests},         {"pass_rows", &RatePoint::pass_rows},
    {"pass_tokens", &RatePoint::pass_tokens},   {"idle_seconds", &RatePoint::idle_seconds},
    {"first_tokens", &RatePoint::first_tokens}, {"drafted", &RatePoint::drafted},
    {"accepted", &RatePoint::accepted},         {"drafter_seconds", &RatePoint::drafter_seconds},
    {"plan_seconds", &RatePoint::plan_seconds},
};

// The part of the way from `low` to `high` at which `at` is, in [0, 1].
double Part(double low, double high, double at) {
  return high > low ? std::clamp((at - low) / (high - low), 0., 1.) : 0;
}

RatePoint AtRequests(const RateColumn& column, double requests) {
  const auto after = std::lower_bound(
      column.points.begin(), column.points.end(), requests,
      [](const RatePoint& point, double wanted) { return point.requests < wanted; });
  if (after == column.points.begin()) return *after;
  if (after == column.points.end()) return column.points.back();
  const RatePoint& before = *std::prev(after);
  return Between(before, *after, Part(before.requests, after->requests, requests));
}

Result<RatePoint> ParsePoint(const JsonValue& json) {
  RatePoint point;
  for (const Field& field : kFields) {
    OUTRIDER_ASSIGN(point.*field.value, json[field.name].Number(0, kMost));
  }
  return json.size() == std::size(kFields) ? Result<RatePoint>(point)
                                           : json.Error("has an unknown member");
}

Status CheckLength(const JsonValue& json, size_t most) {
  const bool is_right = json.is_array() && json.size() >= 1 && json.size() <= most;
  return is_right ? Status() : json.Wrong("an array of 1 to " + std::to_string(most));
}

Result<RateColumn> ParseColumn(const JsonValue& json) {
  OUTRIDER_TRY(json.AllowOnly({"drafters", "points"}));
  RateColumn column;
  OUTRIDER_ASSIGN(column.drafters, json["drafters"].Number(0, kMost));
  const JsonValue points = json["points"];
  OUTRIDER_TRY(CheckLength(points, kMaxPoints));
  for (size_t i = 0; i < points.size(); ++i) {
    OUTRIDER_ASSIGN(const RatePoint point, ParsePoint(points[i]));
    if (i > 0 && point.requests <= column.points.back().requests) {
      return points[i]["requests"].Wrong("more than the one before");
    }
    if (point.pass_tokens <= 0) return points[i]["pass_tokens"].Wrong("above 0");
    column.points.push_back(point);
  }
  return column;
}

Status ReadColumns(const JsonValue& json, LayoutRates* rates) {
  if (json.absent()) return Status();
  OUTRIDER_TRY(CheckLength(json, kMaxColumns));
  for (size_t i = 0; i < json.size(); ++i) {
    OUTRIDER_ASSIGN(RateColumn column, ParseColumn(json[i]));
    if (i > 0 && column.drafters <= rates->columns.back().drafters) {
      return json[i]["drafters"].Wrong("more than the one before");
    }
    rates->columns.push_back(std::move(column));
  }
  return Status();
}

}  // namespace

RatePoint Between(const RatePoint& a, const RatePoint& b, double part) {
  RatePoint point;
  for (const Field& field : kFields) {
    point.*field.value = a.*field.value + part * (b.*field.value - a.*field.value);
  }
  return point;
}

RatePoint LayoutRates::At(double requests, double drafters) const {
  size_t after = 0;
  while (after + 1 < columns.size() && columns[after].drafters < drafters) ++after;
  const RatePoint high = AtRequests(columns[after], requests);
  if (after == 0) return high;
  const RateColumn& before = columns[after - 1];
  return Between(AtRequests(before, requests), high,
                 Part(before.drafters, columns[after].drafters, drafters));
}

std::string RatesJson(const RateTable& table) {
  nlohmann::json json = {{"scenario", table.scenario}};
  for (const FleetLayout layout : kLayouts) {
    for (const RateColumn& column : table.of(layout).columns) {
      nlohmann::json points = nlohmann::json::array();
      for (const RatePoint& point : column.points) {
        nlohmann::json& written = points.emplace_back();
        for (const Field& field : kFields) written[field.name] = point.*field.value;
      }
      json[LayoutName(layout)].push_back({{"drafters", column.drafters}, {"points", points}});
    }
  }
  return json.dump();
}

Result<RateTable> ParseRates(std::string_view text) {
  OUTRIDER_ASSIGN(const JsonValue json, ParseJsonObject(text, "the rates"));
  OUTRIDER_TRY(json.AllowOnly({"scenario", "split", "colocated", "plain"}));
  RateTable table;
  OUTRIDER_ASSIGN(table.scenario, json["scenario"].String());
  for (const FleetLayout layout : kLayouts) {
    OUTRIDER_TRY(ReadColumns(json[LayoutName(layout)], &table.of(layout)));
  }
  return table;
}

}  // namespace outrider
