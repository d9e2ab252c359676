/* SPDX-License-Identifier: BSD-3-Clause */
/* weirctl simulate: a frame, typed or of a capture, and what the switch would do with it. weirctl program graph. */
#include "apps/ctl/ctl.h"

#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apps/ctl/get.h"

#define FRAME_MAX 9728

/* -- captures: pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng) */

#define PCAP_MICROSECONDS 0xa1b2c3d4
#define PCAP_NANOSECONDS  0xa1b23c4d
#define PCAPNG_SECTION    0x0a0d0d0a /* also a block's type, in both byte orders */
#define PCAPNG_ORDER      0x1a2b3c4d
#define BLOCK_SIMPLE      3
#define BLOCK_ENHANCED    6
#define BLOCK_MAX         (1u << 24)

struct capture {
	FILE *file;
	const char *name;
	bool swapped;
};

static void __attribute__((noreturn)) no_capture(const struct capture *c)
{
	errx(CTL_USAGE,
		"%s: no capture of Ethernet frames in pcap or pcapng format, or it is cut off",
		c->name);
}

static uint32_t
read32(const struct capture *c)
{
	uint32_t value;

	if (fread(&value, sizeof(value), 1, c->file) != 1)
		no_capture(c);
	return c->swapped ? __builtin_bswap32(value) : value;
}

static void
skip(const struct capture *c, uint32_t bytes)
{
	if (bytes > BLOCK_MAX || fseek(c->file, (long)bytes, SEEK_CUR) != 0)
		no_capture(c);
}

/* Go to the frame with this number, from 1. Returns its bytes; 0: there are fewer. */
static uint32_t
find_pcap(const struct capture *c, unsigned long number)
{
	uint32_t bytes = 0;
	int next;

	skip(c, 20);
	while (number-- > 0) {
		skip(c, bytes);
		next = getc(c->file);
		if (next == EOF)
			return 0;
		ungetc(next, c->file);
		skip(c, 8); /* the time */
		bytes = read32(c);
		skip(c, 4);
	}
	return bytes;
}

static uint32_t
find_pcapng(struct capture *c, unsigned long number)
{
	uint32_t length = 0, type = PCAPNG_SECTION, body;
	int next;

	for (bool first = true;; first = false) {
		if (!first) {
			skip(c, length);
			next = getc(c->file);
			if (next == EOF)
				return 0;
			ungetc(next, c->file);
			type = read32(c);
		}
		length = read32(c);
		if (type == PCAPNG_SECTION) {
			uint32_t order = read32(c);

			if (order != PCAPNG_ORDER) {
				c->swapped = !c->swapped;
				length = __builtin_bswap32(length);
			}
			length = length < 16 ? BLOCK_MAX + 1 : length - 12;
			continue;
		}
		if (length < 16)
			no_capture(c);
		length -= 8;
		if (type != BLOCK_ENHANCED && type != BLOCK_SIMPLE)
			continue;
		body = type == BLOCK_ENHANCED ? 16 : 4;
		if (--number > 0)
			continue;
		skip(c, type == BLOCK_ENHANCED ? 12 : 0);
		length = read32(
			c); /* bytes that were captured; of a simple block: that the frame had */
		if (type == BLOCK_ENHANCED)
			skip(c, body - 12);
		return length;
	}
}

/* A frame of a capture as hexadecimal digits; new. */
static char *
read_capture(const char *name, unsigned long number)
{
	struct capture c = {fopen(name, "rb"), name, false};
	uint32_t magic, bytes;
	char *hex = malloc(2 * FRAME_MAX + 1);

	if (c.file == NULL || hex == NULL)
		err(CTL_USAGE, "%s", name);
	magic = read32(&c);
	c.swapped = magic == __builtin_bswap32(PCAP_MICROSECONDS) ||
		magic == __builtin_bswap32(PCAP_NANOSECONDS);
	if (magic == PCAPNG_SECTION)
		bytes = find_pcapng(&c, number);
	else if (c.swapped || magic == PCAP_MICROSECONDS || magic == PCAP_NANOSECONDS)
		bytes = find_pcap(&c, number);
	else
		no_capture(&c);
	if (bytes == 0)
		errx(CTL_USAGE, "%s: there is no frame %lu", name, number);
	if (bytes > FRAME_MAX)
		errx(CTL_USAGE, "%s: frame %lu has %u bytes, but no port takes more than %d", name,
			number, bytes, FRAME_MAX);
	for (uint32_t i = 0; i < bytes; i++) {
		int byte = getc(c.file);

		if (byte == EOF)
			no_capture(&c);
		sprintf(hex + 2 * (size_t)i, "%02x", (unsigned int)byte);
	}
	fclose(c.file);
	return hex;
}

