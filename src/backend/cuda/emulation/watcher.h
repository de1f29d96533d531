// How a test's fake of CUPTI is told what the emulation runs.
#pragma once

/// Is told of work before it is queued (0), when it begins (1) and when it ends (2). `kind` is
/// "kernel", "memset", "graph" or a copy's "to device", "to host", "on device", "between" (devices
/// that reach each other's memory) or "staged" (by way of the host). Of what a graph consists of, 1
/// and 2 are told between the graph's.
using EmulationWatcher = void (*)(const char* kind, int device, int phase);
extern "C" void brim_emulation_watch(EmulationWatcher watcher);
