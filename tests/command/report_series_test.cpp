// What `brim report` makes of values and accounts over time.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "command/report_page/account_series.h"
#include "command/report_page/series.h"

namespace brim::command::page {
namespace {

using nlohmann::json;

Series ramp(size_t count) {
  Series points;
  for (size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(i);
    points.push_back({x, 10 * x, x});
  }
  return points;
}

json account(double compute, double input) {
  return {{"wall", compute + input}, {"seconds", {{"compute", compute}, {"input", input}}}};
}

TEST(ReportSeries, ThinningKeepsExtremesAndBothEnds) {
  Series points = ramp(100000);
  points[54321].value = 1e6;
  points[12345].value = -1e6;
  const Series thin = thinned(points, 500);
  EXPECT_LE(thin.size(), 500U);
  EXPECT_GE(thin.size(), 400U);
  const auto [low, high] = std::ranges::minmax_element(thin, {}, &Point::value);
  EXPECT_EQ(low->value, -1e6);
  EXPECT_EQ(low->step, 123450);
  EXPECT_EQ(high->value, 1e6);
  EXPECT_EQ(high->seconds, 54321);
  EXPECT_EQ(thin.front().seconds, 0);
  EXPECT_EQ(thin.back().seconds, 99999);
  EXPECT_TRUE(std::ranges::is_sorted(thin, {}, &Point::seconds));
}

TEST(ReportSeries, FewPointsStayAsTheyAre) {
  EXPECT_EQ(thinned({}, 10).size(), 0U);
  EXPECT_EQ(thinned(ramp(1), 10).size(), 1U);
  EXPECT_EQ(thinned(ramp(10), 10).size(), 10U);
  EXPECT_LE(thinned(ramp(50), 0).size(), 4U);
}

TEST(ReportSeries, LinesTakeFiniteNumbersAndAreBounded) {
  Charts charts;
  for (const json& value : {json(1.5), json(), json("2"), json(1e300), json::object()})
    charts.add("loss", "training", {}, &value);
  charts.add("loss", "training", {}, nullptr);
  ASSERT_EQ(charts.lines().size(), 1U);
  EXPECT_EQ(charts.lines()[0].points.size(), 1U);
  const json one = 1;
  for (int i = 0; i < 1000; ++i) charts.add("metrics", std::to_string(i), {}, &one);
  EXPECT_LE(charts.lines().size(), 200U);
}

TEST(ReportSeries, HeldPointsAreBoundedAndKeepTheirExtremes) {
  Charts charts;
  for (int i = 0; i < 500000; ++i) {
    const json value = i == 777 ? 1e9 : 1.0;
    charts.add("power", "", {1.0 * i, 0, 0}, &value);
  }
  const Series& held = charts.lines()[0].points;
  EXPECT_LE(held.size(), 200000U);
  EXPECT_EQ(std::ranges::max(held, {}, &Point::value).seconds, 777);
}

TEST(ReportAccount, DifferencesOfWhatGrows) {
  AccountSeries series;
  series.add({0, 0, 0}, {1, 10, 0}, account(1, 0), true);
  series.add({1, 10, 0}, {2, 20, 0}, account(1.25, 0.75), false);
  ASSERT_EQ(series.stretches().size(), 2U);
  EXPECT_DOUBLE_EQ(series.stretches()[1].seconds.at("compute"), 0.25);
  EXPECT_DOUBLE_EQ(series.stretches()[1].seconds.at("input"), 0.75);
  EXPECT_DOUBLE_EQ(series.total().at("compute"), 1.25);
}

TEST(ReportAccount, AResumedRunCountsFromZero) {
  AccountSeries series;
  series.add({0, 0, 0}, {10, 10, 0}, account(9, 1), true);
  series.add({10, 10, 0}, {12, 20, 0}, account(1.5, 0.5), true);
  // That another process writes shows in a smaller account, too.
  series.add({12, 20, 0}, {13, 30, 0}, account(0.25, 0.25), false);
  ASSERT_EQ(series.stretches().size(), 3U);
  EXPECT_DOUBLE_EQ(series.stretches()[1].wall(), 2);
  EXPECT_DOUBLE_EQ(series.stretches()[2].wall(), 0.5);
  EXPECT_DOUBLE_EQ(series.total().at("input"), 1.75);
}

TEST(ReportAccount, OfWrongTypesNothingIsTaken) {
  AccountSeries series;
  for (const json& wrong :
       {json(), json(3), json{{"seconds", 3}}, json{{"seconds", {{"compute", "x"}}}},
        json{{"seconds", {{"compute", -4}}}}, json{{"seconds", json::array({1, 2})}}})
    series.add({}, {1, 1, 0}, wrong, false);
  EXPECT_TRUE(series.stretches().empty());
}

TEST(ReportAccount, MergingKeepsAllOfTheTime) {
  AccountSeries series;
  for (int i = 1; i <= 1001; ++i)
    series.add({i - 1.0, 0, 0}, {i * 1.0, 0, 0}, account(0.75 * i, 0.25 * i), i == 1);
  const std::vector<Stretch> few = merged(series.stretches(), 100);
  EXPECT_LE(few.size(), 100U);
  double wall = 0;
  for (const Stretch& stretch : few) wall += stretch.wall();
  EXPECT_NEAR(wall, 1001, 1e-9);
  EXPECT_EQ(few.back().end.seconds, 1001);
}

TEST(ReportAccount, TheWorstStretchesAreNotThoseOfComputing) {
  AccountSeries series;
  series.add({0, 0, 0}, {1, 10, 0}, account(1, 0), true);
  series.add({1, 10, 0}, {2, 20, 0}, account(1.1, 0.9), false);
  series.add({2, 20, 0}, {3, 30, 0}, account(1.6, 1.4), false);
  const std::vector<WorstStretch> found = worst(series.stretches(), 5);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].cause, "input");
  EXPECT_NEAR(found[0].share, 0.9, 1e-9);
  EXPECT_EQ(found[0].stretch->begin.step, 10);
  series.add({3, 30, 0}, {3.01, 30, 0}, account(1.6, 1.41), false);  // too short to matter
  EXPECT_EQ(worst(series.stretches(), 5).size(), 2U);
}

}  // namespace
}  // namespace brim::command::page
