// In a file of its own: terminfo's header has a macro for each capability, such as "columns".
#include <unistd.h>

#include "command/top/terminal.h"

#if BRIM_HAVE_CURSES
#include <curses.h>
#include <term.h>
#endif

namespace brim::top {

#if BRIM_HAVE_CURSES
bool Terminal::is_usable() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1) return false;
  int error = 0;
  if (setupterm(nullptr, STDOUT_FILENO, &error) != OK) return false;
  const char* const move = tigetstr("cup");
  return move != nullptr && move != reinterpret_cast<const char*>(-1);
}
#else
bool Terminal::is_usable() { return false; }
#endif

}  // namespace brim::top
