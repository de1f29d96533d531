// What the CPU does with denormal numbers: those too small for a full mantissa, below 1.2e-38 in
// f32. Arithmetic on them can take a hundred times as long.
#pragma once

namespace brim {

/// Has kernels on the CPU that the calling thread launches take denormal numbers for zero, as
/// operands and as results; `false` computes with them again, as from the start. Counts for the
/// thread, for those that it starts afterwards and for the threads that share its ops; so call it
/// before devices and loaders are made. What updates parameters always takes them for zero.
/// Returns whether the processor can; else nothing changes.
bool set_flush_denormals(bool on);
/// Whether the calling thread's kernels do.
bool flush_denormals();

}  // namespace brim
