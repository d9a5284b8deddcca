-- Sweeps the leases, counts who is inside and who is promised a place inside, and moves the line by what is left.
-- Reading and moving are one script, so any number of admitters may run, and none need lead.
--
-- Promised are the positions passed that were not claimed and are not void: without them every tick before the first
-- claim admits the whole zone again. Each tick's cohort is weighted by the chance that a position which has not been
-- claimed at its age still will be, learnt from earlier cohorts; and those inside who will have left by the time the
-- promised ones come make room for them.
--
-- While no seat is open the line stands, and its bookkeeping goes on.
--
-- ARGV: now, grace_ms. Returns {outcome, advanced}: NO_LINE, TOO_SOON, NOT_ON_SALE, SOLD_OUT, ALL_HELD, STOOD or
-- ADVANCED.
local GAP_MS = 400 -- a tick sooner after the last does nothing
local WINDOW_MS = 30000 -- rates are averaged over this
local MEMORY = 0.998 -- what a tick keeps of what was learnt: half is forgotten in three minutes
local ENOUGH = 50 -- positions that must have reached an age before anything is believed of it
local LEAST_CLAIM_RATE = 0.05 -- below, one late crowd would be admitted twenty times over

local grace_ms = tonumber(ARGV[2])
local AGES = math.max(1, math.ceil(grace_ms / AGE_MS))

local function smooth(old, count, elapsed)
  return old + (count * 1000 / elapsed - old) * math.min(1, elapsed / WINDOW_MS)
end

local function age_of(born, time)
  return math.max(0, math.min(AGES, math.floor((time - born) / AGE_MS)))
end

local function read_history()
  local packed = redis.call('GET', HISTORY)
  local history = packed and cmsgpack.unpack(packed) or {claims = {}, reached = {}}
  for age = 1, AGES do
    history.claims[age] = history.claims[age] or 0
    history.reached[age] = history.reached[age] or 0
  end
  return history
end

local function read_cohorts()
  local flat, cohorts = redis.call('ZRANGE', COHORTS, 0, -1, 'WITHSCORES'), {}
  for i = 1, #flat, 2 do
    local first, born = flat[i]:match('^(%d+):(%d+)$')
    local last = tonumber(flat[i + 1])
    cohorts[#cohorts + 1] = {member = flat[i], last = last, passed = last - first + 1, born = tonumber(born)}
  end
  return cohorts
end

-- Claims counted by enter_event since the last tick go to the ages they came at; the counts of each cohort are returned.
local function collect_claims(history)
  local flat, claimed = redis.call('HGETALL', CLAIMS), {}
  for i = 1, #flat, 2 do
    local kind, number = flat[i]:sub(1, 1), tonumber(flat[i]:sub(2))
    if kind == 'c' then
      claimed[number] = tonumber(flat[i + 1])
    else
      local age = math.min(AGES, number + 1)
      history.claims[age] = history.claims[age] + flat[i + 1]
      redis.call('HDEL', CLAIMS, flat[i])
    end
  end
  return claimed
end

-- Ages that a cohort completed since the last tick were reached by all of it. A cohort past its grace is void.
local function grow_old(cohorts, history, last_tick)
  local living = {}
  for _, cohort in ipairs(cohorts) do
    cohort.age = age_of(cohort.born, now)
    for age = age_of(cohort.born, last_tick) + 1, cohort.age do
      history.reached[age] = history.reached[age] + cohort.passed
    end
    if now - cohort.born <= grace_ms then
      living[#living + 1] = cohort
    else
      redis.call('ZREM', COHORTS, cohort.member)
      redis.call('HDEL', CLAIMS, 'c' .. string.format('%.0f', cohort.last))
    end
  end
  return living
end

-- What share of a cohort has claimed by each age; the share that ever does; how late on average, in ms.
local function claim_curve(history)
  local by_age, ever, weighted = {[0] = 0}, 0, 0
  for age = 1, AGES do
    local reached = history.reached[age]
    local share = reached > ENOUGH and history.claims[age] / reached or 0
    ever, weighted = ever + share, weighted + (age - 0.5) * AGE_MS * share
    by_age[age] = ever
  end
  local known = history.reached[AGES] > ENOUGH
  local rate = known and math.min(1, math.max(LEAST_CLAIM_RATE, ever)) or 1
  return {by_age = by_age, known = known, rate = rate, delay_ms = known and weighted / math.max(ever, 1e-6) or 0}
end

local function count_promised(cohorts, claimed, curve, leaving)
  local promised = 0
  for _, cohort in ipairs(cohorts) do
    local by_now = curve.by_age[cohort.age]
    local chance = curve.known and math.max(0, curve.rate - by_now) / math.max(1e-6, 1 - by_now) or 1
    promised = promised + (cohort.passed - (claimed[cohort.last] or 0)) * chance
  end
  return math.max(0, promised - leaving * curve.delay_ms / 1000)
end

local function forget(history, elapsed)
  local kept = MEMORY ^ (elapsed / AGE_MS)
  for age = 1, AGES do
    history.claims[age] = history.claims[age] * kept
    history.reached[age] = history.reached[age] * kept
  end
end

local line = read_line()
if not line or line.open then return {'NO_LINE', 0} end
local names = {'tick', 'left', 'commits', 'conflicts', 'rate', 'leaving', 'commit_rate', 'conflict_rate', 'moved'}
local values, stored = redis.call('HMGET', LINE, unpack(names)), {}
for i, name in ipairs(names) do stored[name] = tonumber(values[i]) or 0 end
if math.abs(now - stored.tick) < GAP_MS then return {'TOO_SOON', 0} end
local elapsed = stored.tick > 0 and now > stored.tick and now - stored.tick or AGE_MS

local left = stored.left + redis.call('ZREMRANGEBYSCORE', LEASES, '-inf', now)
local in_flight = redis.call('ZCARD', LEASES)
local leaving = smooth(stored.leaving, left, elapsed)
local history = read_history()
local claimed = collect_claims(history)
local cohorts = grow_old(read_cohorts(), history, stored.tick)
local curve = claim_curve(history)

local on_sale = now >= line.start and not line.ended
local promised = count_promised(cohorts, claimed, curve, leaving)
local room = math.max(0, math.floor((line.capacity - in_flight - promised) / curve.rate))
local advanced = on_sale and not line.stop and math.min(room, line.tail - line.admitted) or 0
if advanced > 0 then
  local last = line.admitted + advanced
  redis.call('HSET', LINE, 'admitted', last)
  redis.call('ZADD', COHORTS, last, string.format('%.0f:%.0f', line.admitted + 1, now))
end

-- The line moved, or had nobody to move for.
local idle = not on_sale or line.stop or line.tail == line.admitted
local moved = (advanced > 0 or idle) and now or stored.moved
forget(history, elapsed)
redis.call('SET', HISTORY, cmsgpack.pack(history))
redis.call('HSET', LINE, 'tick', now, 'left', 0, 'commits', 0, 'conflicts', 0, 'moved', moved, 'room', room,
  'leaving', leaving, 'claim_rate', curve.rate, 'rate', smooth(stored.rate, advanced, elapsed),
  'commit_rate', smooth(stored.commit_rate, stored.commits, elapsed),
  'conflict_rate', smooth(stored.conflict_rate, stored.conflicts, elapsed))
for _, key in ipairs({COHORTS, CLAIMS, HISTORY}) do keep_past_sale(line, key) end
if not on_sale then return {'NOT_ON_SALE', 0} end
if line.stop then return {line.stop, 0} end
return {advanced > 0 and 'ADVANCED' or 'STOOD', advanced}
