/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-bench engine: contributions that lie in mbufs already, through the real program, beside the
 * same vector operations alone. How many contributions to a block arrive together (order.h) decides
 * what a batch gains. --authenticate measures each point a second time, with tags; --integrity
 * likewise, with CRCs.
 *
 * With several lcores each worker has a port, and jobs whose sources all sit there; a contribution
 * belongs to another worker's shard with a given probability, and then hops. The limit of n lcores
 * is n times what one does, which the point before has measured.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apps/bench/program.h"
#include "pktbuf/wire/wire.h"

#define COUNTED_LEAST 5000u
#define COUNTED_MOST  32768u
#define RANKS         4 /* of a source of a spine */
#define TRIES         5 /* of a point, until every worker got the CPU */

static struct option_list threads = {1, {20}}, sources = {1, {8}}, window = {1, {64}},
			  elements = {3, {64, 256, 1024}}, lcores = {1, {1}}, far = {1, {0}},
			  jobs = {1, {1}}, filter_values;
static uint64_t burst = 32, frames = 4096, packets;
static bool authenticate, integrity, deterministic, count, lone, linked;
static struct option_texts settings;
static const char *role = "switch", *type = "all", *order = "runs", *checksum = "none",
		  *results = "unicast", *isa = "auto", *traffic = "aggregate", *filter, *program,
		  *frames_file;

static const struct option_row options[] = {
	{"lcores", 0, OPTION_LIST, &lcores, 1, 16, NULL, "worker lcores; each needs a CPU"},
	{"far", 0, OPTION_LIST, &far, 0, 99, NULL,
		"with more than one: per cent of the contributions that hop to another"},
	{"type", 0, OPTION_CHOICE, &type, 0, 0, "int32|fp32|all", "type of the elements"},
	{"traffic", 0, OPTION_CHOICE, &traffic, 0, 0, "aggregate|forward",
		"contributions, or ordinary frames of their size to a known station"},
	{"packets", 0, OPTION_UINT, &packets, 0, 100000000, NULL,
		"for callgrind: collect only this number of packets, and print no figures"},
	{"count", 0, OPTION_FLAG, &count, 0, 0, NULL,
		"also count instructions with valgrind, some seconds for each point; not those of "
		"authenticated jobs"},
	{"threads", 0, OPTION_LIST, &threads, 1, 64, NULL, "thread contexts per lcore"},
	{"sources", 0, OPTION_LIST, &sources, 2, 256, NULL, "contributions to a block"},
	{"window", 0, OPTION_LIST, &window, 1, 4096, NULL, "blocks in flight, powers of two"},
	{"elements", 0, OPTION_LIST, &elements, 1, 2048, NULL, "elements of a contribution"},
	{"jobs", 0, OPTION_LIST, &jobs, 1, 256, NULL,
		"jobs of each lcore at once; they share the blocks that one has under way, and "
		"have at least 2 each"},
	{"order", 0, OPTION_CHOICE, &order, 0, 0, "runs|block|source|random",
		"order of arrival: runs of contributions of a source at a time, sources up to half "
		"a window apart; block by block; half a window of a source at a time; half a "
		"window shuffled"},
	{"checksum", 0, OPTION_CHOICE, &checksum, 0, 0, "none|software",
		"UDP checksums: neither verified nor computed, or by software both"},
	{"results", 0, OPTION_CHOICE, &results, 0, 0, "unicast|multicast",
		"a result for each source, or one for all"},
	{"authenticate", 0, OPTION_FLAG, &authenticate, 0, 0, NULL,
		"each point a second time, as an authenticated job; hosts' tags take no time"},
	{"integrity", 0, OPTION_FLAG, &integrity, 0, 0, NULL,
		"each point a second time, as a job with integrity crc32c; hosts' CRCs take no "
		"time. With --packets, only that"},
	{"role", 0, OPTION_CHOICE, &role, 0, 0, "switch|leaf|spine",
		"of the switch: alone; in a tree with hosts and a parent that answers at once; "
		"with switches of 4 ranks each as sources"},
	{"lone", 0, OPTION_FLAG, &lone, 0, 0, NULL,
		"one block at a time: from its last contribution to its results"},
	{"deterministic", 0, OPTION_FLAG, &deterministic, 0, 0, NULL,
		"add floating-point contributions in the order of their sources"},
	{"burst", 0, OPTION_UINT, &burst, 1, 256, NULL, "packets per poll"},
	{"frames", 0, OPTION_UINT, &frames, 1, 1000000, NULL,
		"mbufs in rotation per lcore, at least sources x window"},
	{"isa", 0, OPTION_CHOICE, &isa, 0, 0, "auto|scalar|avx2|avx512", "widest vectors"},
	{"filter", 0, OPTION_TEXT, &filter, 0, 0, "FILE",
		"a filter that sees all packets: docs/filters.md"},
	{"filter-values", 0, OPTION_LIST, &filter_values, 0, INT64_MAX, NULL, "its values"},
	{"program", 0, OPTION_TEXT, &program, 0, 0, "FILE",
		"instead of contributions, the frames of --frames-file through this program on one "
		"lcore; "
		"of the options above, only threads, burst, count, packets and isa"},
	{"frames-file", 0, OPTION_TEXT, &frames_file, 0, 0, "FILE",
		"description of the frames, JSON: docs/write-a-program.md"},
	{"setting", 0, OPTION_TEXTS, &settings, 0, 0, "KEY=VALUE", "of the program; once for each"},
	{"linked", 0, OPTION_FLAG, &linked, 0, 0, NULL,
		"of vectorsum: also the copy that is linked into weir-bench, in turn; with "
		"--packets, only that"},
	{0},
};

