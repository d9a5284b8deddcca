-- Takes over a policy unless one as new is known. The epoch is the second in which the line was first announced, so a
-- line that is announced again after its store was lost has a later one.
-- ARGV: now, version, line (0 or 1), capacity, start, end. Returns 1 when taken over, else 0.
local version, capacity = tonumber(ARGV[2]), tonumber(ARGV[4])
local known = redis.call('HMGET', LINE, 'version', 'capacity')
if known[1] and tonumber(known[1]) >= version then return 0 end

-- After a cut those already inside may stay: for that long the old capacity is what the zone may hold.
if known[2] and tonumber(known[2]) > capacity then
  redis.call('HSET', LINE, 'former_capacity', known[2], 'cut', now)
end
redis.call('HSETNX', LINE, 'epoch', math.floor(now / 1000))
redis.call('HSETNX', LINE, 'moved', now)
redis.call('HSET', LINE, 'version', version, 'line', ARGV[3], 'capacity', capacity, 'start', ARGV[5], 'end', ARGV[6])

local line = read_line()
for i = 2, #KEYS do
  redis.call('PERSIST', KEYS[i])
  keep_past_sale(line, KEYS[i])
end
return 1
