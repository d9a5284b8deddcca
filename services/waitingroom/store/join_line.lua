-- The account's position, or the next one: dense, in order of arrival. A position that was missed or used up is
-- replaced by one at the back. An event without a line has position 0 for everybody, and nothing is written.
-- ARGV: now, account, grace_ms. Returns nil (no such event), {'ENDED', end} or
-- {state, epoch, position, admitted_through, rate, now, end}. While nothing is left there is no rate to go by.
local account, grace_ms = ARGV[2], tonumber(ARGV[3])
local line = read_line()
if not line then return nil end
if line.ended then return {'ENDED', line['end']} end

local position, max_stay = position_of(account)
local state
if line.open then
  position, state = 0, lease_of(account) and 'ENTERED' or 'ADMITTED'
else
  state = position and standing(line, account, position, max_stay, grace_ms) or 'NONE'
  if state == 'NONE' or state == 'MISSED' or state == 'LEFT' then
    position, state = redis.call('HINCRBY', LINE, 'tail', 1), 'WAITING'
    redis.call('HSET', POSITIONS, account, position)
    keep_past_sale(line, POSITIONS)
  end
end
local rate = not line.stop and redis.call('HGET', LINE, 'rate') or '0'
return {state, line.epoch, position, line.admitted, rate, now, line['end']}