/* bench.h: kind, value, key, title, unit, width, digits */
#define COLUMNS(X)                                                                                 \
	X(NUMBER, w->workers, "lcores", "lcores", NULL, 0, 0)                                      \
	X(NUMBER, w->jobs, "jobs", "jobs", NULL, 0, 0)                                             \
	X(NUMBER, w->threads, "threads", "threads", NULL, 0, 0)                                    \
	X(NUMBER, w->sources, "sources", "sources", NULL, 0, 0)                                    \
	X(NUMBER, w->window, "window", "window", NULL, 0, 0)                                       \
	X(NUMBER, w->elements, "elements", "elements", NULL, 0, 0)                                 \
	X(TEXT, weir_dtype_text(w->type), "type", "type", NULL, 0, 0)                              \
	X(TEXT, role, "role", NULL, NULL, 0, 0)                                                    \
	X(TEXT, order, "order", NULL, NULL, 0, 0)                                                  \
	X(TEXT, checksum, "checksum", NULL, NULL, 0, 0)                                            \
	X(TEXT, results, "results", NULL, NULL, 0, 0)                                              \
	X(NUMBER, burst, "burst", NULL, NULL, 0, 0)                                                \
	X(TEXT, isa, "isa", NULL, NULL, 0, 0)                                                      \
	X(NUMBER, w->copies * w->depth * w->jobs * w->sources, "frames", NULL, NULL, 0, 0)         \
	X(BOOL, deterministic, "deterministic", NULL, NULL, 0, 0)                                  \
	X(BOOL, w->authenticated, "authenticated", NULL, NULL, 0, 0)                               \
	X(BOOL, w->checked, "integrity", NULL, NULL, 0, 0)                                         \
	X(BOOL, bench_on_huge_pages, "huge_pages", NULL, NULL, 0, 0)                               \
	X(TEXT, traffic, "traffic", NULL, NULL, 0, 0)                                              \
	X(NUMBER, time, "time", "time", "ns/packet", 9, 1)                                         \
	X(NUMBER, r * 1e-6, "rate", "rate", "Mpps", 8, 3)                                          \
	X(NUMBER, r *gbits, "payload", "payload", "Gbit/s", 9, 1)                                  \
	X(NUMBER, r *gbits / q, "bare", "bare", "Gbit/s", 9, 1)                                    \
	X(NUMBER, q, "ratio", "ratio", NULL, 6, 3)                                                 \
	X(NUMBER, r *gbits / k, "kway", "k-way", "Gbit/s", 0, 1)                                   \
	X(NUMBER, w->far, "far", "far", NULL, 0, 2)                                                \
	X(NUMBER, hops, "hops", "hops", "/packet", 0, 2)                                           \
	X(NUMBER, w->far > 0 ? (time - near) / hops : BENCH_NONE, "hop", "hop", "ns", 6, 1)        \
	X(NUMBER, limit *gbits, "many", "n x one", "Gbit/s", 7, 1)                                 \
	X(NUMBER, r / limit, "scaled", "scaled", NULL, 0, 3)                                       \
	X(NUMBER, without *gbits, "plain", "plain", "Gbit/s", 7, 1)                                \
	X(NUMBER, r / without, "kept", "kept", NULL, 0, 3)                                         \
	X(NUMBER, instructions, "instructions", NULL, NULL, 0, 0)                                  \
	X(BOOL, disturbed, "disturbed", NULL, NULL, 0, 0)                                          \
	X(TEXT, disturbed ? "*" : "", NULL, "", NULL, -1, 0)
