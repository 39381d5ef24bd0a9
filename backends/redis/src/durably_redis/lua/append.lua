-- Atomic: records, head, state and the log's place in the listing change together, or none does.
-- KEYS: the log's hash, its order, the listing it belongs to. ARGV: id, digest of the batch's key,
-- expected revision or '', how many records to keep or '', a random number, the time, '1' with a
-- head, the head, milliseconds to live or '', then of each record: key, entry count, data, '1' if
-- its key is derived from the batch's.
local hash, order, listing = KEYS[1], KEYS[2], KEYS[3]
local id, digest, expected, keep, random, at, has_head, head, ttl = unpack(ARGV, 1, 9)
local FIRST, WIDTH, REMEMBERED = 10, 4, 8

local function text(number) return string.format('%.0f', number) end

local stored = redis.call('HMGET', hash, 's', 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7')
local revision, epoch, next_seq, count, entries, created = 0, 0, 1, 0, 0, at
if stored[1] then
  local numbers = {string.match(stored[1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) %S+$')}
  if not numbers[1] then return {'corrupt', 'its state cannot be read'} end
  revision, epoch, next_seq = tonumber(numbers[1]), tonumber(numbers[2]), tonumber(numbers[3])
  count, entries, created = tonumber(numbers[4]), tonumber(numbers[5]), numbers[6]
end
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

local places, known, carried = {}, 0, nil
for place = FIRST, #ARGV, WIDTH do
  local found = stored[1] and redis.call('HGET', hash, '=' .. ARGV[place])
  if found then
    local seq, by = string.match(found, '^(%d+) %d+ (%d+) %S+$')
    places[place], known = seq, known + 1
    if ARGV[place + 3] == '1' and not carried then carried = {by, seq} end
  end
end
local last = #ARGV - WIDTH + 1
if carried then return {'duplicate', carried[1], places[last] or carried[2]} end
if expected ~= '' and tonumber(expected) ~= revision then
  return {'conflict', text(revision)}
end
local wanted = (#ARGV - FIRST + 1) / WIDTH
if wanted > 0 and known == wanted then
  return {'duplicate', text(revision), places[last]}
end

if not stored[1] then
  redis.call('ZADD', listing, 0, id)
  revision = tonumber(random)
  epoch = revision + 1
end
revision = revision + 1
for place = FIRST, #ARGV, WIDTH do
  if not places[place] then
    local key, held, data, seq = ARGV[place], ARGV[place + 1], ARGV[place + 2], text(next_seq)
    local index = table.concat({seq, held, text(revision), at}, ' ')
    redis.call('HSET', hash, '=' .. key, index, '#' .. seq, data)
    redis.call('ZADD', order, seq, key)
    places[place] = seq
    next_seq, count, entries = next_seq + 1, count + 1, entries + tonumber(held)
  end
end

if keep ~= '' and count > tonumber(keep) then
  local excess = count - tonumber(keep)
  for _, key in ipairs(redis.call('ZRANGE', order, 0, excess - 1)) do
    local seq, held = string.match(redis.call('HGET', hash, '=' .. key), '^(%d+) (%d+)')
    redis.call('HDEL', hash, '=' .. key, '#' .. seq)
    entries = entries - tonumber(held)
  end
  redis.call('ZREMRANGEBYRANK', order, 0, excess - 1)
  count = count - excess
end

local seq = places[last] or '0'
local state = {text(revision), text(epoch), text(next_seq), text(count), text(entries), created, at}
local change = digest .. ' ' .. text(revision) .. ' ' .. seq
redis.call('HSET', hash, 's', table.concat(state, ' '), 'c' .. revision % REMEMBERED, change)
if has_head == '1' then redis.call('HSET', hash, 'head', head) end
if ttl ~= '' then
  local now = redis.call('TIME')
  local ends = text(now[1] * 1000 + math.floor(now[2] / 1000) + ttl)
  redis.call('PEXPIREAT', hash, ends)
  redis.call('PEXPIREAT', order, ends)
elseif stored[1] then
  redis.call('PERSIST', hash)
  redis.call('PERSIST', order)
end
return {'ok', text(revision), seq}
