-- Atomic: a log goes with all its records and its place in the listing, if it is at the revision.
-- KEYS: the log's hash, its order, the listing it belongs to. ARGV: id, expected revision or ''.
local hash, order, listing = KEYS[1], KEYS[2], KEYS[3]
local state = redis.call('HGET', hash, 's')
local revision = state and string.match(state, '^%d+')
if revision and ARGV[2] ~= '' and tonumber(ARGV[2]) ~= tonumber(revision) then
  return {'conflict', revision}
end
local there = redis.call('UNLINK', hash, order)
redis.call('ZREM', listing, ARGV[1])
return {there > 0 and 'gone' or 'none'}
