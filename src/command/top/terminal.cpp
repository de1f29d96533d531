#include "command/top/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <csignal>
#include <string_view>

#include "core/check.h"

#if BRIM_HAVE_CURSES
#define NCURSES_NOMACROS 1
#include <curses.h>
#endif

namespace brim::top {

bool is_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  return std::string_view(nl_langinfo(CODESET)) == "UTF-8";
}

#if BRIM_HAVE_CURSES

namespace {

constexpr int kEscapeMilliseconds = 25;  // within which the rest of an arrow key's bytes come
constexpr int kRedraw = 'L' & 0x1f;      // Ctrl-L
constexpr int kMaxSide = 1000;           // that ncurses is given: it counts in short, and draws all

struct Look {
  attr_t attributes;
  short colour;  // -1: the terminal's own
};

Look look_of(Style style) {
  switch (style) {
    case Style::plain:
      return {A_NORMAL, -1};
    case Style::dim:
      return {A_DIM, -1};
    case Style::bold:
      return {A_BOLD, -1};
    case Style::title:
      return {A_BOLD, COLOR_CYAN};
    case Style::good:
      return {A_NORMAL, COLOR_GREEN};
    case Style::notice:
      return {A_NORMAL, COLOR_YELLOW};
    case Style::bad:
      return {A_BOLD, COLOR_RED};
    case Style::selected:
      return {A_REVERSE, -1};
  }
  return {A_NORMAL, -1};
}

/// Has SIGWINCH end a wait, and ncurses leave the size to size().
void wake_when_resized() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigemptyset(&action.sa_mask);
  sigaction(SIGWINCH, &action, nullptr);
  use_env(FALSE);
}

short pair_of(Style style) { return static_cast<short>(static_cast<int>(style) + 1); }

KeyPress key_press(int code) {
  switch (code) {
    case KEY_UP:
      return {Key::up};
    case KEY_DOWN:
      return {Key::down};
    case KEY_LEFT:
      return {Key::left};
    case KEY_RIGHT:
      return {Key::right};
    case KEY_PPAGE:
      return {Key::page_up};
    case KEY_NPAGE:
      return {Key::page_down};
    case KEY_ENTER:
    case '\r':
    case '\n':
      return {Key::enter};
    case KEY_BACKSPACE:
    case 0x7f:
    case '\b':
      return {Key::erase};
    case 0x1b:
      return {Key::escape};
    default:
      break;
  }
  if (code >= 0x20 && code < 0x7f) return {Key::character, static_cast<char>(code)};
  return {};
}

}  // namespace

struct Terminal::Screen {
  SCREEN* screen = nullptr;
  bool colour = false;
};

Terminal::Terminal(bool colour) : screen_(std::make_unique<Screen>()) {
  wake_when_resized();
  screen_->screen = newterm(nullptr, stdout, stdin);
  BRIM_CHECK(screen_->screen, Error, "[top] the terminal cannot be used; use --once, or set TERM");
  set_term(screen_->screen);
  set_escdelay(kEscapeMilliseconds);
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  curs_set(0);
  if (!colour || !has_colors() || start_color() != OK) return;
  screen_->colour = true;
  const short background = use_default_colors() == OK ? -1 : COLOR_BLACK;
  for (int i = 0; i < kStyleCount; ++i) {
    const auto style = static_cast<Style>(i);
    const short own = background == -1 ? -1 : COLOR_WHITE;
    const short foreground = look_of(style).colour;
    init_pair(pair_of(style), foreground == -1 ? own : foreground, background);
  }
}

Terminal::~Terminal() {
  endwin();
  delscreen(screen_->screen);
}

Size Terminal::size() {
  const Size before{.rows = getmaxy(stdscr), .columns = getmaxx(stdscr)};
  winsize now{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &now) != 0 || now.ws_row == 0 || now.ws_col == 0)
    return before;
  const Size wanted{.rows = std::min<int>(now.ws_row, kMaxSide),
                    .columns = std::min<int>(now.ws_col, kMaxSide)};
  if (wanted.rows != before.rows || wanted.columns != before.columns)
    resizeterm(wanted.rows, wanted.columns);
  return {.rows = getmaxy(stdscr), .columns = getmaxx(stdscr)};
}

void Terminal::show(const Canvas& canvas) {
  werase(stdscr);
  for (int row = 0; row < canvas.size().rows; ++row)
    for (int column = 0; column < canvas.size().columns; ++column) {
      const Cell& cell = canvas.at(row, column);
      if (cell.character == 0) continue;
      const Look look = look_of(cell.style);
      const wchar_t text[2] = {static_cast<wchar_t>(cell.character), 0};
      cchar_t shown;
      setcchar(&shown, text, look.attributes, screen_->colour ? pair_of(cell.style) : short{0},
               nullptr);
      mvwadd_wch(stdscr, row, column, &shown);
    }
  wrefresh(stdscr);
}

KeyPress Terminal::read_key() {
  while (true) {
    const int code = wgetch(stdscr);
    if (code == ERR) return {};
    if (code == kRedraw) clearok(stdscr, TRUE);
    if (const KeyPress key = key_press(code); key.key != Key::none) return key;
  }
}

#else

struct Terminal::Screen {};

Terminal::Terminal(bool) { raise<Error>("[top] this build has no ncurses; use --once"); }
Terminal::~Terminal() = default;
Size Terminal::size() { return {}; }
void Terminal::show(const Canvas&) {}
KeyPress Terminal::read_key() { return {}; }

#endif

}  // namespace brim::top
