/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings of a program, as the configuration and the control API have them: its list of struct
 * ppe_setting as a table of keys, so that they are checked as all others. */
#ifndef CTRL_PROGRAMS_SETTINGS_H
#define CTRL_PROGRAMS_SETTINGS_H

#include <jansson.h>

#include "ctrl/config/schema.h"
#include "ppe/program.h"

/* The settings as keys, for free(); NULL without memory. */
struct ctrl_key *ctrl_program_settings_keys(const struct ppe_program *program, size_t *count);

/*
 * Check an object, and read its values and the defaults. object: NULL is an empty one. at: its path
 * in the text, "programs[0].settings". *values: one for each setting, for free(); NULL if the
 * program has none. 0; -EINVAL with the error; -ENOMEM.
 */
int ctrl_program_settings_read(const struct ppe_program *program, json_t *object, const char *at,
	struct ppe_value **values, struct ctrl_error *error);

/* The values as an object; NULL without memory. */
json_t *ctrl_program_settings_json(
	const struct ppe_program *program, const struct ppe_value *values);

#endif
