-- SPDX-License-Identifier: BSD-3-Clause
-- Wireshark's dissector of Weir's aggregation protocol, both header forms (docs/protocol.md).
--
-- Install: copy this file into the personal Lua plugin folder (Help > About Wireshark > Folders;
-- on Linux ~/.local/lib/wireshark/plugins), or: tshark -X lua_script:weir.lua -r FILE
--
-- Packets are not trusted: a byte is read only if the captured frame has it, and every number that
-- contradicts docs/protocol.md gets an expert info. Links between packets are made once, when Wireshark
-- first dissects them in order, and looked up later.

local weir = Proto("weir", "Weir Aggregation Protocol")

-- The codes of docs/protocol.md.
local STATUS = { [0] = "ok", "partial", "error", "waiting", "expired", "stale", "mismatch",
	"out-of-window", "unsupported", "refused", "displaced" }
local COLLECTIVE = { [0] = "allreduce", "reduce", "reducescatter", "broadcast", "scatter", "gather",
	"allgather", "alltoall", "barrier", [13] = "probe", [14] = "acknowledge", [15] = "join" }
-- Types: name, bytes, and of floats of 8 and 16 bits the bits of exponent and fraction. e4m3 has no infinity, and one NaN.
local TYPES = { [0] = { "int8", 1 }, { "uint8", 1 }, { "int16", 2 }, { "uint16", 2 }, { "int32", 4 }, { "uint32", 4 },
	{ "int64", 8 }, { "uint64", 8 }, { "fp16", 2, 5, 10 }, { "bf16", 2, 8, 7 }, { "fp32", 4 }, { "fp64", 8 },
	{ "fp8_e4m3", 1, 4, 3 }, { "fp8_e5m2", 1, 5, 2 } }