static const struct table_column columns[] = {COLUMNS(BENCH_COLUMN)};

#define LONE_COLUMNS(X)                                                                            \
	X(NUMBER, w->elements, "elements", "elements", NULL, 0, 0)                                 \
	X(TEXT, weir_dtype_text(w->type), "type", "type", NULL, 0, 0)                              \
	X(TEXT, role, "role", "role", NULL, 6, 0)                                                  \
	X(NUMBER, 1e-3 * result.latency_ns, "latency", "latency", "us", 0, 2)                      \
	X(NUMBER, 1e-3 * result.up_ns, "latency_up", "up", "us", 6, 2)
static const struct table_column lone_columns[] = {LONE_COLUMNS(BENCH_COLUMN)};

/* What points before this one have measured of the same work: the rate of one lcore; ns per packet
 * with as many lcores and no hops; the rate without tags. BENCH_NONE: there was no such point. */
static double alone, near, plain;

double
bench_instructions(const char *words)
{
	char command[8192], line[512] = "";
	double counted = 0, instructions = 0;
	FILE *said;

	snprintf(command, sizeof(command),
		"exec valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no "
		"--fair-sched=yes --callgrind-out-file=/dev/null '%s' engine --huge no %s 2>&1",
		bench_self(), words);
	said = popen(command, "re");
	while (said != NULL && fgets(line, sizeof(line), said) != NULL) {
		(void)sscanf(line, "counted %lf", &counted);
		(void)sscanf(line, "==%*d== Collected : %lf", &instructions);
	}
	if (said != NULL && pclose(said) == 0 && counted > 0 && instructions > 0)
		return instructions / counted;
	line[strcspn(line, "\n")] = '\0';
	warnx("instructions are not counted: valgrind (is it installed?) said: %s", line);
	return BENCH_NONE;
}

/* Instructions per packet of the point: of whole laps, unless they are long. */
static double
count_point(const struct generator_work *w)
{
	unsigned int lap = w->copies * w->depth * w->jobs * w->sources,
		     n = RTE_MIN(lap, COUNTED_MOST);
	char words[2048];
	size_t used;

	snprintf(words, sizeof(words),
		"--packets %u "
		"--lcores %u --far %.0f --type %s --traffic %s --threads %u --sources %u --window "
		"%u --elements %u --jobs %u --order %s --checksum %s --results %s --burst %u --isa "
		"%s --frames %" PRIu64 " --role %s%s%s",
		n * ((COUNTED_LEAST + n - 1) / n), w->workers, 100 * w->far,
		weir_dtype_text(w->type), traffic, w->threads, w->sources, w->window, w->elements,
		w->jobs, order, checksum, results, w->burst, isa, frames, role,
		w->checked ? " --integrity" : "", deterministic ? " --deterministic" : "");
	used = strlen(words);
	if (filter != NULL)
		used += (size_t)snprintf(
			words + used, sizeof(words) - used, " --filter '%s'", filter);
	for (unsigned int i = 0; i < filter_values.count && used < sizeof(words); i++)
		used += (size_t)snprintf(words + used, sizeof(words) - used, "%s%" PRIu64,
			i == 0 ? " --filter-values " : ",", filter_values.value[i]);
	return bench_instructions(words);
}

