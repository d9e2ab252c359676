/* SPDX-License-Identifier: BSD-3-Clause */
/* libweir without libcurl: hosts join by addresses alone. */
#include "apps/libweir/control.h"

#include <errno.h>

#include "apps/libweir/handle.h"

int
weir_control_prepare(struct weir_handle *h, const struct weir_config *config)
{
	(void)config;
	return weir_error_set(h, -EOPNOTSUPP,
		"this libweir was built without the control API (meson -Dhost_control=false): give "
		"switch_address, address, job and source, and unset WEIR_SWITCH");
}

int
weir_control_join(struct weir_handle *h, uint64_t deadline, uint64_t *again)
{
	(void)h;
	(void)deadline;
	(void)again;
	return -EOPNOTSUPP;
}

int
weir_control_rejoin(struct weir_handle *h, uint64_t deadline)
{
	(void)h;
	(void)deadline;
	return 0;
}

int
weir_control_query(struct weir_handle *h, const uint8_t *present, char *text, size_t size)
{
	(void)h;
	(void)present;
	if (size > 0)
		text[0] = '\0';
	return 0;
}

bool
weir_control_temporary(const struct weir_handle *h)
{
	(void)h;
	return false;
}

void
weir_control_leave(struct weir_control *control)
{
	(void)control;
}
