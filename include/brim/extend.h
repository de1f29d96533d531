// Custom ops, in a program or a plugin. docs/OWN_OPS.md tells how; examples/own_op has three.
// For CUDA kernels see <brim/extend/cuda.h>, which needs CUDA's runtime.
#pragma once

#include <brim/extend/elementwise.h>
#include <brim/extend/formula.h>
#include <brim/extend/gradient.h>
#include <brim/extend/inputs.h>
#include <brim/extend/kernel.h>
#include <brim/extend/native.h>
#include <brim/extend/parallel.h>
#include <brim/extend/plugin.h>