/* Medians over the samples; the ratio is that of pairs. */
static void
add_row(const struct generator_work *w, const struct generator_result *result)
{
	double rate[BENCH_REPEAT_MAX], ratio[BENCH_REPEAT_MAX], cpu[BENCH_REPEAT_MAX];
	double together[BENCH_REPEAT_MAX];
	double gbits = w->elements * weir_dtype_bytes(w->type) * 8e-9, r, q, k, time, limit;
	double hops = (double)result->hops / (double)result->contributions, without;
	bool again = w->authenticated || w->checked; /* as the row before, with tags or CRCs */
	double instructions = count && !w->authenticated ? count_point(w) : BENCH_NONE;
	bool disturbed;

	for (unsigned int n = 0; n < result->samples; n++) {
		rate[n] = result->sample[n].rate[PHASE_SWITCH];
		ratio[n] = rate[n] / result->sample[n].rate[PHASE_BARE];
		together[n] = rate[n] / result->sample[n].rate[PHASE_BARE_TOGETHER];
		cpu[n] = result->sample[n].cpu;
	}
	disturbed = bench_median(cpu, result->samples) < GENERATOR_CPU;
	r = bench_median(rate, result->samples);
	/* The limits are put so that value / limit is the median of the pairs' ratios. */
	q = w->forward ? BENCH_NONE : bench_median(ratio, result->samples);
	k = w->forward ? BENCH_NONE : bench_median(together, result->samples);
	time = 1e9 * w->workers / r;
	if (w->workers == 1 && !again)
		alone = r;
	if (w->far <= 0 && !again)
		near = time;
	without = again ? plain : BENCH_NONE;
	if (!again)
		plain = r;
	limit = w->workers > 1 ? alone * w->workers : BENCH_NONE;
	bench_row((struct table_cell[]){COLUMNS(BENCH_CELL)});
}

static unsigned int memory_needed;

static int
count_memory(const struct generator_work *w)
{
	unsigned int ranks = w->role == ROLE_LEAF ? 2 : RANKS; /* in the tree, for each source */

	memory_needed = RTE_MAX(memory_needed, generator_memory_mb(w));
	if (!rte_is_power_of_2(w->window) || w->window < w->workers)
		warnx("--window %u must be a power of two, and at least --lcores", w->window);
	else if (w->jobs * w->workers > WEIR_JOBS_MAX)
		warnx("--jobs %u on each of %u lcores: a switch has at most %d", w->jobs,
			w->workers, WEIR_JOBS_MAX);
	else if (w->role != ROLE_SWITCH && w->sources * ranks > WEIR_SOURCES_MAX)
		warnx("--role %s: at most %u --sources", role, WEIR_SOURCES_MAX / ranks);
	else
		return 0;
	return -1;
}

static int
measure(const struct generator_work *w)
{
	struct generator_result result;
	unsigned int tries = 0;

	do {
		if (generator_run(w, &result) < 0)
			return -1;
	} while (packets == 0 && !lone && result.samples == 0 && ++tries < TRIES);
	if (lone)
		bench_row((struct table_cell[]){LONE_COLUMNS(BENCH_CELL)});
	else if (packets != 0)
		printf("counted %" PRIu64 " packets\n", result.counted);
	else if (result.samples > 0)
		add_row(w, &result);
	else
		warnx("other processes left the workers no time to measure");
	return result.samples > 0 || packets != 0 || lone ? 0 : -1;
}

/* Call `each` for every point of the sweep. */
static int
sweep(int (*each)(const struct generator_work *work))
{
	static struct option_list types = {2, {WEIR_DTYPE_INT32, WEIR_DTYPE_FP32}};
	/* The last one varies fastest: what add_row compares follows each other. */
	const struct option_list *list[] = {
		&threads, &sources, &window, &jobs, &elements, &types, &lcores, &far};
	/* Plain, with tags, with CRCs. */
	const bool forms[] = {!(integrity && packets != 0), authenticate, integrity};
	unsigned int at[RTE_DIM(list)] = {0}, i;

	do {
		struct generator_work w = {
			.threads = (unsigned int)threads.value[at[0]],
			.sources = (unsigned int)sources.value[at[1]],
			.window = (unsigned int)window.value[at[2]],
			.jobs = (unsigned int)jobs.value[at[3]],
			.elements = (unsigned int)elements.value[at[4]],
			.type = (enum weir_dtype)types.value[at[5]],
			.workers = (unsigned int)lcores.value[at[6]],
			.far = lcores.value[at[6]] > 1 ? (double)far.value[at[7]] / 100 : 0,
			.burst = (unsigned int)burst,
			.order = lone || order[0] == 'b' ? ORDER_BLOCK
				: order[0] == 's'        ? ORDER_SOURCE
				: order[1] == 'a'        ? ORDER_RANDOM
							 : ORDER_RUNS,
			.lone = lone,
			.checksum = checksum[0] == 's',
			.multicast = results[0] == 'm',
			.deterministic = deterministic,
			.forward = traffic[0] == 'f',
			.role = role[0] == 'l'   ? ROLE_LEAF
				: role[1] == 'p' ? ROLE_SPINE
						 : ROLE_SWITCH,
			.ranks = RANKS,
			.isa = rmw_isa_parse(isa),
			.repeat = (unsigned int)bench_common.repeat,
			.phase_ms = (unsigned int)bench_common.phase_ms,
			.packets = packets,
			.filter = filter,
			.filter_values = &filter_values,
		};
		bool chosen =
			(strcmp(type, "all") == 0 || strcmp(type, weir_dtype_text(w.type)) == 0) &&
			/* One lcore has no other to hop to. */
			(w.workers > 1 || at[7] == 0);

		if (at[6] + at[7] == 0)
			alone = BENCH_NONE;
		if (at[7] == 0)
			near = BENCH_NONE;
		generator_fit(&w, (unsigned int)frames);
		for (unsigned int f = 0; f < RTE_DIM(forms) && chosen; f++) {
			w.authenticated = f == 1;
			w.checked = f == 2;
			if (forms[f] && each(&w) < 0)
				return -1;
		}
		for (i = RTE_DIM(at); i > 0 && ++at[i - 1] == list[i - 1]->count; i--)
			at[i - 1] = 0;
	} while (i > 0);
	return 0;
}

