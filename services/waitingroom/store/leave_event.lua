-- Gives the lease back, or the position while it was not used. A token of an older position, or of an
-- older counting, gives nothing back.
-- ARGV: now, account, position, epoch. Returns nil (no such event) or 1.
local account = ARGV[2]
local epoch = redis.call('HGET', LINE, 'epoch')
if not epoch then return nil end
local position, max_stay = position_of(account)
if position ~= tonumber(ARGV[3]) or ARGV[4] ~= epoch then return 1 end
if not max_stay then
  redis.call('HDEL', POSITIONS, account)
elseif redis.call('ZREM', LEASES, account) == 1 then
  redis.call('HINCRBY', LINE, 'left', 1)
end
return 1
