-- name: hold_seats(wait, grace, accounts, events, keys, fingerprints, ends, seat_requests, seat_events, seats, plans)^
SELECT verdict, version, hold_id, expires_at, used, retry_time, lost_request, lost_seat
  FROM hold_seats(:wait, :grace, :accounts, :events, :keys, :fingerprints, :ends, :seat_requests, :seat_events, :seats,
                  :plans);

-- name: get_hold(hold, account)^
SELECT hold_id, event_id, state, expires_at, currency_code, ticket_count, seats, prices, fees, sections, row_names, numbers,
       area_id, area_name, order_id
  FROM hold_view WHERE hold_id = :hold AND account = :account;

-- name: release_hold(account, hold)$
SELECT release_hold(:account, :hold);

-- name: sweep_holds(most, grace)$
SELECT sweep_holds(:most, :grace);

-- name: count_overdue(grace)^
-- A backlog of more than 10,000 is not counted further: what matters then is how old it is.
SELECT count(*) AS holds, coalesce(extract(epoch FROM now() - CAST(:grace AS interval) - min(q.expires_at)), 0)::float8 AS seconds
  FROM (SELECT expires_at FROM hold WHERE NOT swept AND expires_at <= now() - CAST(:grace AS interval)
         ORDER BY expires_at LIMIT 10000) q;

-- name: get_offer(event)^
-- One statement, so that it is all of one version.
SELECT e.version, e.sale_start_time, e.sale_end_time, e.tickets_per_account, e.currency_code,
       t.tiers, t.prices, t.fees, s.seats, s.seat_tiers, s.sections, s.row_names, s.numbers
  FROM event e
 CROSS JOIN LATERAL (
   SELECT array_agg(q.tier) AS tiers, array_agg(q.price) AS prices, array_agg(q.fee) AS fees
     FROM tier q WHERE q.event_id = e.event_id) t
 CROSS JOIN LATERAL (
   SELECT array_agg(q.seat_id) AS seats, array_agg(q.tier) AS seat_tiers, array_agg(q.section) AS sections,
          array_agg(q.row_name) AS row_names, array_agg(q.number) AS numbers
     FROM (SELECT * FROM seat WHERE event_id = e.event_id ORDER BY seat_id) q) s
 WHERE e.event_id = :event;
