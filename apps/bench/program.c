/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/bench/program.h"

#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mempool.h>

#include "apps/bench/generator_priv.h"
#include "ctrl/programs/child.h"
#include "ctrl/programs/file.h"
#include "ctrl/programs/settings.h"
#include "ppe/load.h"

#define FRAMES_MAX  65536
#define HEAD_MAX    512 /* bytes of `hex` */
#define FIELDS_MAX  16
#define BYTES_MAX   9216
#define ANSWERS     8192 /* mbufs that the switch has */
#define WARM_UP_MS  10
#define PATIENCE_MS 10000 /* times 60 under callgrind */
#define COUNTED     8192
#define MEMORY_MB   192u /* and the frames */

/* The copy of vectorsum that is linked (apps/bench/meson.build). */
extern const struct ppe_program_file bench_linked;

/* The description of frames. */
struct description {
	unsigned int frames, bytes, head_bytes, nb_fields;
	uint8_t head[HEAD_MAX];
	struct field {
		int offset, bytes;
		json_int_t first, step, each, count;
	} field[FIELDS_MAX];
};

struct loadable {
	const struct ppe_program *program;
	struct ppe_value *values;
};

/* A switch and what it is fed with. The worker writes; the main thread sets `go` and reads `finished`. */
struct feeder {
	const struct description *description;
	const struct generator_work *work;
	struct rte_ring *ring[2]; /* to send, to receive */
	struct rte_mempool *pool;
	int port; /* ethdev */
	const struct rte_eth_rxtx_callback *callback;
	struct ppe *ppe;
	uint64_t given, sent, aside, began;
	struct stretch measured;
	bool go, finished, counting, paused;
};

static bool
read_hex(struct description *d, const char *text)
{
	for (int n; text != NULL && *text != '\0'; text += n)
		if (d->head_bytes == HEAD_MAX ||
			sscanf(text, "%2hhx%n", &d->head[d->head_bytes++], &n) != 1)
			return false;
	return text != NULL;
}

static bool
read_fields(struct description *d, const json_t *fields, json_error_t *error)
{
	const json_t *item;
	size_t i;

	json_array_foreach (fields, i, item) {
		struct field *f = &d->field[d->nb_fields++];

		*f = (struct field){.step = 1, .each = 1};
		if (json_unpack_ex((json_t *)(uintptr_t)item, error, JSON_STRICT,
			    "{s:i, s:i, s?I, s?I, s?I, s?I}", "offset", &f->offset, "bytes",
			    &f->bytes, "first", &f->first, "step", &f->step, "each", &f->each,
			    "count", &f->count) != 0)
			return false;
		snprintf(error->text, sizeof(error->text),
			"fields[%zu]: not within hex, not of 1..8 bytes, a negative each or count, "
			"or one of more than %d",
			i, FIELDS_MAX - 1);
		if (f->offset < 0 || f->bytes < 1 || f->bytes > 8 || f->each < 1 || f->count < 0 ||
			f->offset + f->bytes > (int)d->head_bytes || i == FIELDS_MAX - 1)
			return false;
	}
	return true;
}

/* 0, or -1 after a line. */
static int
read_description(struct description *d, const char *path)
{
	json_t *root, *hex = NULL, *fields = NULL, *item;
	json_error_t error;
	bool right;
	size_t i;

	*d = (struct description){0};
	root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	right = root != NULL &&
		json_unpack_ex(root, &error, JSON_STRICT, "{s:i, s:i, s:o, s?o}", "frames",
			&d->frames, "bytes", &d->bytes, "hex", &hex, "fields", &fields) == 0;
	if (right) {
		json_array_foreach (hex, i, item)
			right = right && read_hex(d, json_string_value(item));
		snprintf(error.text, sizeof(error.text),
			"frames is not in 1..%d, bytes not in 60..%d, or hex not texts of "
			"hexadecimal digits for 14 to %d bytes, at most `bytes`",
			FRAMES_MAX, BYTES_MAX, HEAD_MAX);
		right = right && d->frames >= 1 && d->frames <= FRAMES_MAX && d->bytes >= 60 &&
			d->bytes <= BYTES_MAX && d->head_bytes >= 14 && d->head_bytes <= d->bytes &&
			read_fields(d, fields, &error);
	}
	if (!right)
		warnx("%s: %s", path, error.text);
	json_decref(root);
	return right ? 0 : -1;
}

