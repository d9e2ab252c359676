/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl reload. */
#include "apps/ctl/ctl.h"
#include "apps/ctl/get.h"

static unsigned int
count(json_t *answer, const char *key)
{
	double number = get_number(answer, key);

	return number >= 0 && number <= 1e6 ? (unsigned int)number : 0;
}

int
command_reload(struct ctl *ctl)
{
	json_t *answer;

	if (!ctl_ask(ctl, "POST", "/v1/reload", NULL, &answer))
		return ctl->status;
	if (ctl_lacks(ctl, answer, "jobs_created"))
		ctl->status = CTL_REFUSED;
	else
		printf("reloaded: jobs created %u, changed %u, replaced %u, deleted %u; "
		       "%u tenants; certificate %s\n",
			count(answer, "jobs_created"), count(answer, "jobs_changed"),
			count(answer, "jobs_replaced"), count(answer, "jobs_deleted"),
			count(answer, "tenants"), get_text(answer, "certificate"));
	json_decref(answer);
	return ctl->status;
}
