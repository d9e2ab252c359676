/* SPDX-License-Identifier: BSD-3-Clause */
/* The key of an authenticated job, from its file. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctrl/config/config_priv.h"
#include "ctrl/config/regular.h"

#define DIGITS (2 * WEIR_KEY_BYTES)

static int
digit(int c)
{
	return isdigit(c) ? c - '0' : tolower(c) - 'a' + 10;
}

/* 64 hexadecimal digits, and white space around them. */
static bool
parse(const char *text, uint8_t key[WEIR_KEY_BYTES])
{
	text += strspn(text, " \t\r\n");
	for (unsigned int i = 0; i < WEIR_KEY_BYTES; i++, text += 2) {
		if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]))
			return false;
		key[i] = (uint8_t)(digit(text[0]) << 4 | digit(text[1]));
	}
	return text[strspn(text, " \t\r\n")] == '\0';
}

static int
read_file(struct ctrl_reading *reading, struct ctrl_path path, const char *name, FILE *file,
	uint8_t key[WEIR_KEY_BYTES])
{
	char text[DIGITS + 64];
	struct stat about;
	size_t n;

	if (fstat(fileno(file), &about) < 0)
		return ctrl_refuse(&reading->source, path, "%s: %s", name, strerror(errno));
	if ((about.st_mode & S_IRWXO) != 0)
		return ctrl_refuse(&reading->source, path,
			"%s may be read or changed by everybody: chmod o= it, and make another key",
			name);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	if (n == sizeof(text) - 1 || strlen(text) != n || !parse(text, key))
		return ctrl_refuse(&reading->source, path,
			"%s: a key is %u hexadecimal digits and nothing else; `openssl rand -hex "
			"%u` makes one",
			name, DIGITS, WEIR_KEY_BYTES);
	return 0;
}

int
ctrl_read_job_key(struct ctrl_reading *reading, unsigned int index, const char *name)
{
	struct ppe_job *job = &reading->config->job[index];
	struct ctrl_path path = ctrl_path("jobs[%u].key_file", index);
	const char *why;
	FILE *file;
	int fd, rc;

	if (name[0] == '\0')
		return 0;
	if (job->fixed_generation != 0)
		return ctrl_refuse(&reading->source, path,
			"a job with a fixed generation has no joins, and so no fresh keys: it "
			"can't "
			"be authenticated");
	fd = ctrl_open_regular(name, &why);
	if (fd < 0)
		return ctrl_refuse(&reading->source, path, "%s: %s", name, why);
	file = fdopen(fd, "r");
	if (file == NULL) {
		close(fd);
		return -ENOMEM;
	}
	rc = read_file(reading, path, name, file, job->key);
	fclose(file);
	job->authenticated = rc == 0;
	return rc;
}
