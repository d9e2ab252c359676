-- SPDX-License-Identifier: BSD-3-Clause
-- Ordinary frames from port 0 through the switch to port 1, at the sizes of RFC 2544. A size of
-- 9000 needs Pktgen's -j and ports with that MTU.
local here = debug.getinfo(1, "S").source:match("^@(.*/)") or "./"
local measure = dofile(here .. "measure.lua")
local SIZES = "64 128 256 512 1024 1280 1518"

-- Send a few frames from the destination, so that the switch learns its port.
local function teach()
	pktgen.set_mac("0", "src", "02:12:00:00:00:01")
	pktgen.set_mac("0", "dst", "02:13:00:00:00:01")
	pktgen.set_mac("1", "src", "02:13:00:00:00:01")
	pktgen.set_mac("1", "dst", "02:12:00:00:00:01")
	pktgen.set_ipaddr("0", "src", "198.18.0.1/15")
	pktgen.set_ipaddr("0", "dst", "198.19.0.1")
	pktgen.set_ipaddr("1", "src", "198.19.0.1/15")
	pktgen.set_ipaddr("1", "dst", "198.18.0.1")
	pktgen.set("1", "count", 4)
	pktgen.start("1")
	pktgen.delay(500)
	pktgen.stop("1")
	pktgen.set("0", "count", 0)
end

measure.main(function()
	measure.link(0)
	measure.link(1)
	teach()
	measure.line("%8s %12s %12s %10s %10s", "bytes", "sent/s", "received/s", "Gbit/s", "loss %")
	for _, size in ipairs(measure.numbers("WEIR_SIZES", SIZES)) do
		pktgen.set("0", "size", size)
		local r = measure.run(0, 1, measure.rate)
		measure.line("%8d %12.0f %12.0f %10.3f %10.4f", size, r.tx_rate, r.rx_rate,
			r.rx_bits / 1e9, r.loss)
	end
end)
