-- Atomic: an id leaves the listing if its log is gone, as one that expired or was evicted.
-- KEYS: the log's hash, its order, the listing. ARGV: id. Answers 'corrupt' if half is left.
if redis.call('EXISTS', KEYS[1]) == 1 then return 'there' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'corrupt' end
redis.call('ZREM', KEYS[3], ARGV[1])
return 'gone'
