-- SPDX-License-Identifier: BSD-3-Clause
-- A Pktgen that is played: its Lua functions with its argument checks, and a switch behind it that
-- loses each tenth packet. Runs the script that the command line names; calling what Pktgen does
-- not have is an error.
local quit = false
local sent, sending, rate = { [0] = 0, [1] = 0 }, {}, 100

local function ports(list)
	assert(list == "0" or list == "1", "portlist: " .. tostring(list))
	return tonumber(list)
end

local function counts(port)
	local there = sent[0] + sent[1]
	return {
		ipackets = there - there // 10,
		opackets = sent[port],
		ibytes = (there - there // 10) * 100,
		obytes = sent[port] * 100,
	}
end

local known = {
	screen = function(what) assert(what == "on" or what == "off") end,
	delay = function(ms)
		assert(math.type(ms) == "integer", "delay")
		for port in pairs(sending) do
			sent[port] = sent[port] + ms * 10
		end
	end,
	clr = function() sent = { [0] = 0, [1] = 0 } end,
	set = function(list, what, value)
		ports(list)
		assert(what == "rate" or what == "size" or what == "count", what)
		assert(type(value) == "number", "value")
		if what == "rate" then
			rate = value
			assert(rate > 0 and rate <= 100, "rate")
		end
	end,
	set_mac = function(list, which, mac)
		ports(list)
		assert((which == "src" or which == "dst") and mac:match("^%x%x:%x%x:%x%x:%x%x:%x%x:%x%x$"))
	end,
	set_ipaddr = function(list, which, address)
		ports(list)
		-- Pktgen wants a prefix with the source, and none with the destination.
		assert((which == "src") == (address:find("/") ~= nil), address)
	end,
	start = function(list) sending[ports(list)] = true end,
	stop = function(list) sending[ports(list)] = nil end,
	linkState = function(list) return { [ports(list)] = "<UP-100000-FD>", n = 1 } end,
	portStats = function(list, kind)
		assert(kind == "port" or kind == "rate", kind)
		return { [ports(list)] = counts(ports(list)), n = 1 }
	end,
	quit = function() quit = true end,
}

pktgen = setmetatable({}, {
	__index = function(_, name)
		return known[name] or error("Pktgen has no " .. name)
	end,
})

dofile(arg[1])
assert(quit, "the script leaves Pktgen running")
assert(next(sending) == nil, "the script leaves a port sending")
