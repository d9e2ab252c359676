-- SPDX-License-Identifier: BSD-3-Clause
-- Replay the capture of port 0 (-s 0:FILE) in a loop: contributions to the switch, results back.
-- With unicast results there is one result for each contribution; the difference is loss.
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local measure = dofile(here .. "measure.lua")

measure.main(function()
	measure.link(0)
	local r = measure.run(0, 0, measure.rate)
	measure.line("%14s %14s %10s %10s %10s", "contributions/s", "results/s", "Gbit/s in",
		"Gbit/s out", "loss %")
	measure.line("%15.0f %14.0f %10.3f %10.3f %10.4f", r.tx_rate, r.rx_rate, r.tx_bits / 1e9,
		r.rx_bits / 1e9, r.loss)
end)
