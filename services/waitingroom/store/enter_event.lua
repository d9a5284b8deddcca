-- Trades a position that the line has passed for a lease, once; while the lease lives, the same lease again.
-- ARGV: now, account, position, epoch, grace_ms, lease_ms, max_stay_ms. Returns nil (no such event), {'ENDED', end},
-- {'NOT_YET', admitted_through}, {'MISSED'}, {'LEFT'} or {'ENTERED', now, end of the lease, end of the longest stay}.
local account, asked, grace_ms = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local line = read_line()
if not line then return nil end
if line.ended then return {'ENDED', line['end']} end

local position, max_stay = position_of(account)
local lease = lease_of(account)
if not line.open then
  if tonumber(ARGV[4]) ~= line.epoch then return {'MISSED'} end
  if not position then return {asked == 0 and 'MISSED' or 'LEFT'} end
  if position ~= asked then return {'MISSED'} end
end
if max_stay and lease then return {'ENTERED', now, lease, max_stay} end

if not line.open then
  local state = standing(line, account, position, max_stay, grace_ms)
  if state == 'WAITING' then return {'NOT_YET', line.admitted} end
  if state ~= 'ADMITTED' then return {state} end
  local last, born = cohort_of(position, grace_ms)
  redis.call('HINCRBY', CLAIMS, 'c' .. last, 1)
  redis.call('HINCRBY', CLAIMS, 'a' .. math.floor((now - born) / AGE_MS), 1)
else
  redis.call('ZREMRANGEBYSCORE', LEASES, '-inf', now) -- no tick comes by where there is no line
end
max_stay = now + tonumber(ARGV[7])
lease = math.min(now + tonumber(ARGV[6]), max_stay)
redis.call('HSET', POSITIONS, account, string.format('%d:%.0f', asked, max_stay))
redis.call('ZADD', LEASES, lease, account)
keep_past_sale(line, POSITIONS)
keep_past_sale(line, LEASES)
return {'ENTERED', now, lease, max_stay}
