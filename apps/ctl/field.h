/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of an operation's query or body as options of weirctl: --timeout-ms is timeout_ms. */
#ifndef APPS_CTL_FIELD_H
#define APPS_CTL_FIELD_H

#include <jansson.h>
#include <stdbool.h>

#include "apps/report/options.h"
#include "ctrl/config/schema.h"

#define CTL_PERCENT     "percent" /* the unit of a share, which the API has in parts per million */
#define CTL_NAMES       "names" /* the unit of a list of texts; other lists are of numbers */
#define CTL_SECONDS_MAX 3600 /* of a time */
#define CTL_FIELDS_MAX  64 /* of a command, the end included */

struct ctl_field {
	const struct ctrl_key *key; /* NULL: the end of a list */
	const char *value; /* NULL: not given */
	bool set; /* of a flag */
	char *name, *argument, *help; /* of its option, once it has one */
};

/* The option of a key; its texts are the field's. dry_run: set by --dry-run. */
struct option_row ctl_field_row(struct ctl_field *field, bool *dry_run);

/* The value that was given, as the API takes it: new; NULL: none was. Ends the program when it is none. */
json_t *ctl_field_value(const struct ctl_field *field);

/* Say what is wrong with the command line, and end the program. */
void ctl_wrong(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
