-- Renews a lease that lives, never past the longest stay, and never makes it shorter.
-- ARGV: now, account, lease_ms. Returns nil (no such event), {'LEFT'} or
-- {'ENTERED', now, end of the lease, end of the longest stay}.
local account = ARGV[2]
if redis.call('EXISTS', LINE) == 0 then return nil end
local _, max_stay = position_of(account)
local lease = lease_of(account)
if not (max_stay and lease) then return {'LEFT'} end
lease = math.max(lease, math.min(now + tonumber(ARGV[3]), max_stay))
redis.call('ZADD', LEASES, 'XX', lease, account)
return {'ENTERED', now, lease, max_stay}
