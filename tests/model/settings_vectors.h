/* SPDX-License-Identifier: BSD-3-Clause */
/* What may follow the right entries of a list of settings, and what hosts and switches do then:
 * docs/protocol.md, "The list of settings". */
#ifndef TESTS_MODEL_SETTINGS_VECTORS_H
#define TESTS_MODEL_SETTINGS_VECTORS_H

#include "pktbuf/wire/settings.h"

struct settings_vector {
	const char *about;
	uint8_t entries[8];
	uint8_t bytes;
	int8_t longer; /* by how many bytes the list's length is wrong */
	enum { SETTINGS_TAKEN, SETTINGS_UNKNOWN, SETTINGS_MALFORMED } is;
	uint8_t unknown; /* the code that must be known */
};

static const struct settings_vector settings_vectors[] = {
	{"nothing", .is = SETTINGS_TAKEN},
	{"a setting that may be skipped", {0x7f, 3, 1, 2, 3}, 5, .is = SETTINGS_TAKEN},
	{"the same without a value", {0x7f, 0}, 2, .is = SETTINGS_TAKEN},
	{"a setting that must be known", {0xff, 1, 1}, 3, .is = SETTINGS_UNKNOWN, .unknown = 127},
	{"two of them", {0xfe, 0, 0xfd, 0}, 4, .is = SETTINGS_UNKNOWN, .unknown = 126},
	{"a repeated one", {0x7f, 0, 0xff, 0}, 4, .is = SETTINGS_MALFORMED},
	{"a known one, repeated", {0x81, 2, 0, 4}, 4, .is = SETTINGS_MALFORMED},
	{"a known one of another length", {0x8c, 2, 0, 1}, 4, .is = SETTINGS_MALFORMED},
	{"type 0", {0x80, 1, 1}, 3, .is = SETTINGS_MALFORMED},
	{"an entry without a length", {0x7f}, 1, .is = SETTINGS_MALFORMED},
	{"an entry that is cut off", {0x7f, 3, 1, 2}, 4, .is = SETTINGS_MALFORMED},
	{"a list that is cut off", {0x7f, 3, 1, 2}, 4, .longer = 1, .is = SETTINGS_MALFORMED},
	{"a byte behind the list", {0x7f, 0, 0}, 3, .longer = -1, .is = SETTINGS_MALFORMED},
};

#define NB_SETTINGS_VECTORS (sizeof(settings_vectors) / sizeof(settings_vectors[0]))

#endif
