-- Every check of one line whose cost does not depend on the crowd that waits. Reads only.
-- ARGV: now, lease_ms, max_stay_ms. Returns JSON: name -> {how many, up to ten examples}; nil for an unknown event.
local EXAMPLES = 10
local lease_ms, max_stay_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local line = read_line()
if not line then return nil end
local names = {'in_flight_over_capacity', 'admitted_past_tail', 'cohort_past_admitted', 'lease_without_position',
  'lease_past_max_stay', 'lease_too_long'}
local found = {}
for _, name in ipairs(names) do found[name] = {0, {}} end

local function report(name, example)
  local entry = found[name]
  entry[1] = entry[1] + 1
  if #entry[2] < EXAMPLES then table.insert(entry[2], example) end
end

-- A tenth for a crowd whose habits change, and four standard deviations of how many of those passed come.
local function largest_zone()
  local former = redis.call('HMGET', LINE, 'former_capacity', 'cut')
  local capacity = line.capacity
  if former[2] and now - former[2] < max_stay_ms then capacity = math.max(capacity, tonumber(former[1])) end
  return capacity * 1.1 + 4 * math.sqrt(capacity)
end

local living = redis.call('ZRANGEBYSCORE', LEASES, '(' .. string.format('%.0f', now), '+inf', 'WITHSCORES')
local in_flight = #living / 2
if not line.open and in_flight > largest_zone() then report('in_flight_over_capacity', tostring(in_flight)) end
if line.admitted > line.tail then report('admitted_past_tail', tostring(line.admitted)) end
local newest = redis.call('ZRANGE', COHORTS, -1, -1, 'WITHSCORES')
if newest[2] and tonumber(newest[2]) > line.admitted then report('cohort_past_admitted', newest[2]) end
for i = 1, #living, 2 do
  local account, expiry = living[i], tonumber(living[i + 1])
  local _, max_stay = position_of(account)
  if not max_stay then
    report('lease_without_position', account)
  elseif expiry > max_stay then
    report('lease_past_max_stay', account)
  end
  if expiry > now + lease_ms then report('lease_too_long', account) end
end
return cjson.encode(found)
