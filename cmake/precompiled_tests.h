// The precompiled header of the test programs.
#pragma once

#include <gtest/gtest.h>

#include "precompiled.h"
