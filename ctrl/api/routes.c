/* SPDX-License-Identifier: BSD-3-Clause */
/* The handlers, in a file of their own: a test of the server has others. */
#include "ctrl/api/call.h"

const api_handler api_handlers[] = {
#define X(name, ...) api_##name,
	API_OPERATIONS(X)
#undef X
};
