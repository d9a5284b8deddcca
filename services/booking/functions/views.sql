-- Holds and orders as they are read: seats as parallel arrays, ascending by seat id; of an area its name.

CREATE OR REPLACE VIEW hold_view AS
SELECT h.hold_id, h.event_id, h.account, h.expires_at, h.currency_code, h.ticket_count, h.seats, h.prices, h.fees,
       -- An expiry is a fact of the clock, whether or not any worker has been there.
       CASE WHEN h.state = 'ACTIVE' AND h.expires_at <= clock_timestamp() THEN 'EXPIRED' ELSE h.state END AS state,
       l.sections, l.row_names, l.numbers, h.area_id, a.name AS area_name, o.order_id
  FROM hold h
  LEFT JOIN orders o ON o.hold_id = h.hold_id
  LEFT JOIN area a ON a.event_id = h.event_id AND a.area_id = h.area_id
 CROSS JOIN LATERAL (
   SELECT coalesce(array_agg(s.section ORDER BY s.seat_id), '{}') AS sections,
          coalesce(array_agg(s.row_name ORDER BY s.seat_id), '{}') AS row_names,
          coalesce(array_agg(s.number ORDER BY s.seat_id), '{}') AS numbers
     FROM seat s WHERE s.event_id = h.event_id AND s.seat_id = ANY (h.seats)) l;

CREATE OR REPLACE VIEW order_view AS
SELECT o.order_id, o.event_id, o.account, o.hold_id, o.state, o.payment_state, o.failure_reason, o.create_time,
       o.currency_code, o.total_amount, o.fee_amount, o.ticket_count,
       CASE WHEN o.state = 'CONFIRMED' AND o.ticket_time IS NULL THEN 'PENDING'
            WHEN o.ticket_time IS NULL THEN 'NONE' ELSE 'ISSUED' END AS tickets_state,
       l.seats, l.prices, l.sections, l.row_names, l.numbers, o.area_id, a.name AS area_name, o.unit_price
  FROM orders o
  LEFT JOIN area a ON a.event_id = o.event_id AND a.area_id = o.area_id
 CROSS JOIN LATERAL (
   SELECT coalesce(array_agg(b.seat_id ORDER BY b.seat_id), '{}') AS seats,
          coalesce(array_agg(b.price ORDER BY b.seat_id), '{}') AS prices,
          coalesce(array_agg(s.section ORDER BY s.seat_id), '{}') AS sections,
          coalesce(array_agg(s.row_name ORDER BY s.seat_id), '{}') AS row_names,
          coalesce(array_agg(s.number ORDER BY s.seat_id), '{}') AS numbers
     FROM order_seat b
     JOIN seat s ON s.event_id = b.event_id AND s.seat_id = b.seat_id
    WHERE b.order_id = o.order_id) l;
