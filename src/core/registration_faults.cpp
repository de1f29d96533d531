#include "core/registration_faults.h"

namespace brim {
namespace {

thread_local constinit RegistrationFaults* registration_faults = nullptr;

}  // namespace

RegistrationFaults::RegistrationFaults() : before_(registration_faults) {
  registration_faults = this;
}
RegistrationFaults::~RegistrationFaults() { registration_faults = before_; }

bool RegistrationFaults::note(const char* fault) {
  RegistrationFaults* const faults = registration_faults;
  if (!faults) return false;
  if (faults->first_.empty()) faults->first_ = fault;
  return true;
}

}  // namespace brim
