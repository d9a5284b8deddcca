-- Says inwards who calls, from verified claims alone; tokens themselves go no further.
-- NAMES (the headers) is written above this by gateway/filters.py.

local LONGEST = 255

local function header_text(value)
  if type(value) == "string" and #value > 0 and #value <= LONGEST and not string.find(value, "[^\32-\126]") then
    return value
  end
end

local function header_number(value)
  if type(value) == "number" and value >= 0 and value % 1 == 0 then
    return string.format("%.0f", value)
  end
end

local function set(headers, name, value)
  if value ~= nil then
    headers:replace(name, value)
  end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  for _, name in ipairs(NAMES.tokens) do
    headers:remove(name)
  end
  local claims = handle:streamInfo():dynamicMetadata():get("envoy.filters.http.jwt_authn")
  if claims == nil or claims.user == nil then
    return
  end
  local account = header_text(claims.user.sub)
  if account == nil then
    handle:respond({[":status"] = "401"}, "Its account is not 1 to 255 printable ASCII characters")
    return
  end
  headers:replace(NAMES.account, account)
  if claims.user.email_verified == true then
    set(headers, NAMES.email, header_text(claims.user.email))
  end
  local line = claims.admission or claims.queue
  if line ~= nil then
    set(headers, NAMES.event, header_text(line.eid))
    set(headers, NAMES.position, header_number(line.pos))
    set(headers, NAMES.epoch, header_number(line.epoch))
  end
end
