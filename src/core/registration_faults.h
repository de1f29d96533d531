// What is wrong with what a library registers while it is opened.
#pragma once

#include <string>

namespace brim {

/// While it lives, what is wrong with a kernel that this thread declares or registers is noted, not
/// thrown: an exception must not leave a library that is being opened.
class RegistrationFaults {
 public:
  RegistrationFaults();
  ~RegistrationFaults();
  RegistrationFaults(const RegistrationFaults&) = delete;
  RegistrationFaults& operator=(const RegistrationFaults&) = delete;
  /// The first, or empty.
  const std::string& first() const { return first_; }

  /// Notes `fault`; false where nothing on this thread takes note, and it is to be thrown.
  static bool note(const char* fault);

 private:
  std::string first_;
  RegistrationFaults* before_;
};

}  // namespace brim
