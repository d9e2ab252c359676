#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir.json(5): the configuration of weir-switch, from the list of its keys (ctrl/config/keys.c).

    man5.py KEYS DATE FILE    write the page; KEYS is the program ctrl/document/keys.c
"""
import json
import os
import subprocess
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'ctrl', 'document'))

from man3 import escape, prose
from update import facts, plain

PAGE = r'''.\" SPDX-License-Identifier: BSD-3-Clause
.Dd %(date)s
.Dt WEIR.JSON 5
.Os
.Sh NAME
.Nm weir.json
.Nd configuration of weir-switch
.Sh DESCRIPTION
One JSON file configures a switch.
.Xr weir-switch 8
reads it at the start, and again on
.Dv SIGHUP .
It checks the file as a whole, and refuses it with the place and the reason if
anything is wrong; no key may occur twice, and no others are allowed.
.Ql weir-switch --check -c FILE
only checks it.
.Pp
A key of an object within an object is written with a dot, and
.Ql []
is any element of an array.
A required key must be present if its object is.
%(sections)s
.Sh FILES
.Bl -tag -width Ds
.It Pa /etc/weir/NAME.json
The configuration of
.Ql systemctl start weir-switch@NAME .
.It Pa /usr/share/weir/configs
Ready configurations.
.It Pa /usr/share/doc/weir/weir.schema.json
A JSON Schema of these keys, for editors and other programs.
.El
.Sh EXAMPLES
.Bd -literal
{
  "switch": { "address": "10.77.0.254/24" },
  "ports": [
    { "name": "p0", "device": "net_af_packet0,iface=eth1" },
    { "name": "p1", "device": "net_af_packet1,iface=eth2" }
  ],
  "api": { "open_jobs": 8 }
}
.Ed
.Sh SEE ALSO
.Xr weir 7 ,
.Xr weir-switch 8 ;
.Pa /usr/share/doc/weir/configuration.md
explains what goes together, and how to choose values.
.Sh AUTHORS
.An The authors of Weir
'''


def sections(keys):
    """A section for each key at the top that has keys in it; before them one for those that have none."""
    tops = [key['path'] for key in keys if not set(key['path']) & set('.[')]
    within = {top: [key for key in keys if key['path'] == top or key['path'].startswith((top + '.', top + '[]'))] for top in tops}
    lone = [within[top][0] for top in tops if len(within[top]) == 1]
    lines = []
    names = {'filters': 'PACKET FILTERS'}  # mandoc takes FILTERS for a mistake for FILES
    for title, rows in [('TOP LEVEL', lone)] + [(names.get(top, top.upper()), rows) for top, rows in within.items() if len(rows) > 1]:
        lines += ['.Sh ' + title, '.Bl -tag -width Ds']
        for key in rows:
            lines += ['.It Ic ' + escape(key['path'])] + prose(facts(key)[:1].upper() + facts(key)[1:] + '. ' + plain(key['help']))
        lines.append('.El')
    return '\n'.join(lines)


if __name__ == '__main__':
    listed = json.loads(subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, check=True).stdout)['keys']
    with open(sys.argv[3], 'w') as made:
        made.write(PAGE % {'date': sys.argv[2], 'sections': sections(listed)})
