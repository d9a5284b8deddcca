// The contract as JSON, lowerCamelCase. Field by field the same as the protos under protos/rowlock; int64 is a
// string, a time is RFC 3339 in UTC. Fields at their default may be absent, so calls.ts fills in what pages rely on.

export interface Money {
  currencyCode: string;
  /** Minor units, an int64: "1250" is EUR 12.50. */
  amountMinor?: string;
}

export interface Venue {
  venueId: string;
  name: string;
  city: string;
  countryCode: string;
  /** IANA name; times of the event are shown in it. */
  timeZone: string;
}

export interface Tier {
  tier?: number;
  name: string;
  price: Money;
  fee?: Money;
  /** "#RRGGBB". */
  color: string;
}

export interface Event {
  eventId: string;
  name: string;
  performer?: string;
  venue: Venue;
  startTime: string;
  saleStartTime?: string;
  saleEndTime?: string;
  tiers: Tier[];
  seatCount: number;
  line?: boolean;
  description?: string;
  /** Areas without seats; their prices are among the tiers. */
  areas: Area[];
  rules?: SaleRules;
}

export interface Area {
  areaId: number;
  name: string;
  /** How many units. */
  capacity: number;
  tier?: number;
}

/** How the sale is run; only what a buyer notices. */
export interface SaleRules {
  ticketsPerAccount?: number;
  bestAvailableOnly?: boolean;
  noResale?: boolean;
  /** Until how many seconds before the start a buyer may cancel; 0 or absent: never. */
  cancelSeconds?: number;
}

export interface PlanSeat {
  seatId: number;
  number: string;
  x?: number;
  y?: number;
  tier?: number;
  accessible?: boolean;
  companion?: boolean;
}

export interface PlanRow {
  row: string;
  seats: PlanSeat[];
}

export interface PlanSection {
  section: string;
  rows: PlanRow[];
}

export interface SeatPlan {
  width: number;
  height: number;
  focalPoint?: { x?: number; y?: number };
  sections: PlanSection[];
}

export interface EventPlan {
  planVersion: string;
  plan: SeatPlan;
  tiers: Tier[];
}

export type PositionState =
  "POSITION_STATE_UNSPECIFIED" | "POSITION_STATE_WAITING" | "POSITION_STATE_ADMITTED" | "POSITION_STATE_ENTERED";

export type LineState =
  | "LINE_STATE_UNSPECIFIED"
  | "LINE_STATE_OPEN"
  | "LINE_STATE_BEFORE_SALE"
  | "LINE_STATE_MOVING"
  | "LINE_STATE_PAUSED"
  | "LINE_STATE_ENDED"
  | "LINE_STATE_SOLD_OUT";

export interface Position {
  epoch: string;
  position: string;
  queueToken: string;
  state: PositionState;
  /** A protobuf Duration: "12.5s". */
  eta?: string;
}

export interface Line {
  epoch: string;
  admittedThrough: string;
  tail: string;
  ratePerSecond: number;
  asOf?: string;
  state: LineState;
}

export interface Admission {
  admissionToken: string;
  leaseExpireTime: string;
  maxStayTime?: string;
  heartbeatInterval?: string;
}

export type PublicSeatState = "PUBLIC_SEAT_STATE_UNSPECIFIED" | "PUBLIC_SEAT_STATE_OPEN" | "PUBLIC_SEAT_STATE_TAKEN";

export interface SectionCounts {
  section: string;
  open: number;
  held: number;
  taken: number;
}

export interface SeatStatus {
  seatId: number;
  state: PublicSeatState;
}

export interface Snapshot {
  asOf: string;
  watermark: string;
  sections: SectionCounts[];
  seats: SeatStatus[];
}

export interface Delta extends Snapshot {
  prev: string;
  resync: boolean;
}

export type HoldState =
  | "HOLD_STATE_UNSPECIFIED"
  | "HOLD_STATE_ACTIVE"
  | "HOLD_STATE_CONFIRMED"
  | "HOLD_STATE_RELEASED"
  | "HOLD_STATE_EXPIRED";

export interface HeldSeat {
  seatId: number;
  section: string;
  row: string;
  number: string;
  price: Money;
}

/** Units of an area. */
export interface HeldArea {
  areaId: number;
  name: string;
  quantity: number;
  /** Of one, without the fee. */
  price: Money;
}

/** What to hold: exactly one of three ways to say it. */
export type Wish =
  | { seatIds: number[] }
  | { bestAvailable: { quantity: number; section?: string; tier?: number; accessible?: number } }
  | { generalAdmission: { areaId: number; quantity: number } };

export interface Hold {
  holdId: string;
  eventId: string;
  state: HoldState;
  expiresAt: string;
  seats: HeldSeat[];
  /** Instead of seats. */
  area?: HeldArea;
  total: Money;
  fees?: Money;
  orderId?: string;
}

export type OrderState =
  | "ORDER_STATE_UNSPECIFIED"
  | "ORDER_STATE_PENDING_PAYMENT"
  | "ORDER_STATE_CONFIRMED"
  | "ORDER_STATE_FAILED"
  | "ORDER_STATE_CANCELLED";

export type PaymentState =
  | "PAYMENT_STATE_UNSPECIFIED"
  | "PAYMENT_STATE_PENDING"
  | "PAYMENT_STATE_UNKNOWN"
  | "PAYMENT_STATE_SUCCEEDED"
  | "PAYMENT_STATE_FAILED";

export type TicketsState =
  "TICKETS_STATE_UNSPECIFIED" | "TICKETS_STATE_NONE" | "TICKETS_STATE_PENDING" | "TICKETS_STATE_ISSUED";

export interface Order {
  orderId: string;
  eventId: string;
  holdId: string;
  state: OrderState;
  paymentState: PaymentState;
  ticketsState: TicketsState;
  seats: HeldSeat[];
  /** Instead of seats. */
  area?: HeldArea;
  total: Money;
  fees?: Money;
  createTime: string;
  failureReason?: string;
}

export interface Ticket {
  ticketId: string;
  orderId: string;
  eventId: string;
  seat?: HeldSeat;
  /** Instead of a seat. */
  area?: HeldArea;
  state: "TICKET_STATE_UNSPECIFIED" | "TICKET_STATE_VALID" | "TICKET_STATE_USED" | "TICKET_STATE_REVOKED";
  barcode: string;
}
