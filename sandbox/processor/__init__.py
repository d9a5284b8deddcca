"""A stand-in for the payment processor: the part of Stripe's API that Rowlock uses, and a ledger to judge it by."""
