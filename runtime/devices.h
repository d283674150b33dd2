/* devices.h - the devices of this build. */
#ifndef WEFT_RUNTIME_DEVICES_H
#define WEFT_RUNTIME_DEVICES_H

#include "weft/plan.h"

/* The device of a kind; NULL when this build has none. */
const struct device *device_of(weft_device kind);

#endif
