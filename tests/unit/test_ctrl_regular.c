/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that a configuration names, and what else may stand in their places: nothing is waited
 * for. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctrl/config/config.h"
#include "ctrl/config/files.h"
#include "ctrl/jobs/state.h"

TestSuite(ctrl_regular, .timeout = 90);

static char folder[] = "/tmp/weir_regular_XXXXXX";
static char fifo[64], file[64];
static char error[CTRL_ERROR_BYTES];

static void
set_up(void)
{
	FILE *out;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(fifo, sizeof(fifo), "%s/fifo", folder);
	snprintf(file, sizeof(file), "%s/file", folder);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	out = fopen(file, "w");
	cr_assert_not_null(out);
	fclose(out);
}

static void
tear_down(void)
{
	unlink(fifo);
	unlink(file);
	rmdir(folder);
}

Test(ctrl_regular, special_files_are_refused, .init = set_up, .fini = tear_down)
{
	const char *const odd[] = {fifo, "/dev/zero", "/dev/null", "/dev/ptmx"};
	const char *why = NULL;
	int fd = ctrl_open_regular(file, &why);

	cr_expect_geq(fd, 0);
	close(fd);
	for (unsigned int i = 0; i < 4; i++) {
		cr_expect_eq(ctrl_open_regular(odd[i], &why), -1, "%s", odd[i]);
		cr_expect_eq(errno, EINVAL, "%s: %d", odd[i], errno);
		cr_expect_str_eq(why, "it is no regular file", "%s", odd[i]);
	}
	cr_expect_eq(ctrl_open_regular(folder, &why), -1);
	cr_expect_eq(errno, EISDIR);
	cr_expect_eq(ctrl_open_regular("/nowhere/at/all", &why), -1);
	cr_expect_eq(errno, ENOENT);
	cr_expect_str_eq(why, "No such file or directory");
}

/* In a configuration with one of these, which may not be the fifo. */
Test(ctrl_regular, a_key_or_a_certificate_is_none, .init = set_up, .fini = tear_down)
{
	static const struct {
		const char *before, *after, *place;
	} rows[] = {
		{"\"jobs\": [{\"id\": 1, \"name\": \"a\", \"sources\": [{\"id\": 0, \"address\": "
		 "\"10.77.0.1\"}],\n\"key_file\": \"",
			"\"}]", "x.json:4:13: jobs[0].key_file: "},
		{"\"api\": {\"tls\": {\n\"certificate\": \"", "\", \"key\": \"/nowhere\"}}",
			"x.json:4:16: api.tls.certificate: "},
		{"\"api\": {\"tls\": {\n\"key\": \"", "\", \"certificate\": \"/nowhere\"}}",
			"x.json:4:8: api.tls.key: "},
	};

	for (unsigned int i = 0; i < 3; i++) {
		struct ctrl_config *config;
		char text[2048], reason[256];

		snprintf(text, sizeof(text),
			"{\"switch\": {\"name\": \"s\", \"address\": \"10.77.0.254/24\"},\n"
			"\"ports\": [{\"name\": \"p0\", \"device\": \"net_null0\"}],\n%s%s%s}",
			rows[i].before, fifo, rows[i].after);
		snprintf(
			reason, sizeof(reason), "%s%s: it is no regular file", rows[i].place, fifo);
		cr_expect_eq(ctrl_config_parse(
				     text, strlen(text), "x.json", &config, error, sizeof(error)),
			-EINVAL, "%s", reason);
		cr_expect_str_eq(error, reason);
	}
}

Test(ctrl_regular, a_configuration_is_none, .init = set_up, .fini = tear_down)
{
	struct ctrl_config *config;
	char reason[128];

	cr_assert_eq(truncate(file, (4 << 20) + 1), 0);
	cr_expect_eq(ctrl_config_load(file, &config, error, sizeof(error)), -EFBIG);
	snprintf(reason, sizeof(reason), "%s: it is no regular file", fifo);
	cr_expect_eq(ctrl_config_load(fifo, &config, error, sizeof(error)), -EINVAL);
	cr_expect_str_eq(error, reason);
}

Test(ctrl_regular, a_state_is_none, .init = set_up, .fini = tear_down)
{
	json_t *state;
	char reason[128];

	snprintf(reason, sizeof(reason), "%s: it is no regular file", fifo);
	cr_expect_eq(ctrl_state_load(fifo, "s", &state, error, sizeof(error)), -EINVAL);
	cr_expect_str_eq(error, reason);
}
