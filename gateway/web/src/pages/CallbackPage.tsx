import { useEffect, useState } from "preact/hooks";

import { completeSignIn } from "../account/session.ts";
import { Heading, Loading, Problem } from "../shell/parts.tsx";
import { address, Link, navigate } from "../shell/router.tsx";

/** Where the issuer sends people back to. */
export function CallbackPage() {
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    completeSignIn(address.value.searchParams).then((returnTo) => navigate(returnTo, { replace: true }), setError);
  }, []);
  if (error === null) return <Loading what="your account" />;
  return (
    <section class="panel narrow">
      <Heading title="Not signed in" />
      <Problem error={error} />
      <Link class="button" to="/">
        Back to the events
      </Link>
    </section>
  );
}
