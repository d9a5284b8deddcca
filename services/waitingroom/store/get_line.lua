-- The line without any person in it. Reads only.
-- ARGV: now. Returns nil or the values named in lines.py, in that order.
local line = read_line()
if not line then return nil end
local stored = redis.call('HMGET', LINE, 'rate', 'claim_rate', 'moved', 'commit_rate', 'conflict_rate', 'tick', 'room')
local in_flight = redis.call('ZCOUNT', LEASES, '(' .. string.format('%.0f', now), '+inf')
return {
  line.epoch, line.line, line.capacity, line.start, line['end'], line.tail, line.admitted, in_flight, now,
  stored[3] or '0', stored[6] or '0', stored[7] or '0', line.stop or '',
  stored[1] or '0', stored[2] or '1', stored[4] or '0', stored[5] or '0',
}
