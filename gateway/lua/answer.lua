-- The first look at what comes in, and the last word on what goes out: success statuses, and refusals that came
-- without their form.
-- REFUSALS (HTTP status -> JSON), IGNORED (names of parameters) and LONGEST_PATH are written above this by
-- gateway/filters.py.

local GRPC_HEADERS = {"grpc-status", "grpc-message", "grpc-status-details-bin", "grpc-encoding", "grpc-accept-encoding"}

local function has_name(path, is_refused)
  local query = string.match(path, "%?(.*)") or ""
  for pair in string.gmatch(query, "[^&]+") do
    if is_refused(string.match(pair, "[^=]*")) then
      return true
    end
  end
  return false
end

-- The transcoder decodes a parameter's name after it has looked at the names to ignore, so that `event%5Fid` would
-- beat the event in the path. No name of ours needs encoding.
local function is_encoded(name)
  return string.find(name, "%", 1, true) ~= nil
end

-- Where the body is the whole message the transcoder would still let a query override it, and a payment token would
-- stand in an address.
local function is_not_ignored(name)
  return not IGNORED[name]
end

local TAIL = "[\128-\191]"
local WELL_FORMED = {
  "[\194-\223]" .. TAIL,
  "\224[\160-\191]" .. TAIL,
  "[\225-\236\238\239]" .. TAIL .. TAIL,
  "\237[\128-\159]" .. TAIL, -- no surrogates
  "\240[\144-\191]" .. TAIL .. TAIL,
  "[\241-\243]" .. TAIL .. TAIL .. TAIL,
  "\244[\128-\143]" .. TAIL .. TAIL,
}

-- A proto's strings are UTF-8: a service could not even read the call, and would answer INTERNAL.
local function is_utf8(path)
  local text = string.gsub(path, "%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
  for _, pattern in ipairs(WELL_FORMED) do
    text = string.gsub(text, pattern, ".") -- not "": what was apart must not become a letter
  end
  return not string.find(text, "[\128-\255]")
end

function envoy_on_request(handle)
  local path = handle:headers():get(":path")
  if path == nil then -- CONNECT has none
    handle:respond({[":status"] = "405"}, "")
  elseif #path > LONGEST_PATH then
    handle:respond({[":status"] = "414"}, "")
  elseif has_name(path, is_encoded) then
    handle:respond({[":status"] = "400"}, "the name of a query parameter is encoded")
  elseif not is_utf8(path) then
    handle:respond({[":status"] = "400"}, "the address is not UTF-8")
  elseif handle:metadata():get("takes_query") == false and has_name(path, is_not_ignored) then
    handle:respond({[":status"] = "400"}, "this call takes no query, only a body")
  end
end

local function replace_body(handle, text)
  local length = handle:body(true):setBytes(text)
  handle:headers():replace("content-type", "application/json")
  handle:headers():replace("content-length", tostring(length))
end

-- An upstream that refuses before our code runs (too many calls, unknown method) sends a status without details.
local function give_form(handle, status)
  local body = handle:body(true)
  local text = body:length() > 0 and body:getBytes(0, body:length()) or ""
  local has_form = string.find(tostring(text), '"reason"', 1, true)
  if not has_form then
    replace_body(handle, REFUSALS[status] or REFUSALS["500"])
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local status = headers:get(":status")
  local success = handle:metadata():get("success_status") -- of the routes that are transcoded
  local untranscoded = string.find(headers:get("content-type") or "", "application/grpc", 1, true) == 1
  for _, name in ipairs(GRPC_HEADERS) do
    headers:remove(name)
  end
  if untranscoded then
    headers:replace(":status", "415")
    replace_body(handle, REFUSALS["415"])
  elseif success ~= nil and status == "499" then -- a replica that ended cancelled it; no caller has gone
    headers:replace(":status", "503")
    give_form(handle, "503")
  elseif success ~= nil and status == "200" then
    headers:replace(":status", success)
  elseif success ~= nil and tonumber(status) >= 400 then
    give_form(handle, status)
  end
end
