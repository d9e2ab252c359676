-- SPDX-License-Identifier: BSD-3-Clause
-- Measure at rising rates, with a capture (-s 0:FILE) or without, to find where loss begins.
-- WEIR_BACK names the port where the answers arrive: 0 (results), or 1 (ordinary frames).
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local measure = dofile(here .. "measure.lua")

measure.main(function()
	local back = tonumber(os.getenv("WEIR_BACK") or 0)
	measure.link(0)
	measure.line("%8s %12s %12s %10s %10s %10s", "rate %", "sent/s", "received/s",
		"Gbit/s in", "Gbit/s out", "loss %")
	for _, rate in ipairs(measure.numbers("WEIR_RATES", "10 20 30 40 50 60 70 80 90 100")) do
		local r = measure.run(0, back, rate)
		measure.line("%8g %12.0f %12.0f %10.3f %10.3f %10.4f", rate, r.tx_rate, r.rx_rate,
			r.tx_bits / 1e9, r.rx_bits / 1e9, r.loss)
	end
end)
