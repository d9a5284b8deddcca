-- Notes what happened inside, and ends the leases of accounts that finished. An event nobody announced is passed over.
-- ARGV: now, commits, conflicts, account, … Returns how many leases ended.
if redis.call('EXISTS', LINE) == 0 then return 0 end
local left = 0
for i = 4, #ARGV do left = left + redis.call('ZREM', LEASES, ARGV[i]) end
redis.call('HINCRBY', LINE, 'left', left)
redis.call('HINCRBY', LINE, 'commits', ARGV[2])
redis.call('HINCRBY', LINE, 'conflicts', ARGV[3])
return left
