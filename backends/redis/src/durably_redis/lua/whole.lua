-- Atomic: all of a log at one revision. KEYS: its hash, its order.
-- Answers how many records the order has, by which a missing part shows, and the hash.
return {redis.call('ZCARD', KEYS[2]), redis.call('HGETALL', KEYS[1])}
