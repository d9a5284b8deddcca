-- Goes in front of every script. KEYS are those of one event, always all six and in this order: they share a hash tag.
-- ARGV[1] is the time in milliseconds since 1970 that a test passes; empty, and Redis decides.
--
--   LINE       hash: the policy (version, line, capacity, start, end), the counters (epoch, tail, admitted, …), and
--              what the seat feed last counted (seats_open, seats_held, seats_as_of, good until seats_expire)
--   POSITIONS  hash: account -> "<position>", and once it was used "<position>:<end of the longest stay>"
--   COHORTS    sorted set: the positions passed by one tick, "<first>:<time>" scored by the last; kept for the grace
--   CLAIMS     hash: "c<last>" -> claims of that cohort; "a<age>" -> claims at that age since the last tick
--   LEASES     sorted set: account scored by the time at which its lease ends
--   HISTORY    what the tick has learnt of earlier cohorts, packed
local LINE, POSITIONS, COHORTS, CLAIMS, LEASES, HISTORY = unpack(KEYS)

local AGE_MS = 500 -- a cohort's age is counted in steps of a tick
local KEPT_MS = 86400000 -- a day after the sale for whoever looks into it; then the crowd's memory is given back

local function read_clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now = tonumber(ARGV[1]) or read_clock()

-- Why nobody should be let in: SOLD_OUT or ALL_HELD (what is held may come back); nil when a seat is open, or there is
-- no news of it: then the line goes on.
local function stop_of(line)
  if line.seats_expire <= now or line.seats_open > 0 then return nil end
  return line.seats_held > 0 and 'ALL_HELD' or 'SOLD_OUT'
end

-- The line's policy and counters; nil for an event that nobody has announced. Times of 0 are no bound.
local function read_line()
  local names = {'epoch', 'line', 'capacity', 'start', 'end', 'tail', 'admitted', 'seats_open', 'seats_held',
    'seats_expire'}
  local values = redis.call('HMGET', LINE, unpack(names))
  if not values[1] then return nil end
  local line = {}
  for i, name in ipairs(names) do line[name] = tonumber(values[i]) or 0 end
  line.open = line.line == 0
  line.ended = line['end'] > 0 and now >= line['end']
  line.stop = stop_of(line)
  return line
end

local function keep_past_sale(line, key)
  if line['end'] > 0 then redis.call('PEXPIREAT', key, line['end'] + KEPT_MS) end
end

-- The account's position and, once it was used, the end of its longest stay.
local function position_of(account)
  local position, max_stay = (redis.call('HGET', POSITIONS, account) or ''):match('^(%d+):?(%d*)$')
  return tonumber(position), tonumber(max_stay)
end

-- When the account's lease ends; nil when it has none that lives.
local function lease_of(account)
  local expiry = tonumber(redis.call('ZSCORE', LEASES, account) or 0)
  return expiry > now and expiry or nil
end

-- The last position and the time of the tick that passed this position, while its grace lasts; else nil.
local function cohort_of(position, grace_ms)
  local found = redis.call('ZRANGEBYSCORE', COHORTS, position, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not found[1] then return nil end
  local first, born = found[1]:match('^(%d+):(%d+)$')
  if tonumber(first) > position or now - born > grace_ms then return nil end
  return found[2], tonumber(born)
end

-- WAITING, ADMITTED (passed, within the grace), ENTERED, MISSED (the grace is over) or LEFT (the lease has ended).
local function standing(line, account, position, max_stay, grace_ms)
  if max_stay then return lease_of(account) and 'ENTERED' or 'LEFT' end
  if line.open then return 'ADMITTED' end
  if position > line.admitted then return 'WAITING' end
  return cohort_of(position, grace_ms) and 'ADMITTED' or 'MISSED'
end