local DTYPE, DTYPE_BYTES, E4M3 = {}, {}, 12
for code, row in pairs(TYPES) do DTYPE[code], DTYPE_BYTES[code] = row[1], row[2] end
local OP = { [0] = "sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "lxor" }
-- Settings: name, bytes.
local SETTINGS = { { "window", 2 }, { "elements", 2 }, { "timeout_ms", 4 }, { "type", 1 }, { "op", 1 }, { "integrity", 1 },
	{ "authenticate", 1 }, { "results", 4 }, { "alltoall", 1 }, { "policy", 1 }, { "deterministic", 1 }, { "narrow", 1 },
	{ "rejoin", 1 }, { "dead_after_ms", 4 } }
local FIELD = { "collective", "op", "type", "root", "grad_cnt", "final" }
local KIND = { "contribution", "join", "result", "reply", "acknowledgement", "probe" }
local CONTRIBUTION, JOINING, RESULT, REPLY, ACKNOWLEDGEMENT, PROBING = 1, 2, 3, 4, 5, 6
local OK, PARTIAL, ERROR, WAITING, MISMATCH, REFUSED, DISPLACED = 0, 1, 2, 3, 6, 9, 10
local BARRIER, PROBE, ACKNOWLEDGE, JOIN = 8, 13, 14, 15

-- The part of a block that a packet carries: all, none, a slice, the slices of a column.
local WHOLE, NOTHING, SLICE, COLUMN = 0, 1, 2, 3
-- By collective: contributions of the root and of the others, results to the root and to the others.
local PARTS = {
	[0] = { WHOLE, WHOLE, WHOLE, WHOLE }, -- allreduce
	{ WHOLE, WHOLE, WHOLE, NOTHING }, -- reduce
	{ WHOLE, WHOLE, SLICE, SLICE }, -- reducescatter
	{ WHOLE, NOTHING, WHOLE, WHOLE }, -- broadcast
	{ WHOLE, NOTHING, SLICE, SLICE }, -- scatter
	{ SLICE, SLICE, WHOLE, NOTHING }, -- gather
	{ SLICE, SLICE, WHOLE, WHOLE }, -- allgather
	{ WHOLE, WHOLE, COLUMN, COLUMN }, -- alltoall
	{ NOTHING, NOTHING, NOTHING, NOTHING }, -- barrier
}
-- Where a host that leaves out its own slices does so: in its contribution, in its result; in rooted ones, the root.
local OWN = { [4] = { true, true }, [5] = { true, true }, [6] = { false, true }, [7] = { true, true } }
local REDUCES, ROOTED = {}, {}
for code, row in pairs(PARTS) do
	REDUCES[code] = row[1] == WHOLE and row[2] == WHOLE and row[3] ~= COLUMN
	ROOTED[code] = row[1] ~= row[2] or row[3] ~= row[4]
end
-- From a switch to its parent: the types of accumulators, by type and operation.
local INT32, UINT32, FP32 = 4, 5, 10
local WIDE = { [0] = { [4] = INT32 }, { [4] = UINT32 }, { [4] = INT32 }, { [4] = UINT32 } }
for code, row in pairs(TYPES) do
	if row[3] then WIDE[code] = { [0] = FP32, FP32, [4] = FP32 } end
end
local BASE_BYTES, EXTENDED_BYTES, BITMAP_BYTES, JOIN_BYTES, MISMATCH_BYTES = 12, 16, 32, 16, 8
local TAG_BYTES, CHALLENGE_BYTES, NONCE_BYTES, COUNT_BYTES, KEY_BYTES = 16, 16, 16, 4, 32 -- of jobs with a key
local DISPLACED_BYTES, CRC_BYTES = 12, 4

local FORM_BASE, FORM_EXTENDED = 0, 1
local FORM = { [0] = "base", "extended" }

local f = {
	kind = ProtoField.uint8("weir.kind", "kind", base.DEC, KIND),
	form = ProtoField.uint8("weir.form", "form", base.DEC, FORM),
	job = ProtoField.uint8("weir.job", "job_id"),
	block = ProtoField.uint32("weir.block", "block_id"),
	nonce = ProtoField.uint32("weir.nonce", "block_id (nonce)", base.HEX),
	age_op = ProtoField.uint8("weir.age_op", "age_op", base.DEC, STATUS, 0xf0),
	final = ProtoField.bool("weir.final", "final", 8, nil, 0x08),
	degraded = ProtoField.bool("weir.degraded", "degraded", 8, nil, 0x04),
	reserved = ProtoField.uint8("weir.reserved", "reserved", base.DEC, nil, 0x03),
	src = ProtoField.uint8("weir.src", "src_id"),
	src_cnt = ProtoField.uint8("weir.src_cnt", "src_cnt"),
	gen = ProtoField.uint16("weir.gen", "gen_id"),
	reserved_cnt = ProtoField.uint16("weir.reserved_cnt", "reserved", base.DEC, nil, 0xf000),
	grad_cnt = ProtoField.uint16("weir.grad_cnt", "grad_cnt", base.DEC, nil, 0x0fff),
	collective = ProtoField.uint8("weir.collective", "collective", base.DEC, COLLECTIVE, 0xf0),
	op = ProtoField.uint8("weir.op", "op", base.DEC, OP, 0x0f),
	dtype = ProtoField.uint8("weir.dtype", "dtype", base.DEC, DTYPE, 0xf0),
	flags = ProtoField.uint8("weir.flags", "flags", base.HEX, nil, 0x0f),
	base_results = ProtoField.bool("weir.flags.base_results", "results in the base form", 8, nil, 0x01),
	authenticated = ProtoField.bool("weir.flags.authenticated", "a tag ends the packet", 8, nil, 0x02),
	up = ProtoField.bool("weir.flags.up", "from a switch to its parent", 8, nil, 0x04),
	skips_own = ProtoField.bool("weir.flags.skips_own", "would leave out its own slices", 8, nil, 0x08),
	has_crc = ProtoField.bool("weir.flags.crc", "a CRC ends the packet", 8, nil, 0x08),
	root = ProtoField.uint8("weir.root", "root"),
	status = ProtoField.uint8("weir.status", "status", base.DEC, STATUS),
	payload = ProtoField.bytes("weir.payload", "payload"),
	payload_dtype = ProtoField.uint8("weir.payload.dtype", "dtype of the payload", base.DEC, DTYPE),
	int = ProtoField.int64("weir.element.int", "element"),
	uint = ProtoField.uint64("weir.element.uint", "element"),
	float = ProtoField.double("weir.element.float", "element"),
	bitmap = ProtoField.bytes("weir.bitmap", "bitmap"),
	ranks = ProtoField.string("weir.bitmap.sources", "sources in it"),
	rank = ProtoField.uint8("weir.bitmap.source", "source"),
	missing = ProtoField.string("weir.bitmap.missing", "sources missing"),
	challenge = ProtoField.bytes("weir.join.challenge", "challenge"),
	join_nonce = ProtoField.bytes("weir.join.nonce", "nonce"),
	join_count = ProtoField.uint32("weir.join.count", "count"),
	wrapped = ProtoField.bytes("weir.join.wrapped_key", "wrapped key"),
	newer_address = ProtoField.ipv4("weir.displaced.address", "address"),
	newer_port = ProtoField.uint16("weir.displaced.port", "UDP port"),
	newer_mac = ProtoField.ether("weir.displaced.mac", "MAC address"),
	tag = ProtoField.bytes("weir.tag", "tag"),
	crc = ProtoField.uint32("weir.crc", "CRC", base.HEX),
	trailer = ProtoField.bytes("weir.trailer", "beyond the packet"),
	window = ProtoField.uint16("weir.join.window", "window"),
	options = ProtoField.uint16("weir.join.options", "options", base.HEX, nil, 0xf000),
	full_rows = ProtoField.bool("weir.join.full_rows", "alltoall has full rows", 16, nil, 0x1000),
	crcs = ProtoField.bool("weir.join.crc32c", "packets end with a CRC", 16, nil, 0x8000),
	elements = ProtoField.uint16("weir.join.elements", "elements", base.DEC, nil, 0x0fff),
	join_sources = ProtoField.uint16("weir.join.sources", "sources"),
	join_dtype = ProtoField.uint8("weir.join.dtype", "dtype", base.DEC, DTYPE, 0xf0),
	join_op = ProtoField.uint8("weir.join.op", "op", base.DEC, OP, 0x0f),
	more_ports = ProtoField.uint8("weir.join.more_ports", "UDP ports of each form besides its own", base.DEC, nil, 0xf0),
	join_flags = ProtoField.uint8("weir.join.flags", "flags", base.HEX, nil, 0x0f),
	multicast = ProtoField.bool("weir.join.multicast", "results come by multicast", 8, nil, 0x01),
	all_tagged = ProtoField.bool("weir.join.authenticated", "all packets have tags", 8, nil, 0x02),
	narrow = ProtoField.bool("weir.join.narrow", "narrow types travel upward as they are", 8, nil, 0x04),
	own_skipped = ProtoField.bool("weir.join.skips_own", "own slices are left out", 8, nil, 0x08),
	timeout = ProtoField.uint32("weir.join.timeout_ms", "timeout_ms"),
	group = ProtoField.ipv4("weir.join.group", "group"),
	asks_list = ProtoField.bool("weir.join.asks_list", "would take the list of settings", 8, nil, 0x01),
	listed = ProtoField.bool("weir.join.listed", "a list of settings follows", 16, nil, 0x2000),
	list = ProtoField.bytes("weir.join.settings", "settings"),
	setting = ProtoField.string("weir.join.setting", "setting"),
	field = ProtoField.uint8("weir.mismatch.field", "field", base.DEC, FIELD),
	m_source = ProtoField.uint8("weir.mismatch.source", "source"),
	m_block = ProtoField.uint16("weir.mismatch.block", "block"),
	m_other = ProtoField.uint8("weir.mismatch.other", "other"),
	m_reserved = ProtoField.uint8("weir.mismatch.reserved", "reserved"),
	m_offered = ProtoField.uint16("weir.mismatch.offered", "offered"),
	answer_in = ProtoField.framenum("weir.answer_in", "answered in frame", base.NONE,
		frametype.RESPONSE),
	answer_to = ProtoField.framenum("weir.answer_to", "answers frame", base.NONE, frametype.REQUEST),
	time = ProtoField.double("weir.time", "time since that frame, in seconds"),
	repeats = ProtoField.framenum("weir.repeats", "repeats frame", base.NONE, frametype.RETRANS_PREV),
	late = ProtoField.framenum("weir.late", "later than the block's result in frame"),
}
local expert = {
	truncated = ProtoExpert.new("weir.expert.truncated", "the packet is cut off",
		expert.group.MALFORMED, expert.severity.ERROR),
	impossible = ProtoExpert.new("weir.expert.impossible", "a value that can't be",
		expert.group.PROTOCOL, expert.severity.WARN),
	late = ProtoExpert.new("weir.expert.late", "comes after its block's result",
		expert.group.SEQUENCE, expert.severity.WARN),
	repeated = ProtoExpert.new("weir.expert.repeated", "is repeated",
		expert.group.SEQUENCE, expert.severity.NOTE),
	status = ProtoExpert.new("weir.expert.status", "not every source is in the result",
		expert.group.RESPONSE_CODE, expert.severity.NOTE),
}
-- `pairs` has no fixed order, so register by name.
local function sorted(set)
	local names, list = {}, {}
	for name in pairs(set) do names[#names + 1] = name end
	table.sort(names)
	for i, name in ipairs(names) do list[i] = set[name] end
	return list
end
weir.fields, weir.experts = sorted(f), sorted(expert)

weir.prefs.base_port = Pref.uint("UDP port, base form", 12000, "switch.port_base")
weir.prefs.extended_port = Pref.uint("UDP port, extended form", 12001, "switch.port_extended")
weir.prefs.dtype = Pref.enum("Type of the base form", 10,
	"What the elements of the base form are, where the capture has no accepted join that tells",
	(function()
		local list = {}
		for code = 0, #DTYPE do list[code + 1] = { code + 1, DTYPE[code], code } end
		return list
	end)(), false)
weir.prefs.shown = Pref.uint("Elements shown", 16, "Of each payload, the first so many")

-- ---------------------------------------------------------------- state of the capture

local frames -- by frame number: what is known beyond its bytes
local jobs -- by switch and job: {sources = number, dtype = code, narrow = boolean, crc = boolean, source = {[id] = true}, rank = {[id] = rank},
-- skips = {[id] = boolean}, switch = {[id] = true}}
local streams -- by switch, job and generation: {[source] = stream}

function weir.init()
	frames, jobs, streams = {}, {}, {}
end

local function named(names, code)
	return names[code] or ("reserved " .. code)
end

local function job_of(h)
	local key = h.switch .. "/" .. h.job
	jobs[key] = jobs[key] or { source = {}, rank = {}, skips = {}, switch = {}, highest = -1 }
	return jobs[key]
end

-- {0, 1, 2, 5} as "0-2, 5".
local function ranges(list)
	local parts, i = {}, 1
	while i <= #list do
		local j = i
		while list[j + 1] == list[j] + 1 do j = j + 1 end
		parts[#parts + 1] = i == j and tostring(list[i]) or (list[i] .. "-" .. list[j])
		i = j + 1
	end
	return #parts > 0 and table.concat(parts, ", ") or "none"
end

local function streams_of(h)
	local key = h.switch .. "/" .. h.job .. "/" .. (h.join and "join" or h.gen)
	streams[key] = streams[key] or {}
	return streams[key]
end

local function stream_of(h, source)
	local sources = streams_of(h)
	sources[source] = sources[source] or { block = {}, count = 0, open = 0, deepest = 1 }
	return sources[source], sources
end

-- A stream repeats only recent blocks; a capture replayed in a loop reaches a number again after 4
-- windows or more. `deepest`, the most blocks in flight, estimates the window.
local function is_repeat(stream, entry)
	return entry ~= nil and stream.count - entry.number < 3 * stream.deepest
end

local function link_request(h, number, now, frame)
	local stream, sources = stream_of(h, h.src)
	local entry = stream.block[h.block]
	if is_repeat(stream, entry) then
		frame.repeats = entry.frame
		frame.late = entry.result
		entry.last, entry.last_time = number, now
		entry.request[#entry.request + 1] = frame
		return
	end
	-- Another source has the result: the block was completed without this source.
	for source, other in pairs(sources) do
		local there = other.block[h.block]
		if source ~= h.src and there ~= nil and there.result ~= nil and is_repeat(other, there) then
			frame.late = math.min(frame.late or there.result, there.result)
		end
	end
	stream.count = stream.count + 1
	stream.open = stream.open + 1
	stream.deepest = math.max(stream.deepest, stream.open)
	stream.block[h.block] = { frame = number, time = now, last = number, last_time = now,
		number = stream.count, request = { frame } }
end

-- The packet that ends a block (or an accepted join) answers the first contribution to it. Any other
-- reply, and a repeated result, answers the last one.
local function link_to(stream, h, number, now, frame)
	local entry = stream.block[h.block]
	if entry == nil then
		return
	end
	local first = h.ends and entry.result == nil
	frame.answer_to = first and entry.frame or entry.last
	frame.time = now - (first and entry.time or entry.last_time)
	if first then
		entry.result = number
		stream.open = math.max(stream.open - 1, 0)
	end
	for _, request in ipairs(entry.request) do
		if request.answer_in == nil or (h.ends and not request.ended) then
			request.answer_in, request.ended = number, h.ends
		end
	end
	entry.request = h.ends and {} or entry.request
end

local function link_answer(h, number, now, frame)
	if not h.multicast then
		link_to(stream_of(h, h.src), h, number, now, frame)
		return
	end
	local last = -1
	for _, stream in pairs(streams_of(h)) do
		local one = {}
		link_to(stream, h, number, now, one)
		-- For a multicast result, the contribution that completed the block.
		if one.answer_to ~= nil and one.answer_to > last then
			last, frame.answer_to, frame.time = one.answer_to, one.answer_to, one.time
		end
	end
end

-- Read the job from an accepted join, with the payload at `at`.
local function learn_join(h, buf, at)
	if h.kind ~= REPLY or not h.join or h.status ~= OK or buf:len() < at + JOIN_BYTES then
		return
	end
	local job = job_of(h)
	job.sources = buf(at + 4, 2):uint()
	job.rank[h.src] = h.root
	local dtype = buf(at + 6, 1):bitfield(0, 4)
	job.dtype = DTYPE[dtype] and dtype or job.dtype
	job.crc = buf(at + 2, 1):bitfield(0, 1) == 1
	job.narrow = buf(at + 7, 1):bitfield(5, 1) == 1
	job.skips[h.src] = buf(at + 7, 1):bitfield(4, 1) == 1
end

-- Called once for each frame, in order.
local function learn(h, buf, pinfo)
	local frame = {}
	frames[pinfo.number] = frame
	learn_join(h, buf, h.bytes)
	local job = job_of(h)
	if not h.multicast and h.status ~= REFUSED then
		job.source[h.src] = true
		job.highest = math.max(job.highest, h.src)
	end
	job.switch[h.src] = job.switch[h.src] or h.up
	frame.switch, frame.narrow = job.switch[h.src], job.narrow
	frame.dtype, frame.crc = job.dtype, job.crc
	frame.job_sources = job.sources
	frame.rank, frame.skips = job.rank[h.src], job.skips[h.src] -- both nil: not known
	frame.highest = job.highest
	local now = pinfo.rel_ts
	if h.kind == CONTRIBUTION or h.kind == JOINING then
		link_request(h, pinfo.number, now, frame)
	elseif h.kind ~= ACKNOWLEDGEMENT and h.kind ~= PROBING and h.collective ~= PROBE then
		link_answer(h, pinfo.number, now, frame)
	end
	return frame
end

-- ---------------------------------------------------------------- the header

-- 224.0.0.0/4. The switch sends results there from and to the same port.
local function is_multicast(pinfo)
	local first = tonumber(tostring(pinfo.dst):match("^(%d+)%.%d+%.%d+%.%d+$"))
	return first ~= nil and first >= 224 and first <= 239
end

-- The header at the start of buf, as numbers.
local function read_header(buf, pinfo, form, to_switch)
	local h = { form = form, bytes = form == FORM_EXTENDED and EXTENDED_BYTES or BASE_BYTES }
	h.job, h.block = buf(0, 1):uint(), buf(1, 4):uint()
	h.age_op = buf(5, 1):bitfield(0, 4)
	h.final, h.degraded = buf(5, 1):bitfield(4, 1) == 1, buf(5, 1):bitfield(5, 1) == 1
	h.src, h.src_cnt = buf(6, 1):uint(), buf(7, 1):uint()
	h.gen, h.count = buf(8, 2):uint(), buf(10, 2):bitfield(4, 12)
	h.status = h.age_op
	if form == FORM_EXTENDED then
		h.collective, h.op = buf(12, 1):bitfield(0, 4), buf(12, 1):bitfield(4, 4)
		h.dtype, h.flags = buf(13, 1):bitfield(0, 4), buf(13, 1):bitfield(4, 4)
		h.root, h.second = buf(14, 1):uint(), buf(15, 1):uint()
	end
	h.join = h.collective == JOIN
	h.tagged = h.flags ~= nil and math.floor(h.flags / 2) % 2 == 1
	h.up = to_switch and h.flags ~= nil and math.floor(h.flags / 4) % 2 == 1
	if to_switch then
		h.kind = h.join and JOINING or h.collective == ACKNOWLEDGE and ACKNOWLEDGEMENT
			or h.collective == PROBE and PROBING or CONTRIBUTION
	elseif not h.join and (h.status == OK or h.status == PARTIAL) then
		h.kind = RESULT
	else
		h.kind = REPLY
	end
	h.ends = h.kind == RESULT or h.status == ERROR or h.status == MISMATCH or
		(h.kind == REPLY and h.join and h.status == OK)
	h.barrier = not h.join and (h.collective == BARRIER or (h.collective == nil and h.count == 0))
	h.multicast = not to_switch and is_multicast(pinfo)
	h.switch = tostring(to_switch and pinfo.dst or pinfo.src)
	return h
end

-- The forms of the switch's ports: own = true: only those that it sends from.
local function forms(own)
	local form = {}
	for more = own and 0 or 15, 0, -1 do
		form[weir.prefs.base_port + 2 * more] = FORM_BASE
		form[weir.prefs.extended_port + 2 * more] = FORM_EXTENDED
	end
	return form
end

-- The form of a packet and whether it goes to the switch; nil when neither port is Weir's.
local function direction(buf, pinfo)
	local own = forms(true)
	local to, from = forms(false)[pinfo.dst_port], own[pinfo.src_port]
	if to ~= nil and from ~= nil and own[pinfo.dst_port] == nil then return from, false end
	if to ~= nil and from ~= nil then
		-- Both ports are the switch's: only an answer has a source count.
		local answer = is_multicast(pinfo) or buf:len() >= 8 and buf(7, 1):uint() ~= 0
		return answer and from or to, not answer
	end
	return to or from, to ~= nil
end

local function show_header(tree, buf, h)
	tree:add(f.kind, h.kind):set_generated()
	tree:add(f.form, h.form):set_generated()
	tree:add(f.job, buf(0, 1))
	tree:add(h.join and f.nonce or f.block, buf(1, 4))
	tree:add(f.age_op, buf(5, 1))
	tree:add(f.final, buf(5, 1))
	tree:add(f.degraded, buf(5, 1))
	tree:add(f.reserved, buf(5, 1))
	tree:add(f.src, buf(6, 1))
	tree:add(f.src_cnt, buf(7, 1))
	tree:add(f.gen, buf(8, 2))
	tree:add(f.reserved_cnt, buf(10, 2))
	tree:add(f.grad_cnt, buf(10, 2))
	if h.form == FORM_EXTENDED then
		tree:add(f.collective, buf(12, 1))
		local op = tree:add(f.op, buf(12, 1))
		if h.kind == JOINING then op:add(f.asks_list, buf(12, 1)) end
		tree:add(f.dtype, buf(13, 1))
		local flags = tree:add(f.flags, buf(13, 1))
		flags:add(f.base_results, buf(13, 1))
		flags:add(f.authenticated, buf(13, 1))
		flags:add(f.up, buf(13, 1))
		flags:add(h.kind == JOINING and f.skips_own or f.has_crc, buf(13, 1))
		tree:add(f.root, buf(14, 1))
		tree:add(f.status, buf(15, 1))
	else
		tree:add(f.status, buf(5, 1), h.status):set_generated()
	end
end

-- Call complain(text) for each rule of docs/protocol.md that the header breaks.
local function check_request(h, complain)
	if h.up and h.kind == CONTRIBUTION then
		if (h.status == PARTIAL or h.status == ERROR) ~= h.degraded then
			complain("a contribution to a parent has a bitmap if its status is partial or error")
		end
		if h.status ~= OK and h.status ~= PARTIAL and h.status ~= ERROR and h.status ~= MISMATCH then
			complain("a contribution to a parent has no status " .. named(STATUS, h.status))
		end
	elseif h.up and (h.status ~= 0 or h.degraded) then
		complain("only contributions to a parent have a status")
	elseif not h.up and (h.status ~= 0 or h.degraded or h.src_cnt ~= 0 or (h.second or 0) ~= 0) then
		complain("a packet to the switch has no status, degraded or src_cnt: it is dropped")
	end
	if h.join and h.count ~= 0 then
		complain("a join has grad_cnt 0")
	end
	if (h.collective == BARRIER or h.collective == ACKNOWLEDGE or h.collective == PROBE) and h.count ~= 0 then
		complain("a barrier has no elements, nor has an acknowledgement or a probe")
	end
end

local function check_answer(h, complain)
	if h.second ~= nil and h.second ~= h.age_op then
		complain("age_op and status differ: " .. h.age_op .. " and " .. h.second)
	end
	if STATUS[h.status] == nil then
		complain("status " .. h.status .. " is reserved")
	end
	local bitmap = h.status == PARTIAL or h.status == ERROR or h.status == WAITING
	if bitmap ~= h.degraded then
		complain("status " .. named(STATUS, h.status) .. (h.degraded and " has no bitmap, yet degraded "
			.. "is set" or " has a bitmap, yet degraded is not set"))
	end
	if h.kind == REPLY and h.count ~= 0 then
		complain("a reply without elements has grad_cnt 0")
	end
	if h.join and h.status == PARTIAL then
		complain("a join is never answered partial")
	end
end

local function is_request(h)
	return h.kind == CONTRIBUTION or h.kind == JOINING or h.kind == ACKNOWLEDGEMENT
		or h.kind == PROBING
end

local function check_header(h, complain)
	if is_request(h) then
		check_request(h, complain)
	else
		check_answer(h, complain)
	end
	if h.collective ~= nil and COLLECTIVE[h.collective] == nil then
		complain("collective " .. h.collective .. " is reserved")
	end
	if h.op ~= nil and OP[h.op] == nil then
		complain("op " .. h.op .. " is reserved")
	end
	if h.dtype ~= nil and DTYPE[h.dtype] == nil then
		complain("dtype " .. h.dtype .. " is reserved")
	end
end

-- ---------------------------------------------------------------- the payload

-- A small binary float as a number.
local function small_float(bits, exponent_bits, fraction_bits, finite)
	local one = 2 ^ fraction_bits
	local sign = bits >= one * 2 ^ exponent_bits and -1 or 1
	local exponent = math.floor(bits / one) % 2 ^ exponent_bits
	local fraction = bits % one
	local bias = 2 ^ (exponent_bits - 1) - 1
	if exponent == 2 ^ exponent_bits - 1 and not finite then
		return fraction == 0 and sign * math.huge or 0 / 0
	elseif exponent == 0 then
		return sign * fraction / one * 2 ^ (1 - bias)
	end
	return sign * (1 + fraction / one) * 2 ^ (exponent - bias)
end

-- The field and the value of an element.
local function element(range, dtype)
	local row = TYPES[dtype]
	if dtype == E4M3 and range:le_uint() % 128 == 127 then return f.float, 0 / 0 end
	if row[3] then return f.float, small_float(range:le_uint(), row[3], row[4], dtype == E4M3) end
	if dtype >= 10 then return f.float, range:le_float() end
	if dtype % 2 == 0 then return f.int, range:le_int64() end
	return f.uint, range:le_uint64()
end

local function value_text(value)
	return type(value) == "number" and string.format("%.9g", value) or tostring(value)
end

-- `whole` bytes of elements from `at` on, of which the capture may have fewer.
local function show_elements(tree, buf, at, whole, dtype, count)
	local there = math.min(whole, buf:len() - at)
	if there <= 0 then
		return
	end
	local item = tree:add(f.payload, buf(at, there))
	item:set_text(string.format("payload: %d %s", count, named(DTYPE, dtype)))
	local size = DTYPE_BYTES[dtype]
	if size == nil then
		return
	end
	local shown = math.min(weir.prefs.shown, math.floor(there / size))
	for i = 0, shown - 1 do
		local range = buf(at + i * size, size)
		local field, value = element(range, dtype)
		item:add(field, range, value):set_text("[" .. i .. "]: " .. value_text(value))
		item:append_text((i == 0 and ": " or i < 4 and ", " or "")
			.. (i < 4 and value_text(value) or ""))
	end
	if count > math.min(shown, 4) then
		item:append_text(", ...")
	end
end

local function read_bitmap(buf, at)
	local list = {}
	for byte = 0, BITMAP_BYTES - 1 do
		local bits = buf(at + byte, 1):uint()
		for bit = 0, 7 do
			if math.floor(bits / 2 ^ bit) % 2 == 1 then
				list[#list + 1] = byte * 8 + bit
			end
		end
	end
	return list
end

-- The missing sources, if the capture shows how many there are, numbered from 0.
local function missing_from(list, frame)
	local count = frame.job_sources
	if count == nil or frame.highest >= count or (list[#list] or 0) >= count then
		return nil
	end
	local is_in, missing = {}, {}
	for _, source in ipairs(list) do is_in[source] = true end
	for source = 0, count - 1 do
		if not is_in[source] then missing[#missing + 1] = source end
	end
	return ranges(missing)
end

local function show_bitmap(tree, buf, at, h, frame, complain)
	local range, list = buf(at, BITMAP_BYTES), read_bitmap(buf, at)
	local item = tree:add(f.bitmap, range)
	h.ranks = ranges(list)
	item:set_text("bitmap: " .. h.ranks)
	item:add(f.ranks, range, h.ranks):set_generated()
	for _, source in ipairs(list) do
		item:add(f.rank, buf(at + math.floor(source / 8), 1), source)
	end
	h.missing = missing_from(list, frame)
	if h.missing ~= nil then
		item:add(f.missing, range, h.missing):set_generated()
	end
	if (h.status == PARTIAL or h.status == ERROR) and #list % 256 ~= h.src_cnt then
		complain("src_cnt is " .. h.src_cnt .. ", and the bitmap has " .. #list .. " sources")
	end
end

local function show_join(tree, buf, at, h, complain)
	local item = tree:add(weir, buf(at, JOIN_BYTES), "accepted join")
	local window, elements = buf(at, 2):uint(), buf(at + 2, 2):bitfield(4, 12)
	local sources = buf(at + 4, 2):uint()
	local dtype, op = buf(at + 6, 1):bitfield(0, 4), buf(at + 6, 1):bitfield(4, 4)
	item:add(f.window, buf(at, 2))
	local options = item:add(f.options, buf(at + 2, 2))
	options:add(f.crcs, buf(at + 2, 2))
	options:add(f.listed, buf(at + 2, 2))
	options:add(f.full_rows, buf(at + 2, 2))
	item:add(f.elements, buf(at + 2, 2))
	item:add(f.join_sources, buf(at + 4, 2))
	item:add(f.join_dtype, buf(at + 6, 1))
	item:add(f.join_op, buf(at + 6, 1))
	item:add(f.more_ports, buf(at + 7, 1))
	local flags = item:add(f.join_flags, buf(at + 7, 1))
	flags:add(f.multicast, buf(at + 7, 1))
	flags:add(f.all_tagged, buf(at + 7, 1))
	flags:add(f.narrow, buf(at + 7, 1))
	flags:add(f.own_skipped, buf(at + 7, 1))
	item:add(f.timeout, buf(at + 8, 4))
	item:add(f.group, buf(at + 12, 4))
	h.told = string.format(", window %d, %d elements, %d sources", window, elements, sources)
	local power = 1
	while power < window do power = power * 2 end
	if window ~= power then complain("window " .. window .. " is no power of two") end
	if elements < 1 then complain("elements 0 is not in 1..4095") end
	if buf(at + 2, 1):bitfield(1, 1) ~= 0 then complain("an option is reserved") end
	if sources < 1 or sources > 256 then complain("sources " .. sources .. " is not in 1..256") end
	if not DTYPE[dtype] or not OP[op] then complain("dtype or op of the base form is reserved") end
	local group = buf(at + 12, 1):uint()
	if (buf(at + 7, 1):bitfield(7, 1) == 1) ~= (group >= 224 and group <= 239) then
		complain("the flag and the group of multicast results do not agree")
	end
end

-- The bytes of the list of settings at `at`, its length included; 0: there is none, or it is cut off.
local function list_bytes(buf, at)
	return buf:len() >= at + JOIN_BYTES + 2 and buf(at + 2, 1):bitfield(2, 1) == 1 and
		2 + buf(at + JOIN_BYTES, 2):uint() or 0
end

local function show_list(tree, buf, at, bytes, complain)
	local item, seen, ends = tree:add(f.list, buf(at + 2, bytes - 2)), {}, at + bytes
	at = at + 2
	while at < ends do
		local code = buf(at, 1):bitfield(1, 7)
		local length = at + 1 < ends and buf(at + 1, 1):uint() or ends
		local row = SETTINGS[code]
		if at + 2 + length > ends or seen[code] or code == 0 or (row and row[2] ~= length) then
			complain("the list of settings is malformed")
			return
		end
		seen[code] = true
		local text = row and row[1] .. " " .. buf(at + 2, length):uint() or "setting " .. code
		item:add(f.setting, buf(at, 2 + length), text .. (buf(at, 1):bitfield(0, 1) == 1 and ", must be known" or ""))
		at = at + 2 + length
	end
end

local function show_mismatch(tree, buf, at, h, complain)
	local item = tree:add(weir, buf(at, MISMATCH_BYTES), "mismatch")
	local field = buf(at, 1):uint()
	item:add(f.field, buf(at, 1))
	item:add(f.m_source, buf(at + 1, 1))
	item:add(f.m_block, buf(at + 2, 2))
	item:add(f.m_other, buf(at + 4, 1))
	item:add(f.m_reserved, buf(at + 5, 1))
	item:add(f.m_offered, buf(at + 6, 2))
	local names = ({ COLLECTIVE, OP, DTYPE })[field] or {}
	local block, offered = buf(at + 2, 2):uint(), buf(at + 6, 2):uint()
	h.told = string.format(": %s is %s of source %d, %s of source %d", named(FIELD, field),
		names[block] or block, buf(at + 1, 1):uint(), names[offered] or offered, buf(at + 4, 1):uint())
	if FIELD[field] == nil then complain("field " .. field .. " is reserved") end
end

local function show_displaced(tree, buf, at, h)
	local item = tree:add(weir, buf(at, DISPLACED_BYTES), "newer join")
	item:add(f.newer_address, buf(at, 4))
	item:add(f.newer_port, buf(at + 4, 2))
	item:add(f.newer_mac, buf(at + 6, 6))
	h.told = string.format(", by %s port %d", tostring(buf(at, 4):ipv4()), buf(at + 4, 2):uint())
end

-- May the packet lack its host's own slice?
local function may_lack_own(h, frame)
	local own = OWN[h.collective]
	return own ~= nil and own[h.kind == CONTRIBUTION and 1 or 2] and frame.skips ~= false
end

local function slice_of(h, n, rank)
	return math.floor(h.count / n) + (rank < h.count % n and 1 or 0)
end

-- The number of a block's elements that the packet carries. If the capture has no accepted join with
-- the source's rank, as many as there are bytes for.
local function carried(h, frame, bytes, size, complain)
	local row = PARTS[h.collective]
	if row == nil then return h.count end
	local first = h.kind == CONTRIBUTION and 1 or 3
	local n, rank = frame.job_sources, frame.rank
	if row[first] == row[first + 1] and row[first] <= NOTHING and not may_lack_own(h, frame) then
		return row[first] == WHOLE and h.count or 0
	end
	if frame.switch then
		return math.floor(math.max(bytes, 0) / size) -- the parts of its ranks
	end
	if n ~= nil and n > 0 and rank ~= nil then
		local part, slice = row[rank == h.root and first or first + 1], slice_of(h, n, rank)
		local lacks = may_lack_own(h, frame) and (not ROOTED[h.collective] or rank == h.root)
		local all = part == WHOLE and h.count or part == SLICE and slice or part == COLUMN and n * slice or 0
		return all - (lacks and slice or 0)
	end
	local there = math.floor(math.max(bytes, 0) / size)
	if row[first] ~= row[first + 1] and there ~= 0 and there ~= h.count and not may_lack_own(h, frame) then
		complain("the packet has " .. there .. " elements, neither none nor all of its block")
	end
	return row[first] == COLUMN and there or math.min(there, h.count)
end

-- Does a CRC end the packet? In the base form an accepted join tells.
local function has_crc(h, frame)
	if h.kind == JOINING then return false end
	if h.flags == nil then return frame.crc and h.status ~= REFUSED and h.status ~= DISPLACED end
	return h.flags >= 8
end

-- What follows the header, part by part: {bytes, show(at)}, in order.
local function parts_of(tree, buf, h, frame, complain)
	local parts = {}
	local elements, crc = h.kind == CONTRIBUTION or h.kind == RESULT, has_crc(h, frame)
	if elements and h.count > 0 then
		local wide = h.up and not frame.narrow and (WIDE[h.dtype] or {})[h.op]
		local dtype = REDUCES[h.collective or 0] and wide or h.dtype or frame.dtype or weir.prefs.dtype
		if h.dtype == nil then
			tree:add(f.payload_dtype, dtype):set_generated():append_text(
				frame.dtype and ", from an accepted join" or ", from the preferences")
		end
		local beyond = (h.degraded and BITMAP_BYTES or 0) + (h.tagged and TAG_BYTES or 0)
			+ (crc and CRC_BYTES or 0)
		-- With an unknown type, all the rest is elements.
		local size, whole = DTYPE_BYTES[dtype], buf:reported_len() - h.bytes - beyond
		h.carried = size and carried(h, frame, whole, size, complain) or h.count
		whole = size and h.carried * size or math.max(whole, 0)
		parts[1] = { whole, function(at) show_elements(tree, buf, at, whole, dtype, h.carried) end, true }
	elseif h.kind == REPLY and h.join and h.status == OK then
		local listed = list_bytes(buf, h.bytes)
		parts[1] = { JOIN_BYTES, function(at) show_join(tree, buf, at, h, complain) end }
		if listed > 2 then
			parts[2] = { listed, function(at) show_list(tree, buf, at, listed, complain) end }
		end
	elseif h.kind == REPLY and h.status == DISPLACED then
		parts[1] = { DISPLACED_BYTES, function(at) show_displaced(tree, buf, at, h) end }
	elseif (h.kind == REPLY or h.up) and h.status == MISMATCH then
		parts[1] = { MISMATCH_BYTES, function(at) show_mismatch(tree, buf, at, h, complain) end }
	end
	if h.degraded and (h.kind == RESULT or h.kind == REPLY or h.up) then
		parts[#parts + 1] = { BITMAP_BYTES,
			function(at) show_bitmap(tree, buf, at, h, frame, complain) end }
	end
	if h.tagged then
		local function bytes(field, size)
			parts[#parts + 1] = { size, function(at) tree:add(field, buf(at, size)) end }
		end
		if h.join and (h.kind == JOINING or h.status == OK or h.status == WAITING) then
			bytes(f.challenge, CHALLENGE_BYTES)
		end
		if h.kind == JOINING then
			bytes(f.join_nonce, NONCE_BYTES)
			bytes(f.join_count, COUNT_BYTES)
		elseif h.join and h.status == OK and buf:len() > h.bytes + 7 and
			buf(h.bytes + 7, 1):bitfield(6, 1) == 1 then
			bytes(f.wrapped, KEY_BYTES)
		end
		bytes(f.tag, TAG_BYTES)
	end
	if crc then
		parts[#parts + 1] = { CRC_BYTES, function(at) tree:add_le(f.crc, buf(at, CRC_BYTES)) end }
	end
	return parts
end

local function cut_off(tree, buf, need)
	local text = buf:reported_len() < need and
		string.format("the packet has %d bytes where %d belong", buf:reported_len(), need) or
		string.format("the capture has %d bytes of %d", buf:len(), buf:reported_len())
	tree:add_proto_expert_info(expert.truncated, text)
end

local function show_payload(tree, buf, h, frame, complain)
	local at = h.bytes
	for _, part in ipairs(parts_of(tree, buf, h, frame, complain)) do
		-- Elements may be cut off; other parts are complete or absent.
		if part[3] or buf:len() >= at + part[1] then
			part[2](at)
		end
		at = at + part[1]
	end
	if buf:len() < at or buf:len() < buf:reported_len() then
		cut_off(tree, buf, at)
	end
	if buf:reported_len() > at then
		complain("the packet has " .. buf:reported_len() .. " bytes where " .. at .. " belong")
		if buf:len() > at then tree:add(f.trailer, buf(at)) end
	end
end

-- ---------------------------------------------------------------- the whole

local function show_links(tree, frame)
	if frame.answer_in then tree:add(f.answer_in, frame.answer_in):set_generated() end
	if frame.answer_to then
		tree:add(f.answer_to, frame.answer_to):set_generated()
		tree:add(f.time, frame.time):set_generated()
	end
	if frame.repeats then
		tree:add(f.repeats, frame.repeats):set_generated()
		tree:add_proto_expert_info(expert.repeated, "repeats frame " .. frame.repeats)
	end
	if frame.late then
		tree:add(f.late, frame.late):set_generated()
		tree:add_proto_expert_info(expert.late, "comes after its block's result, frame " .. frame.late)
	end
end

-- "reduce sum fp32 root 1, 22 of 64 elements"; the base form uses the job's type and operation.
local function call_text(h)
	if h.barrier then return "" end
	local words = {}
	if h.collective ~= nil then
		words = { " " .. named(COLLECTIVE, h.collective), REDUCES[h.collective] and named(OP, h.op) or nil }
		words[#words + 1] = named(DTYPE, h.dtype)
		words[#words + 1] = ROOTED[h.collective] and "root " .. h.root or nil
	end
	local part = h.carried ~= nil and h.carried ~= h.count and h.carried .. " of " or ""
	return string.format("%s, %s%d elements", #words > 0 and "," .. table.concat(words, " ") or "", part, h.count)
end

local function info_text(h, frame)
	local of = string.format(" job %d block %d gen %d", h.job, h.block, h.gen)
	local size = call_text(h)
	local last = (h.final and ", final" or "")
	local ranks = h.ranks and ", sources " .. h.ranks or ""
	ranks = ranks .. (h.missing and ", missing " .. h.missing or "")
	if h.kind == CONTRIBUTION then
		local whose = h.up and "switch " or "source "
		if h.up then
			last = string.format(", of %d ranks%s%s", h.src_cnt == 0 and 256 or h.src_cnt, last,
				h.status ~= OK and ", " .. named(STATUS, h.status) .. (h.told or "") .. ranks or "")
		end
		return (frame.late and "Late " or frame.repeats and "Repeated " or "")
			.. (h.barrier and "Barrier" or "Contribution") .. of .. " from " .. whose .. h.src .. size .. last
	elseif h.kind == ACKNOWLEDGEMENT or h.kind == PROBING then
		return (h.kind == PROBING and "Probe" or "Acknowledgement") .. of .. (h.up and " from switch " or " from source ") .. h.src
	elseif h.kind == JOINING then
		return string.format("%sJoin job %d from %s %d, nonce 0x%08x%s", frame.repeats and "Repeated "
			or "", h.job, h.up and "switch" or "source", h.src, h.block, h.flags % 2 == 1 and ", results in the base form" or "")
	elseif h.kind == RESULT then
		return (h.status == PARTIAL and "Partial result" or "Result") .. of .. " to "
			.. (h.multicast and "all" or "source " .. h.src) .. size .. ", of "
			.. (h.src_cnt == 0 and 256 or h.src_cnt) .. " sources" .. last .. ranks
	elseif h.join then
		return string.format("Join %s job %d to source %d, gen %d%s%s", h.status == OK and "accepted" or
			named(STATUS, h.status), h.job, h.src, h.gen, h.told or "", ranks)
	end
	local status = named(STATUS, h.status)
	return "Status " .. status .. of .. " to source " .. h.src .. (h.told or "") .. ranks
end

function weir.dissector(buf, pinfo, root)
	local form, to_switch = direction(buf, pinfo)
	pinfo.cols.protocol = "WEIR"
	local tree = root:add(weir, buf())
	if form == nil or buf:len() < (form == FORM_EXTENDED and EXTENDED_BYTES or BASE_BYTES) then
		pinfo.cols.info = "Truncated"
		cut_off(tree, buf, form == FORM_EXTENDED and EXTENDED_BYTES or BASE_BYTES)
		return buf:len()
	end
	local h = read_header(buf, pinfo, form, to_switch)
	local frame = frames[pinfo.number]
	if frame == nil then
		-- An ICMP error quotes a packet; ignore it.
		frame = pinfo.in_error_pkt and {} or learn(h, buf, pinfo)
	end
	local function complain(text)
		h.wrong = true
		tree:add_proto_expert_info(expert.impossible, text)
	end
	show_header(tree, buf, h)
	check_header(h, complain)
	show_payload(tree, buf, h, frame, complain)
	show_links(tree, frame)
	if h.status ~= OK and not is_request(h) then
		tree:add_proto_expert_info(expert.status, "status " .. named(STATUS, h.status))
	end
	pinfo.cols.info = info_text(h, frame) .. (h.wrong and " [impossible]" or "")
	tree:append_text(", " .. info_text(h, frame))
	return buf:len()
end

-- ---------------------------------------------------------------- the ports

local added = {}

local function listen()
	local ports = DissectorTable.get("udp.port")
	for port in pairs(added) do ports:remove(port, weir) end
	added = forms(false)
	for port in pairs(added) do ports:add(port, weir) end
end

weir.prefs_changed = listen
listen()
