/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/mpi/offload_priv.h"

static _Atomic uint64_t counts[OFFLOAD_COLLECTIVES][2]; /* by MPI, and on Weir */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define JOBS_MAX 8 /* named in the line that is printed, and in the report */
static char jobs[JOBS_MAX][JOB_NAME_MAX]; /* the first ones */
static unsigned int n_jobs, n_reused; /* all */

const char *
collective_text(unsigned int collective)
{
	static const char *const texts[] = {
#define OFFLOAD_X(id, mpi, name, ...) [WEIR_COLLECTIVE_##id] = #name,
		OFFLOAD_LIST(OFFLOAD_X)
#undef OFFLOAD_X
	};

	return texts[collective];
}

void
count_call(enum weir_collective collective, bool offloaded)
{
	atomic_fetch_add_explicit(&counts[collective][offloaded], 1, memory_order_relaxed);
}

/* Once for each reason. */
static void
say_why(const struct offload_comm *comm, enum weir_collective collective, enum reason reason)
{
	static const char *const texts[] = {
#define X(name, text) [REASON_##name] = text,
		REASON_LIST(X)
#undef X
	};
	static _Atomic bool said[REASONS];

	if (comm->rank == 0 && settings.verbose > 0 && texts[reason] != NULL &&
		!atomic_exchange(&said[reason], true))
		say(1, "%s on %s runs on MPI, as do others for the same reason: %s",
			collective_text(collective), comm->name, texts[reason]);
}

void
count_mpi(const struct offload_comm *comm, enum weir_collective collective, enum reason reason)
{
	count_call(collective, false);
	say_why(comm, collective, reason);
}

void
offload_persistent(const struct offload_comm *comm, enum weir_collective collective)
{
	if (comm != NULL)
		say_why(comm, collective, REASON_PERSISTENT);
}

void
report_job(const char *job)
{
	pthread_mutex_lock(&lock);
	if (job != NULL && n_jobs < JOBS_MAX)
		memcpy(jobs[n_jobs], job, JOB_NAME_MAX);
	n_jobs += job != NULL;
	n_reused += job == NULL;
	pthread_mutex_unlock(&lock);
}

static void
write_report(int rank)
{
	char path[OFFLOAD_TEXT_MAX + 32];
	FILE *file;

	snprintf(path, sizeof(path), "%s.%d.json", settings.report, rank);
	file = fopen(path, "we");
	if (file == NULL) {
		say(0, "%s: %m", path);
		return;
	}
	fprintf(file, "{\"rank\": %d, \"jobs\": %u, \"reused\": %u", rank, n_jobs, n_reused);
	for (unsigned int on = 0; on < 2; on++) {
		const char *comma = "";

		fprintf(file, ", \"%s\": {", on ? "offloaded" : "mpi");
		for (unsigned int i = 0; i < OFFLOAD_COLLECTIVES; i++, comma = ", ")
			fprintf(file, "%s\"%s\": %llu", comma, collective_text(i),
				(unsigned long long)atomic_load(&counts[i][on]));
		fprintf(file, "}");
	}
	fprintf(file, "}\n");
	if (fclose(file) != 0)
		say(0, "%s: %m", path);
}

void
report_finalize(void)
{
	const char *comma = ":";
	char *line = NULL;
	size_t bytes;
	FILE *out;
	int rank = 0;
	unsigned long long calls = 0, offloaded = 0;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (strlen(settings.report) == sizeof(settings.report) - 1)
		say(0, "WEIR_MPI_REPORT is too long: there is no report");
	else if (settings.report[0] != '\0')
		write_report(rank);
	out = settings.verbose > 0 ? open_memstream(&line, &bytes) : NULL;
	if (out == NULL)
		return;
	for (unsigned int i = 0; i < OFFLOAD_COLLECTIVES; i++) {
		unsigned long long on = atomic_load(&counts[i][1]);

		calls += atomic_load(&counts[i][0]) + on;
		offloaded += on;
		if (on > 0)
			fprintf(out, "%s %s %llu", comma, collective_text(i), on);
		comma = offloaded > 0 ? "," : comma;
	}
	for (unsigned int i = 0; i < n_jobs && i < JOBS_MAX; i++)
		fprintf(out, "%s%.*s", i == 0 ? " (job " : ", ", JOB_NAME_MAX, jobs[i]);
	if (n_jobs > JOBS_MAX)
		fprintf(out, " and %u more", n_jobs - JOBS_MAX);
	fclose(out);
	say(1, "rank %d: offloaded %llu of %llu collectives%s%s", rank, offloaded, calls, line,
		n_jobs > 0 ? ")" : "");
	free(line);
}

void
say(int level, const char *format, ...)
{
	char text[1400];
	va_list args;

	if ((int)settings.verbose < level)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "weir: %s\n", text);
}

int
error_code(const char *format, ...)
{
	static int class = MPI_ERR_OTHER;
	char text[MPI_MAX_ERROR_STRING];
	int code = MPI_ERR_OTHER;
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	pthread_mutex_lock(&lock);
	if (class == MPI_ERR_OTHER && PMPI_Add_error_class(&class) == MPI_SUCCESS)
		PMPI_Add_error_string(class, "an operation on Weir failed");
	if (PMPI_Add_error_code(class, &code) == MPI_SUCCESS)
		PMPI_Add_error_string(code, text);
	pthread_mutex_unlock(&lock);
	say(0, "%s", text);
	return code;
}

/* The value of a variable; 0, with a message, if that is not a number. */
static uint64_t
number(const char *variable)
{
	const char *text = secure_getenv(variable);
	unsigned long long value;
	char *end;

	if (text == NULL || text[0] == '\0')
		return 0;
	errno = 0;
	value = strtoull(text, &end, 0);
	if (errno == 0 && *end == '\0' && strchr(text, '-') == NULL)
		return value;
	say(0, "%s: \"%.64s\" is not a number: it is ignored", variable, text);
	return 0;
}

void
offload_environment(struct offload_settings *to)
{
	const char *text;

	memset(to, 0, sizeof(*to));
#define NUMBER(field, variable) to->field = number(variable);
#define FLAG(field, variable)   to->field = number(variable) != 0;
#define TEXT(field, variable)                                                                      \
	text = secure_getenv(variable);                                                            \
	snprintf(to->field, sizeof(to->field), "%s", text != NULL ? text : "");
#define OFFLOAD_X(field, name, variable, type, help) type(field, variable)
	OFFLOAD_SETTING_LIST(OFFLOAD_X)
#undef OFFLOAD_X
#undef NUMBER
#undef FLAG
#undef TEXT
}

/* Not `verbose` and `report`, which other threads read without a lock. */
void
offload_take(struct offload_settings *own, const struct offload_settings *other)
{
	if (own->switch_address[0] != '\0' || other->switch_address[0] == '\0')
		return;
#define OFFLOAD_X(field, ...)                                                                      \
	if ((void *)&own->field != &own->verbose && (void *)&own->field != own->report)            \
		memcpy(&own->field, &other->field, sizeof(own->field));
	OFFLOAD_SETTING_LIST(OFFLOAD_X)
#undef OFFLOAD_X
}
