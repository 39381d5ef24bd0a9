-- Atomic: a log goes with all its records and its place in the listing, if it is at the revision.
-- KEYS: the log's hash, its order, the listing it belongs to. ARGV: id, expected revision or ''.
local hash, order, listing = KEYS[1], KEYS[2], KEYS[3]
if ARGV[2] ~= '' and redis.call('EXISTS', hash, order) > 0 then
  local revision = string.match(redis.call('HGET', hash, 's') or '', '^%d+')
  if not revision then return {'corrupt', 'its state is missing'} end
  if tonumber(ARGV[2]) ~= tonumber(revision) then return {'conflict', revision} end
end
redis.call('ZREM', listing, ARGV[1])
return {redis.call('UNLINK', hash, order) > 0 and 'gone' or 'none'}
