-- Writes one tick: the seats that changed, the entry for those who follow, the head. Refused (0) unless the head is
-- the writer's own last, so that a paused writer that wakes cannot overwrite its successor.
--
-- KEYS: head, log, events, then the seats of each changed event
-- ARGV: epoch, last seq, new seq, covered, as_of, entry, entries kept,
--       then for each event: number, LSN, "1" if it has no seats left,
--       how many pairs, seat and value of each, how many gone, the seat of each
local AT_ONCE = 1000 -- arguments of one call: Lua's stack ends at about 8,000

local stored = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then
  return 0
end

local at = 8

local function write(command, key, count)
  local last = at + count - 1
  while at <= last do
    local stop = math.min(at + AT_ONCE - 1, last)
    redis.call(command, key, unpack(ARGV, at, stop))
    at = stop + 1
  end
end

for number = 4, #KEYS do
  local event, lsn, empty, pairs_count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  at = at + 4
  write('HSET', KEYS[number], 2 * pairs_count)
  local gone = tonumber(ARGV[at])
  at = at + 1
  write('HDEL', KEYS[number], gone)
  if empty == '1' then
    redis.call('HDEL', KEYS[3], event)
  else
    redis.call('HSET', KEYS[3], event, lsn)
  end
end
redis.call('HSET', KEYS[1], 'seq', ARGV[3], 'covered', ARGV[4], 'as_of', ARGV[5])
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[7], '*',
  'epoch', ARGV[1], 'seq', ARGV[3], 'covered', ARGV[4], 'as_of', ARGV[5], 'deltas', ARGV[6])
return 1
