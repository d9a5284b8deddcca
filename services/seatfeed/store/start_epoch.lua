-- Puts a whole new set of pictures in the place of the old. Refused (0) unless the head is still the one that the
-- builder saw before it began; "" for none.
--
-- KEYS: head, log
-- ARGV: old epoch, old seq, new epoch, covered, as_of, entries kept
local stored = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
if (stored[1] or '') ~= ARGV[1] or (stored[2] or '') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], 'epoch', ARGV[3], 'seq', '1', 'covered', ARGV[4], 'as_of', ARGV[5])
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[6], '*',
  'epoch', ARGV[3], 'seq', '1', 'covered', ARGV[4], 'as_of', ARGV[5], 'deltas', '{}')
return 1
