// The view in a terminal, until the user quits or the terminal is gone.
#pragma once

#include "command/top/background_sampler.h"
#include "command/top/moments.h"
#include "command/top/recorder.h"

namespace brim::top {

/// Of this machine. `recorder` may be null.
void show_machine(Sampler::Sources sources, double interval, Recorder* recorder);
void show_recording(Recording& recording);

}  // namespace brim::top
