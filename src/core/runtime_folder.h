// Where the user's running processes leave what others of the user look for.
#pragma once

#include <string>

namespace brim {

/// $BRIM_RUNTIME_DIR, else $XDG_RUNTIME_DIR/brim, else /tmp/brim-UID. It need not be there.
std::string runtime_folder();

/// The same, made with permissions 0700 where it is not there. Throws FileError if it cannot be
/// made, is a link, or belongs to, or may be written to by, somebody else.
std::string make_runtime_folder();

}  // namespace brim