/* What is wrong with the options; NULL: nothing. */
static const char *
refusal(unsigned int most_lcores)
{
	bool plain_only = traffic[0] == 'f' || checksum[0] == 's';

	if ((authenticate || integrity) && plain_only)
		return "--authenticate, --integrity: only with --traffic aggregate and --checksum "
		       "none";
	if (strcmp(role, "switch") != 0 &&
		(authenticate || plain_only || results[0] == 'm' || most_lcores > 1))
		return "--role leaf and spine: only with one lcore, unicast results, --traffic "
		       "aggregate, --checksum none, and without --authenticate";
	if (lone &&
		(packets != 0 || plain_only || authenticate || integrity || most_lcores > 1 ||
			jobs.count > 1 || jobs.value[0] > 1))
		return "--lone: only with one lcore and job, --traffic aggregate, --checksum none, "
		       "and without --packets, --authenticate and --integrity";
	if ((packets != 0 || count) && !BENCH_CAN_COLLECT)
		return "built without valgrind's header";
	if (packets == 0 && most_lcores > bench_cpus())
		return "--lcores: this process may use fewer CPUs, and each lcore needs one";
	return NULL;
}

static int
run_program(void)
{
	const struct program_options asked = {.file = program,
		.frames = frames_file,
		.settings = &settings,
		.linked = linked,
		.count = count,
		.work = {.workers = 1,
			.threads = (unsigned int)threads.value[0],
			.burst = (unsigned int)burst,
			.isa = rmw_isa_parse(isa),
			.repeat = (unsigned int)bench_common.repeat,
			.phase_ms = (unsigned int)bench_common.phase_ms,
			.packets = packets}};

	if (program != NULL && frames_file != NULL &&
		(BENCH_CAN_COLLECT || (packets == 0 && !count)))
		return program_run(&asked);
	warnx(program == NULL || frames_file == NULL ? "--program and --frames-file need each other"
						     : "built without valgrind's header");
	return STATUS_USAGE;
}

static int
run(void)
{
	unsigned int most = 0;
	int rc;

	if (program != NULL || frames_file != NULL)
		return run_program();
	for (unsigned int i = 0; i < lcores.count; i++)
		most = RTE_MAX(most, (unsigned int)lcores.value[i]);
	if (refusal(most) != NULL) {
		warnx("%s", refusal(most));
		return STATUS_USAGE;
	}
	if (sweep(count_memory) < 0 || bench_start_eal(most, memory_needed) < 0)
		return STATUS_USAGE;
	if (lone) {
		bench_table(lone_columns, RTE_DIM(lone_columns));
	} else if (packets == 0) {
		bench_note("%s, order %s%s, checksums %s, results %s, burst %" PRIu64 ", %s pages",
			traffic, order, deterministic ? ", deterministic" : "", checksum, results,
			burst, bench_on_huge_pages ? "huge" : "small");
		bench_note(
			"bare: the same vector operations on the same frames, alone, in the same "
			"run; k-way: 8 contributions added in one pass; times are CPU time");
		bench_note("*: other processes had the CPU, and its caches, for more than a tenth "
			   "of most phases");
		bench_table(columns, RTE_DIM(columns));
	}
	rc = sweep(measure);
	bench_stop_eal();
	return rc < 0 ? 1 : 0;
}

const struct bench bench_engine = {
	.name = "engine",
	.help = "contributions through the real program on one lcore or more, beside the bare "
		"kernel",
	.options = options,
	.run = run,
};
