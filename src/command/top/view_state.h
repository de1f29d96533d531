// What the user has chosen to see, and what keys change of it.
#pragma once

#include <cstddef>
#include <string>

#include "command/top/moment.h"

namespace brim::top {

enum class Sort : uint8_t { cpu, memory, gpu, storage, pid };
inline constexpr int kSortCount = 5;

enum class Key : uint8_t {
  none,
  character,
  up,
  down,
  left,
  right,
  page_up,
  page_down,
  enter,
  escape,
  erase
};

struct KeyPress {
  Key key = Key::none;
  char character = 0;  ///< of Key::character
};

struct ViewState {
  Sort sort = Sort::cpu;
  std::string filter;    ///< of processes and runs; empty: all
  bool typing = false;   ///< keys go into the filter
  std::string selected;  ///< a run, by its socket
  bool inside = false;   ///< the selected run alone
  bool help = false;
  bool frozen = false;       ///< time stands still
  size_t back = 0;           ///< moments before the newest
  size_t first_process = 0;  ///< scrolled to
  bool unicode = true;
  bool keys = true;  ///< tells of keys in the last line
  std::string note;  ///< for the first line: "recording", ...
  bool quit = false;
};

/// `moment`: what is shown; `count`: of the moments there are.
void press(ViewState& state, KeyPress key, const Moment& moment, size_t count);

/// As many moments are new, and `gone` old ones no more there. A view that stands still stays.
void moments_added(ViewState& state, size_t added, size_t count);

/// Whether the filter lets it through: part of a word of it, whatever the case.
bool passes(const ViewState& state, const diag::ProcessReading& process);
bool passes(const ViewState& state, const Run& run);

/// The runs that are listed, and which of them is selected: the first, where that one is gone.
std::vector<const Run*> listed_runs(const ViewState& state, const Moment& moment);
const Run* selected_run(const ViewState& state, const Moment& moment);

}  // namespace brim::top
