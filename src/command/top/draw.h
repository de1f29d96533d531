// The parts of the screen. Each draws from `row` on and returns the row behind what it has drawn.
#pragma once

#include <string_view>
#include <vector>

#include "command/top/canvas.h"
#include "command/top/moments.h"
#include "command/top/view_state.h"

namespace brim::top {

/// Where the values behind the words at the left side begin.
inline constexpr int kLabel = 9;

int draw_cores(Canvas& canvas, int row, const Moment& moment, int max_rows);
int draw_memory(Canvas& canvas, int row, const Moment& moment);
int draw_pressure(Canvas& canvas, int row, const Moment& moment);
int draw_traffic(Canvas& canvas, int row, const Moment& moment);
int draw_gpus(Canvas& canvas, int row, const std::vector<Gpu>& gpus, int max_rows);
int draw_runs(Canvas& canvas, int row, const Moment& moment, const ViewState& state, int max_rows);
int draw_processes(Canvas& canvas, int row, const Moment& moment, const ViewState& state,
                   int max_rows);
/// One run alone: all numbers, and its account over time.
int draw_run(Canvas& canvas, int row, const std::vector<MomentPointer>& moments, const Run& run);
int draw_help(Canvas& canvas, int row);

/// The letter that stands for a cause in bars, and how it is shown.
struct CauseLook {
  std::string_view cause;
  char letter;
  Style style;
};
CauseLook look_of(std::string_view cause);
/// The causes of an account as a bar, in the order of the account.
void draw_account(Pen& pen, bool unicode, int width, const RunAccount& account);
/// The causes and their shares, the greatest first.
Named shares(const RunAccount& account);

/// "-" where it is not known.
std::string or_dash(const std::optional<double>& value, const char* format);
std::string or_dash(const std::optional<int64_t>& value);

/// How a share of something that may be used up looks.
Style filling(double share);

}  // namespace brim::top
