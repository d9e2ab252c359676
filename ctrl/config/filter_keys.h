/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of a filter. Without DPDK, for weirctl. */
#ifndef CTRL_FILTER_KEYS_H
#define CTRL_FILTER_KEYS_H

#include "ctrl/config/schema.h"

/* The keys of a filter, in the configuration and in a request; `at` is their path. */
/* clang-format off */
#define CTRL_FILTER_KEYS(at) \
	{at "file", CTRL_NAME, "", NULL, 3, 63, NULL, \
		.help = "File in the directory of filters, such as `sampler.o`. The filter's " \
		"name is that of the file without `.o`."}, \
	{at "section", CTRL_TEXT, "", "weir", 1, 63, NULL, \
		.help = "Section of the file with the code. If it is not `weir`, the filter's " \
		"name is that of the section."}, \
	{at "ports", CTRL_ARRAY, "", "[]", 0, 64, NULL, \
		.help = "Ports whose received packets it sees. Default: all."}, \
	{at "ports[]", CTRL_NAME, "", NULL, 1, 31, NULL, .help = "Name of a port."}, \
	{at "programs", CTRL_ARRAY, "", "[]", 0, 8, NULL, \
		.help = "Programs that it may choose. They can't be unloaded before it."}, \
	{at "programs[]", CTRL_NAME, "", NULL, 1, 31, NULL, \
		.help = "Name of a program."}, \
	{at "values", CTRL_ARRAY, "", "[]", 0, 8, NULL, \
		.help = "Numbers for the filter, whose meaning is its own."}, \
	{at "values[]", CTRL_INTEGER, "", NULL, 0, INT64_MAX, NULL, .help = "A number."},
/* clang-format on */

#endif
