#include "command/top/view_state.h"

#include <algorithm>
#include <cctype>

namespace brim::top {
namespace {

constexpr size_t kPage = 10, kMaxFilter = 64, kManyMoments = 60;

bool contains(std::string_view text, std::string_view part) {
  const auto same = [](unsigned char a, unsigned char b) {
    return std::tolower(a) == std::tolower(b);
  };
  return part.empty() ||
         std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

void type(ViewState& state, KeyPress key) {
  if (key.key == Key::character && state.filter.size() < kMaxFilter) state.filter += key.character;
  if (key.key == Key::erase && !state.filter.empty()) state.filter.pop_back();
  if (key.key == Key::escape) state.filter.clear();
  if (key.key == Key::escape || key.key == Key::enter) state.typing = false;
  state.first_process = 0;
}

/// Up and down go over the runs; where there are none, over the processes.
void move(ViewState& state, const Moment& moment, bool down) {
  const std::vector<const Run*> runs = listed_runs(state, moment);
  if (runs.empty()) {
    if (down) ++state.first_process;
    if (!down && state.first_process > 0) --state.first_process;
    return;
  }
  const auto at = std::ranges::find(runs, selected_run(state, moment));
  const auto next = down ? std::min(at + 1, runs.end() - 1) : at == runs.begin() ? at : at - 1;
  state.selected = (*next)->socket;
}

void go_back(ViewState& state, size_t steps, size_t count) {
  state.back = std::min(state.back + steps, count > 0 ? count - 1 : 0);
  state.frozen = state.back > 0;
}
void go_forth(ViewState& state, size_t steps) {
  state.back -= std::min(state.back, steps);
  state.frozen = state.back > 0;
}

void press_character(ViewState& state, char c, size_t count) {
  if (c == '[') go_back(state, kManyMoments, count);
  if (c == ']') go_forth(state, kManyMoments);
  if (c == 'q') state.quit = true;
  if (c == 's') state.sort = static_cast<Sort>((static_cast<int>(state.sort) + 1) % kSortCount);
  if (c == '/') state.typing = true;
  if (c == '?' || c == 'h') state.help = true;
  if (c == ' ') {
    state.frozen = !state.frozen;
    if (!state.frozen) state.back = 0;
  }
}

}  // namespace

void press(ViewState& state, KeyPress key, const Moment& moment, size_t count) {
  if (state.typing) return type(state, key);
  if (state.help) {
    state.help = false;
    state.quit = key.key == Key::character && key.character == 'q';
    return;
  }
  switch (key.key) {
    case Key::character:
      return press_character(state, key.character, count);
    case Key::up:
      return move(state, moment, false);
    case Key::down:
      return move(state, moment, true);
    case Key::left:
      return go_back(state, 1, count);
    case Key::right:
      return go_forth(state, 1);
    case Key::page_down:
      state.first_process += kPage;
      return;
    case Key::page_up:
      state.first_process -= std::min(state.first_process, kPage);
      return;
    case Key::enter: {
      const Run* run = selected_run(state, moment);
      if (run) state.selected = run->socket;
      state.inside = run != nullptr;
      return;
    }
    case Key::escape:
      if (!state.inside) state.filter.clear();
      state.inside = false;
      return;
    case Key::erase:
    case Key::none:
      return;
  }
}

void moments_added(ViewState& state, size_t added, size_t count) {
  if (state.frozen) state.back += added;
  state.back = std::min(state.back, count > 0 ? count - 1 : 0);
}

bool passes(const ViewState& state, const diag::ProcessReading& process) {
  return contains(process.name, state.filter) || contains(process.command, state.filter) ||
         contains(std::to_string(process.pid), state.filter);
}

bool passes(const ViewState& state, const Run& run) {
  return contains(run.recipe, state.filter) || contains(run.folder, state.filter) ||
         contains(std::to_string(run.pid), state.filter);
}

std::vector<const Run*> listed_runs(const ViewState& state, const Moment& moment) {
  std::vector<const Run*> runs;
  for (const Run& run : moment.runs)
    if (passes(state, run)) runs.push_back(&run);
  return runs;
}

const Run* selected_run(const ViewState& state, const Moment& moment) {
  const std::vector<const Run*> runs = listed_runs(state, moment);
  const auto found =
      std::ranges::find(runs, state.selected, [](const Run* r) { return r->socket; });
  return found != runs.end() ? *found : runs.empty() ? nullptr : runs.front();
}

}  // namespace brim::top
