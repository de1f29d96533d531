// What examples see that are parts of brim itself.
#pragma once

#include <cmath>

#include <brim/brim.h>

#include "backend/kernel.h"
#include "backend/rewrite.h"
#include "formula/formula.h"