/* Write the next frame. */
static inline void
write_frame(struct feeder *f, struct rte_mbuf *packet)
{
	const struct description *d = f->description;
	uint8_t *at = rte_pktmbuf_mtod(packet, uint8_t *);

	packet->data_len = (uint16_t)d->bytes;
	packet->pkt_len = d->bytes;
	memcpy(at, d->head, d->head_bytes);
	for (const struct field *field = d->field; field < d->field + d->nb_fields; field++) {
		uint64_t turn = f->given / (uint64_t)field->each, value;

		value = (uint64_t)field->first +
			(uint64_t)field->step *
				(field->count > 0 ? turn % (uint64_t)field->count : turn);
		for (int b = field->bytes; b-- > 0; value >>= 8)
			at[field->offset + b] = (uint8_t)value;
	}
	f->given++;
}

static void
drain(struct feeder *f)
{
	struct rte_mbuf *packets[64];
	unsigned int n;

	while ((n = rte_ring_sc_dequeue_burst(f->ring[0], (void **)packets, 64, NULL)) > 0) {
		rte_pktmbuf_free_bulk(packets, n);
		f->sent += n;
	}
}

static struct stamp
stamp(const struct feeder *f)
{
	uint64_t aside = (uint64_t)((double)f->aside * 1e9 / (double)rte_get_tsc_hz());

	return (struct stamp){.cpu_ns = bench_cpu_ns() - aside, .packets = f->given};
}

/* How many frames to give. What is measured begins and ends at a poll. */
static unsigned int
plan(struct feeder *f, uint64_t now, unsigned int max)
{
	const struct generator_work *w = f->work;
	uint64_t ms = rte_get_tsc_hz() / 1000, left;
	struct stretch *s = &f->measured;

	f->began = f->began == 0 ? now : f->began;
	if (w->packets == 0) {
		if (s->from.cpu_ns == 0 && now - f->began >= WARM_UP_MS * ms)
			s->from = stamp(f);
		/* With a round of frames at least: other processes may have the CPU for a while. */
		else if (!f->finished && now - f->began >= (WARM_UP_MS + w->phase_ms) * ms &&
			f->given - s->from.packets >= f->description->frames) {
			s->to = stamp(f);
			__atomic_store_n(&f->finished, true, __ATOMIC_RELEASE);
		}
		return max;
	}
	/* Before each end a poll gives nothing, so that no packet is counted that is not processed. */
	left = f->description->frames + (f->counting ? w->packets : 0) - f->given;
	if (left > 0 || !f->paused) {
		f->paused = left == 0;
		return RTE_MIN(max, (unsigned int)left);
	}
	f->paused = false;
	*(f->counting ? &s->to : &s->from) = stamp(f);
	__atomic_store_n(&f->finished, f->counting, __ATOMIC_RELEASE);
	f->counting = !f->counting;
	return 0;
}

