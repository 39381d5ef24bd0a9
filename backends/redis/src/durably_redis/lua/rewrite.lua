-- Atomic: records go, others get new data, head and state change, or nothing does.
-- KEYS: the log's hash, its order. ARGV: digest of the change's key, expected revision, the time,
-- '1' with a head, the head, milliseconds to live or '', the seq after which all go or '', how
-- many single seqs go, those, then of each record to replace: seq, entry count, data.
local hash, order = KEYS[1], KEYS[2]
local digest, expected, at, has_head, head, ttl, drop_after, singles = unpack(ARGV, 1, 8)
local FIRST, REMEMBERED = 9, 8

local function text(number) return string.format('%.0f', number) end

local stored = redis.call('HMGET', hash, 's', 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7')
if not stored[1] then
  if redis.call('EXISTS', order) == 1 then
    return {'corrupt', 'a part of it is missing, as after an eviction'}
  end
  return {'conflict', '0'}
end
local numbers = {string.match(stored[1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) %S+$')}
if not numbers[1] then return {'corrupt', 'its state cannot be read'} end
local revision, epoch, count = tonumber(numbers[1]), tonumber(numbers[2]), tonumber(numbers[4])
local entries = tonumber(numbers[5])
if redis.call('ZCARD', order) ~= count then
  return {'corrupt', 'a part of it is missing, as after an eviction'}
end
for slot = 2, REMEMBERED + 1 do
  local change = stored[slot]
  if change and string.sub(change, 1, #digest) == digest then
    local then_revision, then_seq = string.match(change, '^%x+ (%d+) (%d+)$')
    return {'duplicate', then_revision, then_seq}
  end
end
if tonumber(expected) ~= revision then return {'conflict', text(revision)} end

revision = revision + 1
local moved = false

local function index_of(key)
  return string.match(redis.call('HGET', hash, '=' .. key), '^(%d+) (%d+) (%d+) (%S+)$')
end

local function drop(keys)
  for _, key in ipairs(keys) do
    local seq, held = index_of(key)
    redis.call('HDEL', hash, '=' .. key, '#' .. seq)
    redis.call('ZREM', order, key)
    count, entries, moved = count - 1, entries - tonumber(held), true
  end
end

if drop_after ~= '' then
  drop(redis.call('ZRANGEBYSCORE', order, '(' .. drop_after, '+inf'))
end
local replaced = FIRST + tonumber(singles)
for place = FIRST, replaced - 1 do
  drop(redis.call('ZRANGEBYSCORE', order, ARGV[place], ARGV[place]))
end
for place = replaced, #ARGV, 3 do
  local key = redis.call('ZRANGEBYSCORE', order, ARGV[place], ARGV[place])[1]
  if key then
    local seq, held, by, stored_at = index_of(key)
    local index = table.concat({seq, ARGV[place + 1], by, stored_at}, ' ')
    redis.call('HSET', hash, '=' .. key, index, '#' .. seq, ARGV[place + 2])
    if tonumber(held) ~= tonumber(ARGV[place + 1]) then moved = true end
    entries = entries - tonumber(held) + tonumber(ARGV[place + 1])
  end
end

if moved then epoch = revision end
local state = {text(revision), text(epoch), numbers[3], text(count), text(entries), numbers[6], at}
local change = digest .. ' ' .. text(revision) .. ' 0'
redis.call('HSET', hash, 's', table.concat(state, ' '), 'c' .. revision % REMEMBERED, change)
if has_head == '1' then redis.call('HSET', hash, 'head', head) end
if ttl ~= '' then
  local now = redis.call('TIME')
  local ends = text(now[1] * 1000 + math.floor(now[2] / 1000) + ttl)
  redis.call('PEXPIREAT', hash, ends)
  redis.call('PEXPIREAT', order, ends)
else
  redis.call('PERSIST', hash)
  redis.call('PERSIST', order)
end
return {'ok', text(revision), '0'}
