// Reductions of integers and bool, and the rare ones, on the CPU: the baseline instruction set
// does.
#include <hwy/highway.h>

#include "backend/cpu/elementwise/through_f32.h"
#include "backend/cpu/reduce/reduce_steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace brim::cpu::HWY_NAMESPACE {
namespace {

template <class... T>
bool register_integers() {
  ((register_ordered<T>(), add<T>("prod", &plain<Prod<T>>)), ...);
  return true;
}

template <class... T>
bool register_rest() {
  ((add<T>("any", &plain<Logical<T, false>>), add<T>("all", &plain<Logical<T, true>>)), ...);
  return true;
}

const bool registered = register_integers<int64_t, int32_t, int8_t, uint8_t, bool>() &&
                        register_rest<float, double, int64_t, int32_t, int8_t, uint8_t, bool>() &&
                        register_through_f32<&plain<Logical<float, false>>>("any") &&
                        register_through_f32<&plain<Logical<float, true>>>("all");

}  // namespace
}  // namespace brim::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