/* The receive callback. */
static uint16_t
offer(uint16_t port __rte_unused, uint16_t queue __rte_unused, struct rte_mbuf *packets[],
	uint16_t n __rte_unused, uint16_t max, void *arg)
{
	struct feeder *f = arg;
	uint64_t now;
	unsigned int given = 0;

	drain(f);
	if (!__atomic_load_n(&f->go, __ATOMIC_ACQUIRE) || (f->finished && f->work->packets != 0))
		return 0;
	if (f->counting)
		BENCH_COLLECT_TOGGLE;
	now = rte_rdtsc();
	given = plan(f, now, RTE_MIN(max, rte_mempool_avail_count(f->pool)));
	if (given > 0 && rte_pktmbuf_alloc_bulk(f->pool, packets, given) < 0)
		given = 0;
	for (unsigned int i = 0; i < given; i++)
		write_frame(f, packets[i]);
	f->aside += rte_rdtsc() - now;
	if (f->counting)
		BENCH_COLLECT_TOGGLE;
	return (uint16_t)given;
}

/* Zeros, and all frames in turn: what was freed first is given first. */
static struct rte_mempool *
make_pool(const struct description *d, const char *name)
{
	struct rte_mempool *pool = rte_pktmbuf_pool_create_by_ops(name, d->frames, 0,
		PKTBUF_PRIV_BYTES, (uint16_t)(RTE_PKTMBUF_HEADROOM + RTE_MAX(d->bytes, 2048u)),
		SOCKET_ID_ANY, "ring_sp_sc");
	struct rte_mbuf *packet;

	for (unsigned int i = 0; pool != NULL && i < d->frames; i++) {
		packet = rte_pktmbuf_alloc(pool);
		memset(rte_pktmbuf_mtod(packet, void *), 0, d->bytes);
		rte_pktmbuf_free(packet);
	}
	return pool;
}

enum phase { LOADED, FED, GONE };

static bool
has_reached(struct feeder *f, enum phase phase)
{
	struct ppe_program_info info[PPE_PROGRAMS_MAX];
	unsigned int n;

	if (phase == FED)
		return __atomic_load_n(&f->finished, __ATOMIC_ACQUIRE);
	if (phase == GONE)
		return ppe_program_gone(f->ppe) != NULL;
	ppe_programs_tick(f->ppe);
	for (n = ppe_programs_read(f->ppe, info, PPE_PROGRAMS_MAX); n > 0; n--)
		if (info[n - 1].phase != PPE_PROGRAM_RUNNING)
			return false;
	return true;
}

/* false: it takes too long. */
static bool
await(struct feeder *f, enum phase phase)
{
	unsigned int patience = PATIENCE_MS * (f->work->packets != 0 ? 60 : 1);

	while (!has_reached(f, phase) && patience-- > 0)
		rte_delay_us_sleep(1000);
	return patience != UINT32_MAX;
}

/* Load the program, feed it, unload it. 0, or -1 after a line. */
static int
feed(struct feeder *f, const struct loadable *loadable)
{
	const char *name = loadable->program->name;
	int rc = ppe_program_load(f->ppe, loadable->program, loadable->values);

	if (rc < 0 || !await(f, LOADED)) {
		warnx("%s cannot be loaded: %s", name, strerror(-rc));
		return -1;
	}
	__atomic_store_n(&f->go, true, __ATOMIC_RELEASE);
	if (!await(f, FED)) {
		warnx("%s keeps its packets: no more after %" PRIu64, name, f->given);
		rc = -1;
	}
	__atomic_store_n(&f->go, false, __ATOMIC_RELEASE);
	rte_delay_us_sleep(5000);
	if (ppe_program_unload(f->ppe, name) < 0 || !await(f, GONE)) {
		warnx("%s does not go", name);
		rc = -1;
	}
	return rc;
}

static int
build(struct feeder *f)
{
	static unsigned int serial;
	struct ppe_config config = generator_config(f->work);
	struct pktbuf_port_config port;
	const struct ppe_jobs jobs = {0};
	char name[32];

	config.packets = ANSWERS;
	config.packet_bytes = RTE_MAX(config.packet_bytes, f->description->bytes);
	snprintf(name, sizeof(name), "frames%u", serial++);
	f->pool = make_pool(f->description, name);
	f->port = f->pool == NULL ? -1 : generator_port(0, 1, PKTBUF_CHECKSUM_OFF, &port, f->ring);
	if (f->port >= 0) {
		f->callback = rte_eth_add_rx_callback((uint16_t)f->port, 0, offer, f);
		f->ppe = ppe_create(&config, &port, 1, &jobs);
	}
	if (f->ppe == NULL)
		warnx("no memory for the switch");
	return f->ppe == NULL ? -1 : ppe_start(f->ppe);
}

