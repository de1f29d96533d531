// Preloaded into a program: its kernels see a CPU that has none but the baseline's instructions.
#include <hwy/targets.h>

[[gnu::constructor]] static void take_instructions_away() {
  hwy::SetSupportedTargetsForTest(HWY_SCALAR);
}
