import { useState } from "preact/hooks";
import type { JSX } from "preact";

import { session, signIn, signOut } from "../account/session.ts";
import { CallbackPage } from "../pages/CallbackPage.tsx";
import { CheckoutPage } from "../pages/CheckoutPage.tsx";
import { EventPage } from "../pages/EventPage.tsx";
import { FindPage } from "../pages/FindPage.tsx";
import { LinePage } from "../pages/LinePage.tsx";
import { OrderPage } from "../pages/OrderPage.tsx";
import { OrdersPage } from "../pages/OrdersPage.tsx";
import { SeatsPage } from "../pages/SeatsPage.tsx";
import { Course, Heading, Problem } from "./parts.tsx";
import { address, Link, match, navigate } from "./router.tsx";

/** Every page by its address. The key makes a page of another id a new page. */
const PAGES: [string, (names: Record<string, string>) => JSX.Element][] = [
  ["/", () => <FindPage />],
  ["/events/:id", ({ id = "" }) => eventStep(id, address.value.searchParams)],
  ["/orders", () => <OrdersPage />],
  ["/orders/:id", ({ id = "" }) => <OrderPage key={id} orderId={id} />],
  ["/callback", () => <CallbackPage />],
];

/** Which step of buying at an event. */
function eventStep(id: string, query: URLSearchParams): JSX.Element {
  const holdId = query.get("hold") ?? "";
  switch (query.get("show")) {
    case "line":
      return <LinePage key={id} eventId={id} />;
    case "seats":
      return <SeatsPage key={id} eventId={id} />;
    case "hold":
      return <CheckoutPage key={holdId} holdId={holdId} />;
    default:
      return <EventPage key={id} eventId={id} />;
  }
}

export function App() {
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <Link to="/" class="brand" aria-label="Rowlock, find events">
          <Course filled={4} total={5} />
          <span>Rowlock</span>
        </Link>
        <nav aria-label="Account">
          <Link to="/orders">My orders</Link>
          <Account />
        </nav>
      </header>
      <main id="main">{pageFor(address.value.pathname)}</main>
    </>
  );
}

function pageFor(path: string): JSX.Element {
  for (const [pattern, page] of PAGES) {
    const names = match(pattern, path);
    if (names) return page(names);
  }
  return <NotFound />;
}

function Account() {
  const [error, setError] = useState<unknown>(null);
  const start = () => {
    setError(null);
    signIn(address.value.pathname + address.value.search).catch(setError);
  };
  const stop = () => {
    navigate("/");
    signOut().catch(() => undefined); // signed out here; the issuer's own page could not be reached
  };
  if (session.value) {
    return (
      <>
        <span class="account" title={session.value.label}>
          {session.value.label}
        </span>
        <button type="button" class="button small" onClick={stop}>
          Sign out
        </button>
      </>
    );
  }
  return (
    <>
      <button type="button" class="button small" onClick={start}>
        Sign in
      </button>
      {error !== null && <Problem error={error} />}
    </>
  );
}

function NotFound() {
  return (
    <section class="panel narrow">
      <Heading title="Nothing here" />
      <p>This address leads nowhere.</p>
      <Link class="button" to="/">
        Find events
      </Link>
    </section>
  );
}