/* A switch, and a stretch of packets through the program. 0, or -1 after a line. */
static int
measure(struct feeder *f, const struct program_options *o, const struct description *d,
	const struct loadable *loadable)
{
	struct ppe_stats stats;
	int rc;

	*f = (struct feeder){.description = d, .work = &o->work};
	rc = build(f) == 0 ? feed(f, loadable) : -1;
	if (f->ppe != NULL) {
		ppe_stop(f->ppe, 1000);
		drain(f);
		ppe_stats_read(f->ppe, &stats);
		if (generator_drops(&stats) >= f->given)
			rc = -1;
	}
	/* It would stay with the port's number, and meet the next switch. */
	if (f->callback != NULL) {
		rte_eth_remove_rx_callback((uint16_t)f->port, 0, f->callback);
		rte_free((void *)(uintptr_t)f->callback);
	}
	ppe_destroy(f->ppe, NULL);
	rte_ring_free(f->ring[0]);
	rte_ring_free(f->ring[1]);
	rte_mempool_free(f->pool);
	return rc;
}

/* Instructions per packet, counted by callgrind. */
static double
count(const struct program_options *o, bool linked)
{
	char words[4096];
	int n = snprintf(words, sizeof(words),
		"--packets %d --threads %u --burst %u --isa %s --program '%s' --frames-file '%s'%s",
		COUNTED, o->work.threads, o->work.burst, rmw_isa_name(o->work.isa), o->file,
		o->frames, linked ? " --linked" : "");

	for (unsigned int i = 0; i < o->settings->count && n < (int)sizeof(words); i++)
		n += snprintf(words + n, sizeof(words) - (size_t)n, " --setting '%s'",
			o->settings->text[i]);
	return bench_instructions(words);
}

/* words: KEY=VALUE, where VALUE is JSON, or else a text. 0, or negative after a line. */
static int
read_values(struct loadable *loadable, const struct option_texts *words)
{
	json_t *object = json_object(), *value;
	struct ctrl_error error;
	int rc;

	for (unsigned int i = 0; i < words->count; i++) {
		const char *word = words->text[i], *end = strchrnul(word, '='),
			   *text = end + (*end != '\0');

		value = json_loads(text, JSON_DECODE_ANY, NULL);
		json_object_setn_new(object, word, (size_t)(end - word),
			value != NULL ? value : json_string(text));
	}
	rc = ctrl_program_settings_read(
		loadable->program, object, "settings", &loadable->values, &error);
	if (rc < 0)
		warnx("%s: %s", ctrl_error_path(&error).text, error.text);
	json_decref(object);
	return rc;
}

#define COLUMNS(X)                                                                                 \
	X(TEXT, loadable[l].program->name, "program", "program", NULL, -12, 0)                     \
	X(TEXT, l == 0 ? "loaded" : "linked", "code", "code", NULL, -7, 0)                         \
	X(NUMBER, d->bytes, "bytes", "bytes", NULL, 0, 0)                                          \
	X(NUMBER, o->work.threads, "threads", "threads", NULL, 0, 0)                               \
	X(NUMBER, o->work.burst, "burst", NULL, NULL, 0, 0)                                        \
	X(NUMBER, time, "time", "time", "ns/packet", 9, 1)                                         \
	X(NUMBER, 1e3 / time, "rate", "rate", "Mpps", 8, 3)                                        \
	X(NUMBER, sent, "sent", "sent", "/packet", 8, 2)                                           \
	X(NUMBER, instructions, "instructions", "instructions", "/packet", 12, 0)                  \
	X(NUMBER, ratio, "ratio", "ratio", NULL, 6, 3)
