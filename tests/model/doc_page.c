/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/model/doc_page.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *
doc_read(const char *name)
{
	const char *root = getenv("WEIR_SOURCE");
	char path[4096];
	char *text = NULL;
	long size;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root != NULL ? root : ".", name);
	file = fopen(path, "r");
	if (file == NULL) {
		perror(path);
		return NULL;
	}
	if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0) {
		rewind(file);
		text = calloc(1, (size_t)size + 1);
		if (text != NULL && fread(text, 1, (size_t)size, file) != (size_t)size) {
			free(text);
			text = NULL;
		}
	}
	fclose(file);
	return text;
}

static const char *
next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end == NULL ? line + strlen(line) : end + 1;
}

static bool
line_is(const char *line, const char *text)
{
	size_t length = strlen(text);

	return strncmp(line, text, length) == 0 && (line[length] == '\n' || line[length] == 0);
}

/* Level of a heading's line, 0 for other lines. */
static size_t
level(const char *line)
{
	size_t n = strspn(line, "#");

	return line[n] == ' ' ? n : 0;
}

static char *
trimmed(const char *from, const char *to)
{
	while (from < to && isblank((unsigned char)*from))
		from++;
	while (from < to && isblank((unsigned char)to[-1]))
		to--;
	if (to - from >= 2 && *from == '`' && to[-1] == '`' &&
		memchr(from + 1, '`', (size_t)(to - from - 2)) == NULL) {
		from++;
		to--;
	}
	return strndup(from, (size_t)(to - from));
}

static unsigned int
split(const char *line, char *cell[DOC_CELLS])
{
	const char *end = line + strcspn(line, "\n");
	unsigned int n = 0;

	for (line++; line < end && n < DOC_CELLS; n++) {
		const char *bar = memchr(line, '|', (size_t)(end - line));

		if (bar == NULL)
			break;
		cell[n] = trimmed(line, bar);
		line = bar + 1;
	}
	return n;
}

int
doc_table(const char *page, const char *heading, struct doc_table *table)
{
	const char *line = page;
	unsigned int head = 0;

	memset(table, 0, sizeof(*table));
	while (*line != 0 && !line_is(line, heading))
		line = next_line(line);
	if (*line != 0) {
		size_t own = level(line);

		for (line = next_line(line); *line != 0; line = next_line(line)) {
			if (level(line) != 0 && level(line) <= own)
				break;
			if (*line != '|') {
				if (head > 0)
					break;
				continue;
			}
			/* Two lines of head: names, dashes. */
			if (head++ < 2 || table->rows == DOC_ROWS)
				continue;
			split(line, table->cell[table->rows++]);
		}
	}
	while (table->cells < DOC_CELLS && table->cell[0][table->cells] != NULL)
		table->cells++;
	if (table->rows > 0)
		return 0;
	fprintf(stderr, "no table under \"%s\"\n", heading);
	return -1;
}

void
doc_table_free(struct doc_table *table)
{
	for (unsigned int r = 0; r < table->rows; r++)
		for (unsigned int c = 0; c < DOC_CELLS; c++)
			free(table->cell[r][c]);
	table->rows = 0;
}

char *
doc_block(const char **at, const char *kind)
{
	const char *line = *at, *end;
	char fence[64];

	snprintf(fence, sizeof(fence), "```%s", kind);
	while (*line != 0 && !line_is(line, fence))
		line = next_line(line);
	if (*line == 0)
		return NULL;
	line = next_line(line);
	for (end = line; *end != 0 && !line_is(end, "```");)
		end = next_line(end);
	*at = next_line(end);
	return strndup(line, (size_t)(end - line));
}

unsigned int
doc_line(const char *page, const char *at)
{
	unsigned int line = 1;

	for (; page < at; page++)
		line += *page == '\n';
	return line;
}
