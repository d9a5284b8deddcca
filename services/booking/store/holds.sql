-- name: hold_seats(wait, grace, accounts, events, keys, fingerprints, ends, seat_requests, seat_events, seats)^
SELECT verdict, hold_id, used, lost_request, lost_seat
  FROM hold_seats(:wait, :grace, :accounts, :events, :keys, :fingerprints, :ends, :seat_requests, :seat_events, :seats);

-- name: get_hold(hold, account)^
SELECT hold_id, event_id, state, expires_at, currency_code, seats, prices, fees, sections, row_names, numbers, order_id
  FROM hold_view WHERE hold_id = :hold AND account = :account;

-- name: release_hold(account, hold)$
SELECT release_hold(:account, :hold);

-- name: sweep_holds(most, grace)$
SELECT sweep_holds(:most, :grace);

-- name: get_sale(event)^
SELECT sale_start_time, sale_end_time, tickets_per_account FROM event WHERE event_id = :event;
