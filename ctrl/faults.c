/* SPDX-License-Identifier: BSD-3-Clause */
#include "ctrl/faults.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ctrl/log.h"

static int
refuse(struct ctrl_refusal *why, int rc)
{
	*why = (struct ctrl_refusal){
		.code = rc == -EBUSY ? CTRL_REFUSED_BUSY : CTRL_REFUSED_MEMORY};
	snprintf(why->message, sizeof(why->message), "the faults can't be set: %s",
		rc == -EBUSY ? "a worker does not turn" : strerror(-rc));
	return rc;
}

int
ctrl_faults_publish(
	struct ctrl_running *running, const struct ppe_faults *faults, struct ctrl_refusal *why)
{
	int rc = ppe_publish_faults(running->ppe, faults);

	return rc < 0 ? refuse(why, rc) : 0;
}

void
ctrl_faults_tell(const struct ppe_faults *faults, bool any, const struct ctrl_log_who *who)
{
	if (faults->nb_rules > 0)
		ctrl_log_change(who, "faults set", "rules=%u seed=%" PRIu64 " held=%u",
			faults->nb_rules, faults->seed, faults->held);
	else if (any)
		ctrl_log_change(who, "faults cleared", "rules=0");
}

int
ctrl_faults_set(struct ctrl_running *running, const struct ppe_faults *faults,
	const struct ctrl_log_who *who, struct ctrl_refusal *why)
{
	bool any = ppe_faults_of(running->ppe) != NULL;
	int rc = ctrl_faults_publish(running, faults, why);

	if (rc == 0)
		ctrl_faults_tell(faults, any, who);
	return rc;
}

/* Both come from zeroed memory and one reader: padding is zero, too. */
bool
ctrl_faults_equal(const struct ppe_faults *a, const struct ppe_faults *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}
