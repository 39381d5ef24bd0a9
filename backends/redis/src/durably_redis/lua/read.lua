-- Atomic: state, head and records of one revision.
-- KEYS: the log's hash, its order. ARGV: seq after which, seq until which or '', records at most
-- or '', entries at which to stop or '', '1' from the newest, '1' with data, '1' for the keys that
-- follow alone, those. Answers state, head, then of each record: key, index, data;
-- nothing if there is no log, 'corrupt' if half of one is left.
local hash, order = KEYS[1], KEYS[2]
local after, until_, limit, entry_limit, newest, with_data, by_key = unpack(ARGV, 1, 7)
local FIRST, SLICE = 8, 500
local stored = redis.call('HMGET', hash, 's', 'head')
local count = stored[1] and string.match(stored[1], '^%d+ %d+ %d+ (%d+) ') or 0
if redis.call('ZCARD', order) ~= tonumber(count) then
  return {'corrupt'}
end
if not stored[1] then return {} end
local answer = {stored[1], stored[2]}
local low, high = '(' .. after, until_ == '' and '+inf' or until_
local records_left = limit == '' and math.huge or tonumber(limit)
local entries_left = entry_limit == '' and math.huge or tonumber(entry_limit)

local function give(keys)
  for _, key in ipairs(keys) do
    if records_left <= 0 or entries_left <= 0 then return end
    local index = redis.call('HGET', hash, '=' .. key)
    local seq, held = string.match(index or '', '^(%d+) (%d+)')
    answer[#answer + 1] = key
    answer[#answer + 1] = index
    answer[#answer + 1] = with_data == '1' and seq and redis.call('HGET', hash, '#' .. seq) or false
    records_left, entries_left = records_left - 1, entries_left - (tonumber(held) or 0)
  end
end

local function inside(seq)
  return seq and seq > tonumber(after) and (until_ == '' or seq <= tonumber(until_))
end

if by_key == '1' then
  local found = {}
  for place = FIRST, #ARGV do
    local seq = tonumber(redis.call('ZSCORE', order, ARGV[place]) or nil)
    if inside(seq) then found[#found + 1] = {seq, ARGV[place]} end
  end
  table.sort(found, function(one, other)
    if newest == '1' then return one[1] > other[1] end
    return one[1] < other[1]
  end)
  local keys = {}
  for place, pair in ipairs(found) do keys[place] = pair[2] end
  give(keys)
  return answer
end

local offset = 0
while records_left > 0 and entries_left > 0 do
  local size = math.min(SLICE, records_left)
  local keys
  if newest == '1' then
    keys = redis.call('ZREVRANGEBYSCORE', order, high, low, 'LIMIT', offset, size)
  else
    keys = redis.call('ZRANGEBYSCORE', order, low, high, 'LIMIT', offset, size)
  end
  give(keys)
  if #keys < size then break end
  offset = offset + size
end
return answer
