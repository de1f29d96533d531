// Ops of one's own, in a program or a plugin. examples/own_op has three.
#pragma once

#include <brim/extend/elementwise.h>
#include <brim/extend/formula.h>
#include <brim/extend/gradient.h>
#include <brim/extend/inputs.h>
#include <brim/extend/kernel.h>
#include <brim/extend/parallel.h>
#include <brim/extend/plugin.h>
