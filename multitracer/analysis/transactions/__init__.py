"""Request / reply / good-bye transactions: statistics of each size, and two transports compared."""
