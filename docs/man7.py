#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir(7): what all programs have in common, made from the source.

    man7.py ROOT DATE FILE    write the page

The exit statuses are STATUS_LIST of apps/report/options.h.
"""
import os
import re
import sys

from man3 import escape, prose

PAGE = r'''.\" SPDX-License-Identifier: BSD-3-Clause
.Dd %(date)s
.Dt WEIR 7
.Os
.Sh NAME
.Nm weir
.Nd what the programs of Weir have in common
.Sh DESCRIPTION
.Nm Weir
is a software switch that runs collectives inside the network.
.Bl -tag -width "weir-capture(1)"
.It Xr weir-switch 8
the switch
.It Xr weirctl 1
inspects and changes a running switch, and runs MPI programs on it
.It Xr weir-perf 1
measures collectives from the hosts
.It Xr weir-bench 1
measures a switch and its limits
.It Xr weir-faults 1
plays scenarios of losses, stragglers and dead hosts
.It Xr weir-capture 1
writes captures for packet generators
.El
.Pp
Programs of hosts use libweir, see
.Xr weir 3 .
All programs have
.Fl -help
and
.Fl -version .
Where a program has
.Fl -json ,
it prints JSON on standard output, and its tables on standard error;
.Fl -json Ns = Ns Ar file
writes the JSON into a file.
.Pp
A
.Ar time
is a number followed by ns, us, ms, s, min or h, such as 50ms; the page of a
program says in what unit a number alone is.
A
.Ar size
is in bytes; K, M and G are powers of 1024.
.Sh EXIT STATUS
.Bl -tag -width 1n
%(statuses)s
.El
.Pp
A line on standard error gives the reason.
.Nm weirctl Cm run
ends as its command does, with 127 if the command is not found and 126 if it
cannot be started.
.Sh SEE ALSO
.Xr weir-bench 1 ,
.Xr weir-capture 1 ,
.Xr weir-faults 1 ,
.Xr weir-perf 1 ,
.Xr weirctl 1 ,
.Xr weir 3 ,
.Xr weir-switch 8 ;
.Pa /usr/share/doc/weir
.Sh AUTHORS
.An The authors of Weir
'''


def items(rows):
    """The items of a list: [(mdoc of the tag, text)]."""
    return '\n'.join('.It %s\n%s' % (tag, '\n'.join(prose(text))) for tag, text in rows)


def sentence(text):
    return text[0].upper() + text[1:] + '.'


def statuses(root):
    with open(os.path.join(root, 'apps', 'report', 'options.h')) as file:
        found = re.findall(r'\bX\((?:[A-Z]+), (\d+), "(.*)"\)', file.read())
    return items((value, sentence(text)) for value, text in found)


def page(root, date):
    return PAGE % {'date': escape(date), 'statuses': statuses(root)}


if __name__ == '__main__':
    with open(sys.argv[3], 'w') as made:
        made.write(page(sys.argv[1], sys.argv[2]))
