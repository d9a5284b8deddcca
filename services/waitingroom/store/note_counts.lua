-- Notes how many seats are open and held, as the seat feed's picture of `as_of` has it. The note ends by itself: a
-- picture that stands still, like no news at all, stops no line. An older picture than the one noted changes nothing,
-- so any number of processes may note.
-- ARGV: now, open, held, as_of, lifetime_ms. Returns 1 when noted, else 0 (also for an event nobody announced).
local as_of = tonumber(ARGV[4])
local known = redis.call('HMGET', LINE, 'epoch', 'seats_as_of', 'seats_expire')
if not known[1] then return 0 end
local expiry = math.min(now, as_of) + tonumber(ARGV[5])
if expiry <= now then return 0 end
if tonumber(known[3] or 0) > now and tonumber(known[2]) > as_of then return 0 end
redis.call('HSET', LINE, 'seats_open', ARGV[2], 'seats_held', ARGV[3], 'seats_as_of', ARGV[4], 'seats_expire', expiry)
return 1
