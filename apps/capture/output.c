/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/capture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <pcap/pcap.h>

struct output {
	FILE *file;
	pcap_t *format;
	pcap_dumper_t *dumper; /* owns `file` */
	uint64_t gap_ns, now_ns, unit_ns;
};

int
output_open(struct output **out, const struct output_config *config)
{
	struct output *o = calloc(1, sizeof(*o));
	int rc;

	*out = NULL;
	if (o == NULL)
		return -ENOMEM;
	o->gap_ns = config->gap_ns;
	o->unit_ns = config->nanoseconds ? 1 : 1000;
	o->format = pcap_open_dead_with_tstamp_precision(DLT_EN10MB, CAPTURE_FRAME_MAX,
		config->nanoseconds ? PCAP_TSTAMP_PRECISION_NANO : PCAP_TSTAMP_PRECISION_MICRO);
	errno = 0;
	o->file = strcmp(config->path, "-") == 0 ? stdout : fopen(config->path, "wb");
	rc = errno != 0 ? -errno : -EIO;
	if (o->format != NULL && o->file != NULL)
		o->dumper = pcap_dump_fopen(o->format, o->file);
	if (o->dumper == NULL) {
		if (o->file != NULL && o->file != stdout)
			fclose(o->file);
		if (o->format != NULL)
			pcap_close(o->format);
		free(o);
		return rc;
	}
	*out = o;
	return 0;
}

int
output_frame(struct output *o, const uint8_t *frame, size_t bytes)
{
	struct pcap_pkthdr header = {.caplen = (bpf_u_int32)bytes, .len = (bpf_u_int32)bytes};

	header.ts.tv_sec = (time_t)(o->now_ns / 1000000000);
	header.ts.tv_usec = (suseconds_t)(o->now_ns % 1000000000 / o->unit_ns);
	o->now_ns += o->gap_ns;
	/* libpcap keeps the stream's errors to itself; stdio does not. */
	errno = 0;
	pcap_dump((u_char *)o->dumper, &header, frame);
	if (!ferror(o->file))
		return 0;
	return errno != 0 ? -errno : -EIO;
}

int
output_close(struct output *o)
{
	int rc = 0;

	if (o == NULL)
		return 0;
	errno = 0;
	if (ferror(o->file) || pcap_dump_flush(o->dumper) != 0)
		rc = errno != 0 ? -errno : -EIO;
	pcap_dump_close(o->dumper);
	pcap_close(o->format);
	free(o);
	return rc;
}

struct summary {
	const struct plan *plan;
	FILE *expect;
	bool sums; /* are made */
	uint64_t frames, bytes, duplicates, blocks;
	double sum; /* of all elements of all results */
	uint8_t *result;
};

int
summary_open(struct summary **out, const struct plan *plan, const char *expect)
{
	struct summary *s = calloc(1, sizeof(*s));
	int rc = -ENOMEM;

	*out = NULL;
	if (s == NULL)
		return rc;
	s->plan = plan;
	s->sums = plan->nb_sizes == 0 && (!plan->endless || expect != NULL);
	s->result = malloc((size_t)plan->elements * 4 + 1);
	if (s->result != NULL && expect != NULL) {
		s->expect = fopen(expect, "w");
		rc = -errno;
	}
	if (s->result == NULL || (expect != NULL && s->expect == NULL)) {
		summary_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

void
summary_frame(struct summary *s, size_t bytes)
{
	s->frames++;
	s->bytes += bytes;
}

/* {"block": 7, "payload": "0000803f..."}: the bytes as they are on the wire. */
static int
print_result(const struct summary *s, uint32_t block)
{
	fprintf(s->expect, "{\"block\": %" PRIu32 ", \"payload\": \"",
		ppe_job_block(&s->plan->job, block));
	for (size_t i = 0; i < (size_t)s->plan->elements * 4; i++)
		fprintf(s->expect, "%02x", s->result[i]);
	fputs("\"}\n", s->expect);
	return ferror(s->expect) ? -EIO : 0;
}

int
summary_contribution(struct summary *s, const struct order_step *step, uint32_t block, size_t bytes)
{
	summary_frame(s, bytes);
	s->duplicates += step->duplicate;
	s->blocks += step->completes;
	if (!step->completes || !s->sums)
		return 0;
	frame_result(s->plan, block, s->result);
	s->sum += frame_total(s->plan, s->result);
	return s->expect == NULL ? 0 : print_result(s, block);
}

static const char *
type_text(const struct plan *plan)
{
	return plan->job.dtype == WEIR_DTYPE_INT32 ? "int32" : "fp32";
}

static void
print_json(const struct summary *s, const struct output_config *output, FILE *out)
{
	static const char *const orders[] = {"blocks", "sources", "random"};
	const struct plan *p = s->plan;
	json_t *object = json_pack("{ss sI sI}", "file", output->path, "frames",
		(json_int_t)s->frames, "bytes", (json_int_t)s->bytes);
	json_t *job = p->nb_sizes > 0
		? NULL
		: json_pack("{sI sI si si si si si sI si sI ss ss ss sI}", "blocks",
			  (json_int_t)s->blocks, "duplicates", (json_int_t)s->duplicates, "job",
			  p->job.id, "generation", p->job.fixed_generation, "sources",
			  p->nb_sources, "window", p->job.window, "elements", p->elements, "first",
			  (json_int_t)p->first, "block_bits", 32 - p->job.block_shift,
			  "frame_bytes", (json_int_t)plan_frame_bytes(p), "type", type_text(p),
			  "form", p->extended ? "extended" : "base", "order", orders[p->order],
			  "seed", (json_int_t)p->seed);

	if (job != NULL) {
		json_object_update(object, job);
		json_decref(job);
	}
	if (s->sums)
		json_object_set_new(object, "sum", json_real(s->sum));
	json_dumpf(object, out, 0);
	fputc('\n', out);
	json_decref(object);
}

void
summary_print(const struct summary *s, const struct output_config *output, bool json)
{
	FILE *out = strcmp(output->path, "-") == 0 ? stderr : stdout;
	const struct plan *p = s->plan;

	if (json) {
		print_json(s, output, out);
		return;
	}
	fprintf(out, "%s: %" PRIu64 " frames of %" PRIu64 " bytes in all", output->path, s->frames,
		s->bytes);
	if (p->nb_sizes == 0)
		fprintf(out,
			"; %" PRIu64
			" blocks of job %u, generation %u, from %u sources, %u %s each",
			s->blocks, p->job.id, p->job.fixed_generation, p->nb_sources, p->elements,
			type_text(p));
	if (s->duplicates > 0)
		fprintf(out, ", %" PRIu64 " repeats", s->duplicates);
	fputc('\n', out);
}

int
summary_close(struct summary *s)
{
	int rc = 0;

	if (s == NULL)
		return 0;
	if (s->expect != NULL && fclose(s->expect) != 0)
		rc = -errno;
	free(s->result);
	free(s);
	return rc;
}