/* FRAME: hexadecimal digits, or FILE or FILE:N. */
static char *
frame_of(const char *word)
{
	char *name = strdup(word), *colon = strrchr(word, ':') == NULL ? NULL : strrchr(name, ':'),
	     *end, *hex;
	unsigned long number = 1;
	struct stat file;

	if (name == NULL)
		err(CTL_USAGE, "frame");
	if (stat(name, &file) != 0 && colon != NULL) {
		*colon = '\0';
		number = strtoul(colon + 1, &end, 10);
		if (*end != '\0' || number == 0)
			errx(CTL_USAGE, "%s: behind the colon is the number of a frame, from 1",
				word);
	}
	if (word[strspn(word, "0123456789abcdefABCDEF")] == '\0' && stat(name, &file) != 0) {
		free(name);
		return strdup(word);
	}
	hex = read_capture(name, number);
	free(name);
	return hex;
}

int
command_simulate(struct ctl *ctl)
{
	static const struct view_column columns[] = {
		{.title = "SEGMENT", .path = "segment"},
		{.title = "WHAT IT WOULD FIND", .path = "text", .flexible = 1},
	};
	char *hex = frame_of(ctl->options.words[0]);
	json_t *answer;

	json_object_set_new(ctl->options.fields, "frame", json_string(hex));
	free(hex);
	if (!ctl_ask(ctl, "POST", ctl->options.path, json_incref(ctl->options.fields), &answer))
		return ctl->status;
	text_printf(stdout, 9, ctl->width, "receive  %s", get_text(answer, "receive"));
	text_printf(stdout, 9, ctl->width, "program  %s", get_text(answer, "program"));
	text_printf(stdout, 9, ctl->width, "match    %s", get_text(answer, "match"));
	text_printf(stdout, 9, ctl->width, "end      %s: %s", get_text(answer, "end"),
		get_text(answer, "text"));
	if (json_array_size(get(answer, "steps")) > 0) {
		putchar('\n');
		VIEW_TABLE(columns, "Step", get(answer, "steps"), NULL, stdout, ctl->width);
	}
	json_decref(answer);
	return ctl->status;
}

/* -- the graph */

/* The words that begin with `prefix`, without it, behind `head`; NULL: those that begin with no prefix. */
static void
collect(char **line, json_t *words, const char *head, const char *prefix)
{
	size_t i, n = 0;
	json_t *word;

	json_array_foreach (words, i, word) {
		const char *text = json_string_value(word);
		bool plain = strncmp(text, "drop:", 5) != 0;
		char *longer;

		if (prefix == NULL ? !plain : strncmp(text, prefix, strlen(prefix)) != 0)
			continue;
		if (asprintf(&longer, "%s%s%s", *line, n++ == 0 ? head : " ",
			    text + (prefix == NULL ? 0 : strlen(prefix))) < 0)
			err(CTL_REFUSED, "graph");
		free(*line);
		*line = longer;
	}
}

static void
print_program(json_t *program, bool drops, unsigned int width)
{
	json_t *entry;
	char *line;
	size_t i;

	printf("%s\n", get_text(program, "name"));
	json_array_foreach (get(program, "matches"), i, entry)
		text_printf(stdout, 6, width, "  %s", json_string_value(entry));
	json_array_foreach (get(program, "segments"), i, entry) {
		if (asprintf(&line, "    %s", get_text(entry, "name")) < 0)
			err(CTL_REFUSED, "graph");
		collect(&line, get(entry, "leads_to"), ": ", NULL);
		if (drops)
			collect(&line, get(entry, "leads_to"), "; drop: ", "drop:");
		text_print(line, stdout, 8, width);
		free(line);
	}
}

/* Text for Graphviz, without drops, whose reasons would hide the rest. */
static void
print_dot(json_t *programs)
{
	json_t *program, *segment, *word;
	size_t p, s, w;

	puts("digraph weir {\n\trankdir=LR;\n\tnode [shape=box];");
	json_array_foreach (programs, p, program) {
		const char *name = get_text(program, "name");

		printf("\tsubgraph \"cluster_%s\" {\n\t\tlabel=\"%s\";\n", name, name);
		json_array_foreach (get(program, "segments"), s, segment) {
			const char *from = get_text(segment, "name");

			printf("\t\t\"%s/%s\" [label=\"%s\"];\n", name, from, from);
			json_array_foreach (get(segment, "leads_to"), w, word) {
				const char *to = json_string_value(word);
				bool hop = strncmp(to, "hop:", 4) == 0;

				if (strncmp(to, "drop:", 5) != 0)
					printf("\t\t\"%s/%s\" -> \"%s/%s\"%s;\n", name, from, name,
						hop ? to + 4 : to, hop ? " [style=dashed]" : "");
			}
		}
		puts("\t}");
	}
	puts("}");
}

int
command_program_graph(struct ctl *ctl)
{
	json_t *answer, *programs, *program;
	size_t i;

	if (!ctl_ask(ctl, "GET", ctl->options.path, NULL, &answer))
		return ctl->status;
	programs = get(answer, "programs");
	if (ctl->options.dot)
		print_dot(programs);
	else
		json_array_foreach (programs, i, program)
			print_program(program, ctl->options.drops, ctl->width);
	json_decref(answer);
	return ctl->status;
}
