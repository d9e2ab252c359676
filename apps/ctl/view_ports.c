/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "apps/ctl/get.h"
#include "apps/ctl/table.h"
#include "apps/ctl/units.h"
#include "apps/ctl/views.h"

/* Results and bulk together. */
static double
both(json_t *port, const char *what)
{
	json_t *value = get(port, what);

	if (json_is_number(value))
		return json_number_value(value);
	return get_number(value, "results") + get_number(value, "bulk");
}

void
view_ports(json_t *answer, FILE *out, unsigned int width)
{
	static const struct table_column columns[] = {
		{"PORT", 0, 1, 0},
		{"LINK", 0, 0, 0},
		{"DEVICE", 0, 1, 4},
		{"MAC", 0, 0, 5},
		{"MTU", 1, 0, 6},
		{"RX PACKETS", 1, 0, 0},
		{"RX BYTES", 1, 0, 1},
		{"TX PACKETS", 1, 0, 0},
		{"TX BYTES", 1, 0, 1},
		{"QUEUE FULL", 1, 0, 0},
		{"MISSED", 1, 0, 0},
	};
	json_t *list = get(answer, "ports");
	struct table *table = table_create(columns, 11);

	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *p = json_array_get(list, i);

		table_cell(table, "%s", get_text(p, "name"));
		table_cell(table, "%s",
			!json_is_boolean(get(p, "up")) ? "-"
				: get_true(p, "up")    ? "up"
						       : "down");
		table_cell(table, "%s", get_text(p, "device"));
		table_cell(table, "%s", get_text(p, "mac"));
		table_cell(table, "%s", units_exact(get_number(p, "mtu")).text);
		table_cell(table, "%s", units_exact(get_number(p, "rx_packets")).text);
		table_cell(table, "%s", units_bytes(get_number(p, "rx_bytes")).text);
		table_cell(table, "%s", units_exact(both(p, "tx_packets")).text);
		table_cell(table, "%s", units_bytes(both(p, "tx_bytes")).text);
		table_cell(table, "%s", units_exact(both(p, "queue_full")).text);
		table_cell(table, "%s", units_exact(get_number(p, "missed")).text);
	}
	table_print(table, out, width);
	table_destroy(table);
}
