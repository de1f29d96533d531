// What examples see that are parts of brim itself.
#pragma once

#include <cmath>

#include <brim/brim.h>
#include <brim/formula/formula.h>

#include "backend/kernel.h"
#include "backend/rewrite.h"
