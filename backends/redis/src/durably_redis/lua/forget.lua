-- Atomic: an id leaves the listing if its log is gone, as one that expired or was evicted.
-- KEYS: the log's hash, the listing. ARGV: id.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.call('ZREM', KEYS[2], ARGV[1])
end
return 0
