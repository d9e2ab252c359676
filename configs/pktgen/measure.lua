-- SPDX-License-Identifier: BSD-3-Clause
-- Shared by the scripts in this folder, which load it. Do not pass it to Pktgen.
--
--   WEIR_SECONDS  length of a measurement, an integer (5)
--   WEIR_RATE     rate in percent of the link speed that Pktgen assumes (100)
--   WEIR_RATES    rates of a sweep (10 20 30 40 50 60 70 80 90 100)
--   WEIR_SIZES    sizes of ordinary frames, check sequence included
--   WEIR_TABLE    a file to write the table to, as well
local M = {}

M.seconds = math.tointeger(tonumber(os.getenv("WEIR_SECONDS") or 5))
M.rate = tonumber(os.getenv("WEIR_RATE") or 100)

-- The numbers in an environment variable, or in a default text.
function M.numbers(name, default)
	local list = {}
	for word in (os.getenv(name) or default):gmatch("[%d.]+") do
		list[#list + 1] = tonumber(word)
	end
	return list
end

local file = os.getenv("WEIR_TABLE") and assert(io.open(os.getenv("WEIR_TABLE"), "w"))

-- Print a line of the table on the screen and in the file.
function M.line(format, ...)
	local text = string.format(format, ...)
	io.write(text, "\r\n")
	io.flush()
	if file then
		file:write(text, "\n")
		file:flush()
	end
end

local function stats(port, kind)
	return pktgen.portStats(tostring(port), kind)[port]
end

-- Wait until the link is up; over memif, until the switch has answered.
function M.link(port)
	for _ = 1, 50 do
		if not tostring(pktgen.linkState(tostring(port))[port]):lower():find("down") then
			return
		end
		pktgen.delay(100)
	end
	error("port " .. port .. " has no link: does the switch run, with the same socket?")
end

-- Send from `port` at `rate` percent for the measurement's time, and count what arrives at `back`.
-- tx_rate, rx_rate, tx_bits and rx_bits are per second, means of what Pktgen reports each second.
-- loss is in percent of the packets sent, after the last ones have arrived.
function M.run(port, back, rate)
	local sums = { tx_rate = 0, rx_rate = 0, tx_bits = 0, rx_bits = 0 }
	pktgen.set(tostring(port), "rate", rate)
	pktgen.clr()
	pktgen.start(tostring(port))
	pktgen.delay(1500)
	for _ = 1, M.seconds do
		pktgen.delay(1000)
		local tx, rx = stats(port, "rate"), stats(back, "rate")
		sums.tx_rate = sums.tx_rate + tx.opackets / M.seconds
		sums.rx_rate = sums.rx_rate + rx.ipackets / M.seconds
		sums.tx_bits = sums.tx_bits + tx.obytes * 8 / M.seconds
		sums.rx_bits = sums.rx_bits + rx.ibytes * 8 / M.seconds
	end
	pktgen.stop(tostring(port))
	pktgen.delay(2500)
	local sent, received = stats(port, "port").opackets, stats(back, "port").ipackets
	sums.loss = sent > 0 and (sent - received) / sent * 100 or 0
	return sums
end

-- Run a script's main part, and end Pktgen in any case.
function M.main(body)
	pktgen.screen("off")
	pktgen.delay(500)
	local ok, why = pcall(body)
	if not ok then
		M.line("error: %s", why)
	end
	pktgen.quit()
end

return M