static const struct table_column columns[] = {COLUMNS(BENCH_COLUMN)};

/* Measure both in turn, `repeat` times: the samples are ns per packet. Returns what was sent per packet; negative after a line. */
static double
sample_all(const struct program_options *o, const struct description *d,
	const struct loadable *loadable, double (*sample)[BENCH_REPEAT_MAX])
{
	struct feeder f;
	double sent = 0;

	for (unsigned int i = 0; i < 2 * o->work.repeat; i++) {
		unsigned int l = (i + i / 2) % 2; /* 0, 1, 1, 0: who is first in a pair */

		if (l == 1 ? !o->linked : o->linked && o->work.packets != 0)
			continue;
		if (measure(&f, o, d, &loadable[l]) < 0)
			return -1;
		sample[l][i / 2] = (double)(f.measured.to.cpu_ns - f.measured.from.cpu_ns) /
			(double)(f.measured.to.packets - f.measured.from.packets);
		sent = (double)f.sent / (double)f.given;
		if (o->work.packets != 0)
			break;
	}
	for (unsigned int r = 0; r < o->work.repeat; r++)
		sample[2][r] = sample[1][r] / sample[0][r];
	return sent;
}

static void
print(const struct program_options *o, const struct description *d, const struct loadable *loadable,
	double (*sample)[BENCH_REPEAT_MAX], double sent)
{
	bench_note("checksums none, burst %u, %s pages; linked: the copy in weir-bench, in turn",
		o->work.burst, bench_on_huge_pages ? "huge" : "small");
	bench_table(columns, RTE_DIM(columns));
	for (unsigned int l = 0; l < 1u + o->linked; l++) {
		double time = bench_median(sample[l], o->work.repeat);
		double ratio = l == 1 ? bench_median(sample[2], o->work.repeat) : BENCH_NONE;
		double instructions = o->count ? count(o, l == 1) : BENCH_NONE;

		bench_row((struct table_cell[]){COLUMNS(BENCH_CELL)});
	}
}

int
program_run(const struct program_options *o)
{
	struct ctrl_program_file file = {0};
	struct loadable loadable[2] = {{0}, {.program = bench_linked.program}};
	char *path = realpath(o->file, NULL), *name = strdup(path == NULL ? "" : path);
	double sample[3][BENCH_REPEAT_MAX] = {0}, sent;
	struct description d;
	int rc = STATUS_USAGE;

	ctrl_child_executable = bench_self();
	if (path == NULL)
		warn("%s", o->file);
	else if (ctrl_program_open(&file, dirname(path), basename(name)) < 0)
		warnx("%s", file.reason);
	loadable[0].program = file.program;
	if (file.program == NULL || read_description(&d, o->frames) < 0 ||
		read_values(&loadable[0], o->settings) < 0)
		goto end;
	if (o->linked && strcmp(file.program->name, bench_linked.program->name) != 0)
		warnx("--linked: only for %s", bench_linked.program->name);
	else if ((!o->linked || read_values(&loadable[1], o->settings) == 0) &&
		bench_start_eal(1, MEMORY_MB + d.frames * RTE_MAX(d.bytes + 512, 2560u) / 500000) ==
			0)
		rc = STATUS_FAILED;
	if (rc == STATUS_USAGE)
		goto end;
	sent = sample_all(o, &d, loadable, sample);
	if (sent >= 0 && o->work.packets != 0)
		printf("counted %" PRIu64 " packets\n", o->work.packets);
	else if (sent >= 0)
		print(o, &d, loadable, sample, sent);
	if (sent >= 0)
		rc = 0;
	bench_stop_eal();
end:
	free(loadable[0].values);
	free(loadable[1].values);
	ctrl_program_close(&file);
	free(path);
	free(name);
	return rc;
}
