/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/switch/reload.h"

#include <string.h>

#include <bsd/string.h>

#include "ctrl/jobs/reload.h"

/* The reason names every key and may be longer than ctrl_log_quote takes. */
static void
say_refused(const struct ctrl_log_who *who, const char *reason)
{
	char text[CTRL_ERROR_BYTES];

	strlcpy(text, reason, sizeof(text));
	for (char *p = text; *p != '\0'; p++)
		if (*p == '"' || *p == '\\')
			*p = '\'';
	ctrl_log_change(who, "reload refused", "reason=\"%s\"", text);
}

/* Any step may refuse except the last, which cannot be undone. */
static int
take(struct ctrl_config *next, struct ctrl_running *running, struct api_server *server,
	const struct ctrl_log_who *who, char *error)
{
	struct ctrl_reloaded *done = &running->reloading.did;
	struct ctrl_refusal why;
	int rc = ctrl_reload_check(running->config, next, error, CTRL_ERROR_BYTES);

	if (rc == 0)
		rc = api_server_stage(server, next, error, CTRL_ERROR_BYTES);
	if (rc < 0)
		return rc;
	rc = ctrl_reload_apply(running, next, who, done, &why);
	if (rc < 0) {
		api_server_unstage(server);
		strlcpy(error, why.message, CTRL_ERROR_BYTES);
		return rc;
	}
	done->certificate = api_server_commit(server, next);
	ctrl_log_change_levels(&next->log);
	ctrl_log_change(who, "configuration reloaded",
		"jobs_created=%u jobs_changed=%u jobs_replaced=%u jobs_deleted=%u tenants=%u "
		"certificate=%s",
		done->created, done->changed, done->replaced, done->deleted, next->api.nb_tenants,
		done->certificate ? "new" : "same");
	return 0;
}

void
reload(const char *path, struct ctrl_config **config, struct ctrl_running *running,
	struct api_server *server, const struct ctrl_log_who *who)
{
	struct ctrl_reloading *reloading = &running->reloading;
	struct ctrl_config *next, *former = *config;
	char error[CTRL_ERROR_BYTES];
	int rc = ctrl_config_load(path, &next, error, sizeof(error));

	if (rc == 0)
		rc = take(next, running, server, who, error);
	reloading->done = reloading->asked;
	strlcpy(reloading->refused, rc < 0 ? error : "", sizeof(reloading->refused));
	if (rc == 0) {
		char **argv = former->argv;

		/* EAL may keep pointers into its argv: keep the former one, which is equal. */
		former->argv = next->argv;
		next->argv = argv;
		*config = next;
		ctrl_config_destroy(former);
		return;
	}
	say_refused(who, error);
	ctrl_config_destroy(next);
}
