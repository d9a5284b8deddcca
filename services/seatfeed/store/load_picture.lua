-- One event as of the newest tick: seq, LSN of its last delta, its seats. Nothing if the epoch is over.
--
-- KEYS: head, events, seats of the event
-- ARGV: epoch, event
local stored = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
if stored[1] ~= ARGV[1] then
  return false
end
return {stored[2], redis.call('HGET', KEYS[2], ARGV[2]), redis.call('HGETALL', KEYS[3])}
