// The terminal: shows a canvas and reads keys, by ncurses.
#pragma once

#include <memory>

#include "command/top/canvas.h"
#include "command/top/view_state.h"

namespace brim::top {

/// Whether the locale's text is UTF-8. Takes the user's locale for characters.
bool is_utf8_locale();

class Terminal {
 public:
  /// Whether standard input and output are a terminal whose cursor can be moved. False in a build
  /// without ncurses.
  static bool is_usable();

  /// Takes the whole screen. Throws Error where it cannot. `colour`: where the terminal has it.
  explicit Terminal(bool colour);
  /// Gives the screen back as it was.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// Follows the terminal, up to what a canvas has.
  Size size();
  void show(const Canvas& canvas);
  /// The next key; Key::none where none waits.
  KeyPress read_key();

 private:
  struct Screen;
  std::unique_ptr<Screen> screen_;
};

}  // namespace brim::top
