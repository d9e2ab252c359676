/* SPDX-License-Identifier: BSD-3-Clause */
#include "apps/capture/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcap/pcap.h>

#include "apps/capture/plan.h"

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
